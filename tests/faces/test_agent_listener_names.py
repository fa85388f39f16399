"""Listeners at a name: the server follows what the name stands for, and waits for no name server."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from drumbeat.server.access import name_lookups
from drumbeat.server.access.agent_listeners import AgentListenerRules, TlsAgentListeners
from drumbeat.wiring import SystemClock
from tests.faces.api_house import eventually

pytestmark = pytest.mark.feature("C4")
NAME = "localhost"  # No other name may stand for loopback, which is all that a test has.


class NameServer:
    """Implements `socket.getaddrinfo`. number: why it knows nothing, 0 = it knows that the name stands for `ips`."""

    def __init__(self) -> None:
        self.ips, self.number = ["127.0.0.2"], 0
        self.asked: list[str] = []
        self.answers = threading.Event()
        self.answers.set()

    def __call__(self, host: str, *_: object, **__: object) -> list[object]:
        self.asked.append(host)
        assert self.answers.wait(60)
        if self.number:
            raise socket.gaierror(self.number, "nobody knows")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (ip, 0)) for ip in self.ips]


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Iterator[NameServer]:
    server = NameServer()
    monkeypatch.setattr(socket, "getaddrinfo", server)
    monkeypatch.setattr(name_lookups, "_INTERVAL_S", 0.0)
    yield server
    server.answers.set()


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Callable[[], TlsAgentListeners]]:
    made: list[TlsAgentListeners] = []

    def listeners() -> TlsAgentListeners:
        made.append(TlsAgentListeners(AgentListenerRules(tmp_path / "ca.pem", tmp_path / "doors.json"), SystemClock()))
        return made[-1]

    yield listeners
    for each in made:
        each.close()


def is_open(ip: str, port: int) -> bool:
    with socket.socket() as line:
        return line.connect_ex((ip, port)) == 0


def looks_until(listeners: TlsAgentListeners, condition: Callable[[], bool]) -> None:
    def look() -> bool:
        listeners.refresh([NAME])
        return condition()

    eventually(look)


def test_a_name_is_followed_while_its_old_address_stays_here(
    names: NameServer, make: Callable[[], TlsAgentListeners]
) -> None:
    listeners = make()
    (url,) = listeners.urls([NAME])
    port = urlsplit(url).port or 0
    names.ips = ["127.0.0.3"]
    looks_until(listeners, lambda: is_open("127.0.0.3", port))
    assert listeners.urls([NAME]) == (url,)
    names.number = socket.EAI_AGAIN
    asked = len(names.asked)
    looks_until(listeners, lambda: len(names.asked) > asked + 1)
    assert is_open("127.0.0.3", port), "a name server that doesn't answer shuts nothing"
    listeners.close()
    assert not is_open("127.0.0.2", port)
    assert not is_open("127.0.0.3", port)


def test_listener_opens_once_a_name_unknown_at_the_start_resolves(
    names: NameServer, make: Callable[[], TlsAgentListeners]
) -> None:
    before = make()
    (url,) = before.urls([NAME])
    before.close()
    names.number = socket.EAI_AGAIN
    listeners = make()
    listeners.reopen()
    listeners.refresh([NAME])
    assert listeners.hosts() == frozenset()
    assert listeners.awaits(NAME)
    names.number = 0
    looks_until(listeners, lambda: listeners.hosts() == {urlsplit(url).netloc})


def test_a_look_waits_for_no_name_server(names: NameServer, make: Callable[[], TlsAgentListeners]) -> None:
    listeners = make()
    listeners.urls([NAME])
    names.answers.clear()
    for _ in range(3):  # Each would wait for as long as the name server does.
        listeners.refresh([NAME])
    eventually(lambda: len(names.asked) == 2)
    names.ips = ["127.0.0.3"]
    names.answers.set()
    port = listeners.views()[0].port
    looks_until(listeners, lambda: is_open("127.0.0.3", port))


def test_a_name_that_no_compute_has_is_looked_up_no_more(
    tmp_path: Path, names: NameServer, make: Callable[[], TlsAgentListeners]
) -> None:
    (tmp_path / "doors.json").write_text(json.dumps({"gone.example": 4000, NAME: 4001}))
    names.number = socket.EAI_AGAIN
    listeners = make()
    listeners.reopen()
    asked = len(names.asked)
    looks_until(listeners, lambda: len(names.asked) > asked + 1)
    assert set(names.asked[asked:]) == {NAME}

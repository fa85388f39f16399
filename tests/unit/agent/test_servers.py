"""Which servers an agent knows, and where it goes when the one that it knows is gone."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from drumbeat.agent.link import Link
from drumbeat.agent.servers import known, remember
from drumbeat.protocol.agent import Enrolment
from drumbeat.protocol.errors import AwayError, DrumbeatError, UnreachableError
from drumbeat.protocol.plan import Plan

PLAN = Plan("j", "e", "pytorch", 1, 1, "true", ())
ONE, TWO, FAR = "http://127.0.0.1:1", "http://127.0.0.1:2", "https://10.0.0.1:1"


def enrolled(root: Path, *servers: str) -> Enrolment:
    return Enrolment("j", 1, 0, servers, "s", str(root), "/c", PLAN)


@contextmanager
def a_server(name: str, error: DrumbeatError | None = None) -> Iterator[str]:
    """Answers everything with its name, or with an error."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.dumps(error.as_dict() if error else {"directive": name}).encode()
            self.send_response(503 if error else 200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=[0.01])
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def test_what_was_told_last_counts_beside_the_enrolment(tmp_path: Path):
    given = enrolled(tmp_path, ONE)
    assert known(given) == [ONE]
    remember(given, (TWO, ONE))
    assert known(given) == [ONE, TWO]
    assert known(given, [TWO, "http://127.0.0.1:3"]) == [TWO, ONE], "the one that answered stays first"
    remember(given, ())
    assert known(given) == [ONE]


@pytest.mark.parametrize("text", ["", "{", "7", "null", '{"a": 1}', "\xff"])
def test_a_file_that_is_damaged_says_nothing(tmp_path: Path, text: str):
    (tmp_path / "servers.json").write_text(text, encoding="latin-1")
    assert known(enrolled(tmp_path, ONE))[0] == ONE


def test_what_cant_be_kept_does_no_harm(tmp_path: Path):
    remember(enrolled(tmp_path / "none", ONE), (TWO,))
    assert known(enrolled(tmp_path / "none", ONE)) == [ONE]


def test_the_secret_is_told_only_where_it_is_safe(tmp_path: Path):
    remember(enrolled(tmp_path), (ONE, "http://10.0.0.9:1", FAR, "ftp://x"))
    assert known(enrolled(tmp_path, ONE)) == [ONE]
    assert known(enrolled(tmp_path, "https://10.0.0.2:2")) == ["https://10.0.0.2:2", FAR], "never its own machine"


@pytest.mark.feature("F5")
def test_an_open_link_goes_to_a_server_that_it_heard_of_meanwhile(tmp_path: Path):
    with a_server("one") as one:
        given = enrolled(tmp_path, one)
        link = Link(given, 5)
        assert link.sync({}, "", 0) == "one"
    with a_server("two") as two:
        remember(given, (one, two))
        with pytest.raises(UnreachableError):
            link.sync({}, "", 0)
        assert link.sync({}, "", 0) == "two"
        assert Link(given, 5).sync({}, "", 0) == "two", "as does an agent that is started again"
        link._drop()


@pytest.mark.feature("F5")
def test_a_server_without_its_database_is_left_for_another(tmp_path: Path):
    with a_server("one", AwayError("database: it doesn't answer")) as one, a_server("two") as two:
        link = Link(enrolled(tmp_path, one, two), 5)
        with pytest.raises(UnreachableError, match="it doesn't answer"):
            link.sync({}, "", 0)
        assert link.sync({}, "", 0) == "two"
        link._drop()


@pytest.mark.feature("F5")
def test_a_machine_that_is_silent_is_given_up_for_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("drumbeat.agent.link.CONNECT_S", 0.2)
    with socket.create_server(("127.0.0.1", 0), backlog=1) as deaf, a_server("two") as two:
        place = deaf.getsockname()
        waiting = []
        for _ in range(4):  # Until its queue is full, and it answers nobody any more.
            one = socket.socket()
            one.setblocking(False)
            one.connect_ex(place)
            waiting.append(one)
        link = Link(enrolled(tmp_path, f"http://127.0.0.1:{place[1]}", two), 600)
        assert link.sync({}, "", 0) == "two"
        link._drop()
        for one in waiting:
            one.close()

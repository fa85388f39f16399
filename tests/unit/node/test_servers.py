"""Which servers an agent knows, and where it goes when the one that it knows is gone."""

from __future__ import annotations

import json
import queue
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.client import parse_headers
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import StreamRequestHandler, ThreadingUnixStreamServer

import pytest

from drumbeat.model.agent import Enrolment, Takeover
from drumbeat.model.errors import (
    AwayError,
    DrumbeatError,
    NotFoundError,
    StaleError,
    UnauthorizedError,
    UnreachableError,
)
from drumbeat.model.plan import Plan
from drumbeat.model.server_era import era_text
from drumbeat.model.wire import dumps
from drumbeat.node.agent.takeover import next_enrolment
from drumbeat.node.host.gangs import Gangs, write_enrolment
from drumbeat.node.metrics.http_messages import Read
from drumbeat.node.platform.server_addresses import Servers, remember
from drumbeat.node.platform.server_era import note_era
from drumbeat.node.platform.server_link import NoAnswerError, ServerLink
from drumbeat.server.errors import http_status
from tests.support.agent_server import HomeSocketServer

PLAN = Plan("j", "e", "pytorch", 1, 1, "true", ())
ONE, TWO, FAR = "unix:/none/1/server.sock", "unix:/none/2/server.sock", "https://10.0.0.1:1"
TWO_FAR, NEW_FAR = "https://10.0.0.2:1", "https://10.0.0.3:1"
TAKEOVER = Takeover("k", 1, "s", "p", PLAN, "root.k.1")


def enrolled(root: Path, *servers: str) -> Enrolment:
    return Enrolment("j", 1, 0, servers, "s", str(root), "/c", PLAN)


@contextmanager
def a_server(
    name: str,
    error: DrumbeatError | None = None,
    before: Callable[[], object] | None = None,
    raw: tuple[int, str] | None = None,
    heard: list[bytes] | None = None,
) -> Iterator[str]:
    """Answers everything with its name, with an error, or with any status and text.

    before: is called before each answer; and then connections are kept open. heard: takes the requests' bodies.
    """

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1" if before else "HTTP/1.0"

        def do_POST(self) -> None:
            asked = self.rfile.read(int(self.headers["Content-Length"]))
            if heard is not None:
                heard.append(asked)
            if before:
                before()
            status, text = raw or (
                http_status(error) if error else 200, json.dumps(error.as_dict() if error else {"directive": name})
            )  # fmt: skip
            body = text.encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with a_home() as path, HomeSocketServer(path, Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=[0.01])
        thread.start()
        try:
            yield f"unix:{path}"
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def a_home() -> Iterator[str]:
    """The path of a socket in a folder of its own."""
    with tempfile.TemporaryDirectory() as folder:
        yield f"{folder}/server.sock"


@pytest.fixture(autouse=True)
def nothing_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("drumbeat.node.platform.server_addresses._UNWRITTEN", {})


def known(servers: Servers) -> list[str]:
    return str(servers).split(", ") if len(servers) else []


def test_last_announced_addresses_precede_the_enrolments(tmp_path: Path):
    given = enrolled(tmp_path, ONE)
    servers = Servers(given)
    assert known(servers) == [ONE]
    remember(given, (TWO, ONE))
    servers.look()
    assert known(servers) == [ONE, TWO], "the one that answers stays first"
    servers.next()
    assert (servers.first, servers.is_first_trusted) == (TWO, True)
    remember(given, (ONE,))
    servers.look()
    assert known(servers) == [ONE], "nobody tells of it any more"


def test_unannounced_server_of_the_enrolment_is_called_last(tmp_path: Path):
    given = enrolled(tmp_path, ONE)
    remember(given, (TWO,))
    servers = Servers(given)
    assert (known(servers), servers.is_first_trusted) == ([TWO, ONE], True)
    servers.next()
    assert (servers.first, servers.is_first_trusted) == (ONE, False)


def test_restarted_agent_knows_announced_addresses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    given = enrolled(tmp_path, ONE)
    remember(given, (TWO, ONE))
    monkeypatch.setattr("drumbeat.node.platform.server_addresses._UNWRITTEN", {})
    assert known(Servers(given)) == [TWO, ONE]


def test_agent_that_reaches_no_server_reads_the_addresses_that_its_engine_writes(tmp_path: Path):
    given = replace(enrolled(tmp_path / "gangs/j.1/0/root", FAR), checkpoints=str(tmp_path))
    (tmp_path / "gangs/j.1/0/root").mkdir(parents=True)
    write_enrolment(str(tmp_path / "gangs/j.1/0/enrolment.json"), dumps(given))
    servers, file = Servers(given), Path(given.root, "servers.json")
    gangs = Gangs(tmp_path / "gangs")
    gangs.announce("j.1", [FAR])
    assert not file.exists(), "they know it"
    remember(given, (FAR, TWO_FAR))
    gangs.announce("j.1", [NEW_FAR])
    servers.look()
    servers.next()
    assert (servers.first, servers.is_first_trusted) == (NEW_FAR, True)
    assert next_enrolment(given, TAKEOVER, None).servers == (NEW_FAR,), "the next job on the node calls there, too"
    gangs.announce("unknown.1", [NEW_FAR])


@pytest.mark.parametrize("text", ["", "{", "7", "null", '{"a": 1}', "\xff"])
def test_a_file_that_is_damaged_says_nothing(tmp_path: Path, text: str):
    (tmp_path / "servers.json").write_text(text, encoding="latin-1")
    assert ONE in known(Servers(enrolled(tmp_path, ONE)))


@pytest.mark.feature("F10")
def test_unwritable_addresses_are_kept_in_memory(tmp_path: Path):
    given = enrolled(tmp_path / "none", ONE)
    remember(given, (TWO,))
    assert known(Servers(given)) == [TWO, ONE]


def test_secret_is_sent_only_to_safe_addresses(tmp_path: Path):
    remember(enrolled(tmp_path), (ONE, "http://10.0.0.9:1", "http://127.0.0.1:1", FAR, "ftp://x"))
    assert known(Servers(enrolled(tmp_path, ONE))) == [ONE]
    assert Servers(enrolled(tmp_path, TWO)).is_first_trusted
    remember(enrolled(tmp_path), (FAR,))
    assert Servers(enrolled(tmp_path, TWO)).is_first_trusted, "what was told is of no use to it"
    far = known(Servers(enrolled(tmp_path, "https://10.0.0.2:2")))
    assert far == [FAR, "https://10.0.0.2:2"], "never its own machine"


def test_old_enrolment_with_a_port_moves_to_the_announced_socket(tmp_path: Path):
    given = enrolled(tmp_path, "http://127.0.0.1:1")
    assert known(Servers(given)) == []
    remember(given, (ONE, FAR))
    assert known(Servers(given)) == [ONE]


@contextmanager
def linked(given: Enrolment, timeout_s: float = 30) -> Iterator[ServerLink]:
    link = ServerLink(given, timeout_s)
    try:
        yield link
    finally:
        link._drop()


@pytest.mark.feature("F5")
@pytest.mark.parametrize("error", [UnauthorizedError("not the secret"), NotFoundError("no such job")])
def test_a_stranger_at_the_address_of_a_server_that_is_gone_ends_no_attempt(tmp_path: Path, error: DrumbeatError):
    with a_server("stranger", error) as stranger, a_server("two") as two:
        given = enrolled(tmp_path, stranger)
        remember(given, (two,))
        with linked(given) as link:
            link._servers.next()
            assert (link._servers.first, link._servers.is_first_trusted) == (stranger, False)
            with pytest.raises(UnreachableError):
                link.sync({}, "", 0)
            assert link.sync({}, "", 0) == "two"
        with linked(enrolled(tmp_path / "other", stranger)) as link, pytest.raises(StaleError):
            link.sync({}, "", 0)


@pytest.mark.feature("U4")
def test_a_server_that_was_replaced_by_a_copy_of_its_home_ends_no_attempt(tmp_path: Path):
    with a_server("old", StaleError("another attempt")) as old, a_server("new") as new:
        given = enrolled(tmp_path, old, new)
        assert note_era(given, era_text(7, b"key"))
        with linked(given) as link, pytest.raises(UnreachableError):
            link.sync({}, "", 0)


@pytest.mark.feature("F5")
def test_a_server_that_stands_still_is_left_after_one_timeout(tmp_path: Path):
    goes_on = threading.Event()
    with a_server("one", before=lambda: goes_on.wait(60)) as one, a_server("two") as two:
        with linked(enrolled(tmp_path, one, two), 5) as link:
            goes_on.set()
            assert link.sync({}, "", 0) == "one"
            goes_on.clear()
            assert link.sync({}, "", 0) == "two"
            assert str(link._servers) == f"{two}, {one}", "one was asked once"
        goes_on.set()


@pytest.mark.feature("F5")
def test_a_link_goes_to_a_server_that_it_heard_of_meanwhile(tmp_path: Path):
    with a_server("one") as one, linked(enrolled(tmp_path, one)) as link:
        assert link.sync({}, "", 0) == "one"
    with a_server("two") as two:
        with linked(enrolled(tmp_path, one)) as link:
            with pytest.raises(UnreachableError, match="no server answers"):
                link.sync({}, "", 0)
            remember(enrolled(tmp_path, one), (one, two))
            assert link.sync({}, "", 0) == "two"
        with linked(enrolled(tmp_path, one)) as link:
            assert link.sync({}, "", 0) == "two", "as does an agent that is started again"


@pytest.mark.feature("F5")
def test_a_server_without_its_database_is_left_for_another(tmp_path: Path):
    away = AwayError("database: it doesn't answer")
    with a_server("one", away) as one, a_server("two") as two, linked(enrolled(tmp_path, one, two)) as link:
        with pytest.raises(UnreachableError, match="it doesn't answer"):
            link.sync({}, "", 0)
        assert link.sync({}, "", 0) == "two"


@pytest.mark.parametrize("said", ['{"detail": "Not Found"}', '{"fields": null}', "[]", "<html>"])
@pytest.mark.parametrize("status", [200, 404, 500])
def test_stranger_at_a_servers_address_is_left_soon(tmp_path: Path, said: str, status: int):
    with (
        a_server("one", raw=(status, said)) as one,
        a_server("two") as two,
        linked(enrolled(tmp_path, one, two)) as link,
    ):
        with pytest.raises(DrumbeatError):
            link.sync({}, "", 0)
        assert link.sync({}, "", 0) == "two"


def test_a_store_that_isnt_done_is_no_reason_to_leave_a_server(tmp_path: Path):
    busy = UnreachableError("its store is still asked")
    with a_server("one", busy) as one, a_server("two") as two, linked(enrolled(tmp_path, one, two)) as link:
        for _ in range(2):
            with pytest.raises(UnreachableError, match="still asked"):
                link.sync({}, "", 0)


@pytest.mark.feature("F5")
def test_a_machine_that_is_silent_is_given_up_for_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("drumbeat.node.platform.server_link.CONNECT_S", 0.2)
    with a_home() as path, socket.socket(socket.AF_UNIX) as deaf, a_server("two") as two:
        deaf.bind(path)
        deaf.listen(1)
        waiting: list[socket.socket] = []
        for _ in range(4):  # Until its queue is full, and it answers nobody any more.
            one = socket.socket(socket.AF_UNIX)
            one.setblocking(False)
            one.connect_ex(path)
            waiting.append(one)
        with linked(enrolled(tmp_path, f"unix:{path}", two)) as link:
            assert link.sync({}, "", 0) == "two"
        for one in waiting:
            one.close()


def test_agent_says_that_it_knows_of_canceled_orders(tmp_path: Path):
    heard: list[bytes] = []
    with a_server("one", heard=heard) as one:
        link = ServerLink(enrolled(tmp_path, one), 5)
        link.sync({}, "stop:1:1", 0)
        link.close()
    assert json.loads(heard[0])["knows_cancel"] is True


CREATE = "/api/2.0/mlflow/model-versions/create"


def test_creating_request_is_sent_once_without_an_answer(tmp_path: Path):
    asked, answer = queue.SimpleQueue[float](), threading.Event()
    with a_server("slow", before=lambda: (asked.put(0), answer.wait(20))) as slow, a_server("other") as other:
        link = ServerLink(enrolled(tmp_path, slow, other), 0.05)
        with pytest.raises(NoAnswerError, match="timed out"):
            link.mlflow("POST", CREATE, b"{}", {}, once_within_s=0.2)
        answer.set()
        link.close()
    assert asked.qsize() == 1


def test_creating_request_is_sent_once_over_a_broken_connection(tmp_path: Path):
    """A server that ends closes its connections, among them that of a request that it has carried out."""
    asked = list[str]()

    class Ends(StreamRequestHandler):
        def handle(self) -> None:
            while first := self.rfile.readline().decode():
                headers = parse_headers(self.rfile)
                self.rfile.read(int(headers["Content-Length"]))
                asked.append(first.split()[0] + first.split()[1].rpartition("/mlflow")[2])
                if first.startswith("POST") and len(asked) == 2:
                    return
                self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")

    with a_home() as path, ThreadingUnixStreamServer(path, Ends) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=[0.01], daemon=True).start()
        link = ServerLink(enrolled(tmp_path, f"unix:{path}"), 5)
        link.mlflow("GET", "/api/2.0/mlflow/runs/get", b"{}", {})
        with pytest.raises(NoAnswerError, match="did not answer"):
            link.mlflow("POST", CREATE, b"{}", {}, once_within_s=20)
        link.close()
        server.shutdown()
    assert asked == ["GET/runs/get", "POST/model-versions/create"]


def test_request_that_makes_something_may_take_longer_than_others(tmp_path: Path):
    with a_server("slow", before=lambda: time.sleep(0.3), raw=(200, '{"error_code": ""}')) as slow:
        link = ServerLink(enrolled(tmp_path, slow), 0.05)
        status, *_ = link.mlflow("POST", CREATE, b"{}", {}, once_within_s=20)
        link.close()
    assert status == 200


def test_request_that_makes_something_goes_to_the_next_server_if_one_is_gone(tmp_path: Path):
    with a_server("other", raw=(200, '{"error_code": ""}')) as other:
        link = ServerLink(enrolled(tmp_path, ONE, other), 5)
        assert link.mlflow("POST", CREATE, b"{}", {}, once_within_s=20)[0] == 200


@pytest.mark.parametrize(
    ("method", "route", "makes"),
    [
        ("POST", "model-versions/create", True),
        ("POST", "registered-models/create", True),
        ("POST", "logged-models", True),
        ("POST", "registered-models/set-tag", False),
        ("POST", "logged-models/search", False),
        ("GET", "model-versions/get", False),
    ],
)
def test_request_that_makes_something_is_known_by_its_route(method: str, route: str, makes: bool):
    assert Read(method, f"/api/2.0/mlflow/{route}", b"", "", 0).makes is makes

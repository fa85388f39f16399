"""Many requests over few connections: plain answers are read, all others are left to another client."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress

import pytest

from drumbeat.model.plain_http import PlainAnswer, PlainRequests

Reply = Callable[[str], bytes | None]
"""The bytes with which a server answers a path; None = it closes the connection."""


class Server:
    """A server that sends what a test says."""

    def __init__(self, listener: socket.socket, reply: Reply) -> None:
        self.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        self._listener, self._reply = listener, reply
        self.connections, self.asked = 0, list[str]()

    def accept(self) -> None:
        """Until the listener is closed."""
        with suppress(OSError):
            while True:
                line, _ = self._listener.accept()
                self.connections += 1
                threading.Thread(target=self._answer, args=[line], daemon=True).start()

    def _answer(self, line: socket.socket) -> None:
        with closing(line), suppress(OSError):
            rest = b""
            while True:
                while b"\r\n\r\n" not in rest:
                    if not (more := line.recv(1 << 16)):
                        return
                    rest += more
                head, _, rest = rest.partition(b"\r\n\r\n")
                path = head.split()[1].decode()
                self.asked.append(path)
                answer = self._reply(path)
                if answer is None:
                    return
                line.sendall(answer)


@contextmanager
def served(reply: Reply) -> Iterator[Server]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = Server(listener, reply)
        thread = threading.Thread(target=server.accept, daemon=True)
        thread.start()
        yield server
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()


def ok(body: bytes, *headers: str) -> bytes:
    lines = ["HTTP/1.1 200 OK", f"Content-Length: {len(body)}", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


def got(server: Server, paths: Sequence[str], largest: int = 100, **options: int) -> dict[str, PlainAnswer | None]:
    with closing(PlainRequests(server.url, ssl.create_default_context, **options)) as plain:
        return dict(plain.each(((path, plain.request("GET", path, {"X": "y"})) for path in paths), largest))


def bodies(answers: dict[str, PlainAnswer | None]) -> dict[str, bytes | None]:
    return {path: answer and bytes(answer.body) for path, answer in answers.items()}


PATHS = [f"/{number}" for number in range(20)]


@pytest.mark.parametrize("limit", [1, 3])
def test_answers_come_in_order_over_as_many_connections_as_may_be(limit: int):
    with served(lambda path: ok(path.encode())) as server:
        answers = got(server, PATHS, limit=limit)
    assert list(bodies(answers).items()) == [(path, path.encode()) for path in PATHS]
    assert server.connections == limit


def test_header_is_found_by_its_name_in_any_case():
    with served(lambda _path: ok(b"", 'etag:  W/"Ab" ', "LAST-MODIFIED: Monday")) as server:
        answer = got(server, ["/"])["/"]
    assert answer
    assert [answer.header(name) for name in ("etag", "last-modified", "x")] == ['W/"Ab"', "Monday", ""]


@pytest.mark.parametrize(
    "unusual",
    [
        b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 206 Partial\r\nContent-Length: 1\r\n\r\nx",
        b"HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\nx",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\nx",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nx",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nxy",
        b"HTTP/1.1 200 OK\r\nContent-Length: 101\r\n\r\n" + b"x" * 101,
        b"rubbish\r\n\r\n",
    ],
)
def test_unusual_answer_is_left_to_another_client_and_the_others_count(unusual: bytes):
    with served(lambda path: unusual if path == "/3" else ok(b"x")) as server:
        answers = bodies(got(server, PATHS))
    assert [path for path, body in answers.items() if body is None] == ["/3"]


def test_answer_that_breaks_off_is_left_to_another_client():
    with served(lambda path: ok(b"")[:20] if path == "/3" else ok(b"x")) as server:
        answers = got(server, ["/1", "/3", "/4"], timeout_s=1, limit=1)
    assert list(bodies(answers).values()) == [b"x", None, None]


def test_connection_that_its_server_has_closed_is_opened_again():
    seen = dict[str, int]()

    def reply(path: str) -> bytes | None:
        seen[path] = seen.get(path, 0) + 1
        return None if path == "/7" and seen[path] == 1 else ok(b"x", "Connection: close" if path == "/9" else "X: y")

    with served(reply) as server:
        assert set(bodies(got(server, PATHS, limit=2)).values()) == {b"x"}
    assert server.connections == 4


def test_server_that_answers_nothing_at_all_is_left_to_another_client():
    with served(lambda _path: None) as server:
        assert set(got(server, PATHS).values()) == {None}


def test_address_where_nothing_listens_is_asked_once():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    plain = PlainRequests(f"http://127.0.0.1:{port}", ssl.create_default_context)
    assert dict(plain.each([(1, b"GET / HTTP/1.1\r\n\r\n"), (2, b"")], 1)) == {1: None, 2: None}


def test_answer_to_a_head_has_a_length_and_no_body():
    with served(lambda _path: b"HTTP/1.1 200 OK\r\nContent-Length: 12345678\r\n\r\n") as server:
        answer = got(server, ["/"], 0)["/"]
    assert answer
    assert (answer.length, answer.body) == (12_345_678, b"")


@pytest.mark.parametrize(("target", "value"), [("/a b", "y"), ("/ü", "y"), ("/", "y\r\nHost: z")])
def test_request_that_would_be_two_is_refused(target: str, value: str):
    with pytest.raises(ValueError, match=r"line end|ascii"):
        PlainRequests("http://a", ssl.create_default_context).request("GET", target, {"X": value})

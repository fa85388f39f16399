"""Requests are read strictly, in any pieces."""

from __future__ import annotations

import pytest

from drumbeat.scoring.request_reader import MAX_HEAD_BYTES, MalformedRequestError, RequestReader

POST = (
    b"POST /score?a=1 HTTP/1.1\r\nHost: x\r\nContent-Type: Application/JSON; charset=utf-8\r\n"
    b"Content-Length: 4\r\n\r\nbody"
)
CHUNKED = (
    b"POST /score HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nTrailer: x\r\n\r\n"
)


def read(data: bytes, step: int, **limits: int) -> list[bytes]:
    reader = RequestReader(**limits)
    bodies: list[bytes] = []
    for begin in range(0, len(data), step):
        reader.feed(data[begin : begin + step])
        bodies += [request.body for request in reader.requests()]
    return bodies


@pytest.mark.parametrize("step", [1, 3, 7, 1000])
def test_requests_are_read_whatever_pieces_they_come_in(step: int):
    assert read(POST + CHUNKED + POST, step) == [b"body", b"abcde", b"body"]


def test_request_has_its_path_query_and_media_type():
    reader = RequestReader()
    reader.feed(POST.replace(b"/score?a=1", b"/sc%6Fre?a=1&b=%20"))
    (request,) = reader.requests()
    assert (request.method, request.path, request.query) == ("POST", "/score", "a=1&b=%20")
    assert request.parameters == [("a", "1"), ("b", " ")]
    assert (request.media_type, request.is_json) == ("application/json", True)
    assert request.titled_headers()["Content-Type"] == "Application/JSON; charset=utf-8"


@pytest.mark.parametrize(
    ("head", "keeps"),
    [(b"GET / HTTP/1.1\r\n\r\n", True), (b"GET / HTTP/1.1\r\nConnection: close\r\n\r\n", False),
     (b"GET / HTTP/1.0\r\n\r\n", False), (b"GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n", True)],
)  # fmt: skip
def test_connection_is_kept_as_http_says(head: bytes, keeps: bool):
    reader = RequestReader()
    reader.feed(head)
    assert [request.keeps_connection for request in reader.requests()] == [keeps]


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"GET / HTTP/2.0\r\n\r\n", 400),
        (b"GET /\r\n\r\n", 400),
        (b"GET / HTTP/1.1 \r\n\r\n", 400),
        (b"G T / HTTP/1.1\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nBad Header: x\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nName : x\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nA: x\r\n folded\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nA: \0\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nA: a\nB: b\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\na", 400),
        (b"POST / HTTP/1.1\r\nContent-Length: 1, 1\r\n\r\na", 400),
        (b"POST / HTTP/1.1\r\nContent-Length: +1\r\n\r\na", 400),
        (b"POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\na", 400),
        (b"POST / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n", 400),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc", 400),
        (b"POST / HTTP/1.1\r\nContent-Length: 11\r\n\r\n", 413),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nB\r\n", 413),
        (b"GET / HTTP/1.1\r\nA: " + b"x" * MAX_HEAD_BYTES + b"\r\n\r\n", 431),
    ],
)
def test_what_two_servers_could_read_differently_is_refused(data: bytes, status: int):
    with pytest.raises(MalformedRequestError) as refused:
        read(data, 1000, max_body_bytes=10)
    assert refused.value.status == status
    with pytest.raises(MalformedRequestError):
        read(data, 50, max_body_bytes=10)


def test_client_that_waits_for_continue_is_seen():
    reader = RequestReader()
    reader.feed(b"POST / HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n")
    assert list(reader.requests()) == []
    assert reader.awaits_continue

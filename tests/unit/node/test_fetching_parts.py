"""What the answers of a store mean, what is said of progress, and who is asked before the store."""

from __future__ import annotations

import http.client
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from drumbeat.model.errors import UnreachableError
from drumbeat.model.input_listing import ListedFile
from drumbeat.node.inputs.fetching.http_client import (
    FetchTimeouts,
    Refusal,
    check,
    require_length,
    require_same,
    stream,
)
from drumbeat.node.inputs.fetching.peer_client import answer_proof, ask_proof, before, read_body
from drumbeat.node.inputs.fetching.progress import Meter

pytestmark = pytest.mark.feature("D2")


class Reply:
    """As much of an HTTPResponse as is looked at."""

    def __init__(
        self, status: int, length: int | None = None, blocks: Iterator[bytes] | None = None, **headers: str
    ) -> None:
        self.status, self.length, self.reason, self.headers = status, length, "Why", headers
        self._blocks = blocks or iter(())

    def read1(self, _size: int) -> bytes:
        return next(self._blocks, b"")

    def read(self) -> bytes:
        return b""


def ranged(text: str) -> Any:
    return Reply(206, **{"Content-Range": text})


def test_a_range_that_was_asked_for_is_taken():
    assert check(ranged("bytes 10-19/100"), 10, 100)
    assert check(ranged("bytes 10-19/*"), 10, 100)


def test_a_whole_file_is_taken_from_its_beginning():
    assert not check(Reply(200, 100), 10, 100)  # pyright: ignore[reportArgumentType]
    assert not check(Reply(200), 10, 100)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504])
def test_passing_trouble_is_named(status: int):
    with pytest.raises(UnreachableError, match=f"the store answers {status} Why"):
        check(Reply(status), 0, 1)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("status", [400, 401, 403, 404, 410, 412, 416])
def test_a_refusal_is_one(status: int):
    with pytest.raises(Refusal) as refused:
        check(Reply(status), 0, 1)  # pyright: ignore[reportArgumentType]
    assert refused.value.status == status


@pytest.mark.parametrize("answer", [ranged("bytes 10-19/101"), Reply(200, 101)])
def test_another_size_is_another_content(answer: Any):
    with pytest.raises(Refusal) as refused:
        check(answer, 10, 100)
    assert refused.value.status == 0


@pytest.mark.parametrize("said", ["", "bytes 0-9/100", "bytes */100"])
def test_another_range_than_was_asked_for_isnt_taken(said: str):
    with pytest.raises(UnreachableError, match="another part"):
        check(ranged(said), 10, 100)


def replied(headers: dict[str, str]) -> Any:
    return Reply(206, None, None, **headers)


MONDAY, TUESDAY = "Mon, 23 Nov 2026 23:25:28 GMT", "Tue, 24 Nov 2026 23:25:28 GMT"


@pytest.mark.parametrize(
    ("tag", "told"),
    [
        ('W/"a"', {"ETag": 'W/"b"'}),
        ('"a"', {"ETag": '"b"', "Last-Modified": MONDAY}),
        (MONDAY, {"Last-Modified": TUESDAY}),
    ],
)
def test_another_tag_is_another_content(tag: str, told: dict[str, str]):
    with pytest.raises(Refusal) as refused:
        require_same(replied(told), tag)
    assert refused.value.status == 0


@pytest.mark.parametrize(
    ("tag", "told"),
    [
        ('W/"a"', {"ETag": 'W/"a"', "Last-Modified": MONDAY}),
        ('W/"a"', {"ETag": '"a"'}),
        ('"a"', {"Last-Modified": MONDAY}),
        (MONDAY, {"ETag": '"a"', "Last-Modified": MONDAY}),
        (MONDAY, {}),
        ("1700000000123", {"ETag": '"a"', "Last-Modified": MONDAY}),
        ("", {"ETag": '"a"', "Last-Modified": MONDAY}),
    ],
)
def test_the_same_tag_or_one_that_cant_be_compared_is_taken(tag: str, told: dict[str, str]):
    require_same(replied(told), tag)


@pytest.mark.parametrize(
    ("tag", "sha256", "is_believed"),
    [
        ("1700000000000001", "", False),
        ('W/"a"', "", False),
        ('"b"', "", False),
        ('"a"', "", True),
        ("1700000000000001", "a" * 64, True),
    ],
)
def test_a_whole_file_without_its_length_is_taken_where_its_content_is_known(tag: str, sha256: str, is_believed: bool):
    answer: Any = Reply(200, None, None, ETag='"a"')
    file = ListedFile("train.csv", 100, "key", sha256, tag)
    require_length(Reply(200, 100), file)  # pyright: ignore[reportArgumentType]
    if is_believed:
        require_length(answer, file)
        return
    with pytest.raises(Refusal) as refused:
        require_length(answer, file)
    assert refused.value.status == 0


def test_a_connection_that_is_slow_for_long_is_given_up():
    clock = iter([0.0, 30.0, 70.0, 70.0])
    answer: Any = Reply(206, 10**6, iter([b"x" * 100] * 50))
    with pytest.raises(UnreachableError, match="the connection is slow: 200 bytes in 70 s"):
        list(stream(answer, FetchTimeouts(slow_s=60, slow_bytes_s=8192), lambda: next(clock)))


def test_a_body_that_ends_too_early_is_half_a_file():
    answer: Any = Reply(206, 500, iter([b"x"]))
    with pytest.raises(UnreachableError, match="ended 500 bytes too early"):
        list(stream(answer, FetchTimeouts()))


def test_a_node_before_that_breaks_off_is_no_impostor():
    """Its proof would be that of the whole body; so nothing is judged by the part that came."""
    here, there = socket.socketpair()
    with here, there:
        there.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\nxyz")
        there.shutdown(socket.SHUT_WR)
        answer = http.client.HTTPResponse(here)
        answer.begin()
        with pytest.raises(UnreachableError, match="broke off: 497 bytes too early"):
            read_body(answer, 500)
        answer.close()


# --- progress ---------------------------------------------------------------------------------------------------
def test_progress_has_bytes_rate_and_time_left_and_what_it_waits_for():
    now, said = [0.0], list[str]()
    meter = Meter("input train", 4_000_000_000, said.append, lambda: now[0])
    meter.add(0)
    for _ in range(4):
        now[0] += 1
        meter.add(200_000_000)
    assert said[-1] == "input train: 800.0 MB of 4.0 GB, 200.0 MB/s, 16 s left"
    now[0] += 1
    meter.trouble("the store answers 503")
    assert said[-1].endswith("; waits: the store answers 503")
    now[0] += 1
    meter.add(1)
    assert "waits" not in said[-1]
    meter.less(3_000_000_000)
    assert "of 1.0 GB" in meter.sentence()


def test_when_nothing_comes_that_is_said():
    now, said = [0.0], list[str]()
    meter = Meter("input train", 1000, said.append, lambda: now[0])
    meter.add(100)
    now[0] = 4.0
    meter.look()
    assert len(said) == 1
    now[0] = 12.0
    meter.look()
    assert said[-1] == "input train: 100 bytes of 1.0 kB; no byte for 12 s"
    meter.trouble("the store answers 503")
    now[0] = 19.0
    meter.look()
    assert said[-1].endswith("no byte for 12 s"), "while a trouble is told, it is enough"
    meter.add(1)
    assert "no byte" not in said[-1]


# --- the chain --------------------------------------------------------------------------------------------------
def peer(port: int = 7, cache: str = "other", address: str = "10.0.0.1") -> dict[str, object]:
    return {"address": address, "data_port": port, "cache": cache}


@pytest.mark.parametrize(
    ("peers", "found"),
    [
        ([peer(1), peer(2), None], ("10.0.0.1:2", False)),
        ([peer(1), None, None], ("", True)),
        ([peer(1), peer(0), None], ("", True)),
        ([peer(1), peer(2, "mine"), None], ("10.0.0.1:1", False)),
        ([peer(1, "mine"), peer(2, "mine"), None], ("", False)),
        ([peer(1), peer(2, address="fd00::1"), None], ("[fd00::1]:2", False)),
    ],
)
def test_the_nearest_node_before_with_another_cache_is_asked(
    peers: list[dict[str, object] | None], found: tuple[str, bool]
):
    assert before(2, "mine", peers) == found


def test_proofs_tell_requests_and_answers_apart():
    asked = ask_proof("secret", "name", 0, 10)
    others = [ask_proof("other", "name", 0, 10), ask_proof("secret", "nam", 0, 10), ask_proof("secret", "name", 0, 1)]
    assert asked not in others
    assert answer_proof("secret", asked, b"body") != answer_proof("secret", asked, b"bodx")
    assert answer_proof("secret", asked, b"body") != answer_proof("secret", others[1], b"body")

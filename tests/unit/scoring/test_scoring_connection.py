"""Requests of one connection are answered in their order, over a transport that only keeps what is written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from drumbeat.scoring.connection import DRAIN_ANSWER, LoopCalls, ScoringConnection
from drumbeat.scoring.messages import ScoringAnswer, ScoringRequest, text_answer
from drumbeat.scoring.worker_threads import AnswerSink, Work

GET = b"GET / HTTP/1.1\r\n\r\n"
POST = b"POST /score HTTP/1.1\r\nContent-Length: 1\r\n\r\n%b"


class Loop:
    """Calls at once."""

    def call_soon_threadsafe(self, call: Callable[[], None]) -> None:
        call()


class Wire:
    def __init__(self) -> None:
        self.sent = b""
        self.is_closed = self.has_eof = False

    def write(self, data: bytes) -> None:
        self.sent += data

    def close(self) -> None:
        self.is_closed = True

    abort = close

    def is_closing(self) -> bool:
        return self.is_closed

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        self.has_eof = True

    def set_write_buffer_limits(self, high: int) -> None: ...

    @property
    def answers(self) -> list[bytes]:
        """Status and last line of each answer."""
        return [one[:3] + b" " + one.rpartition(b"\r\n")[2] for one in self.sent.split(b"HTTP/1.1 ")[1:]]


class Threads:
    """Keeps what is put, for the test to answer."""

    def __init__(self) -> None:
        self.works: list[Work] = []

    def put(self, request: ScoringRequest, sink: AnswerSink) -> Work:
        self.works.append(Work(request, sink, 0))
        return self.works[-1]


class Healthy:
    def immediate(self, request: ScoringRequest) -> ScoringAnswer | None:
        return text_answer("healthy") if request.path == "/" else None


def connected() -> tuple[ScoringConnection, Wire, Threads]:
    parts: Any = Healthy(), Threads(), LoopCalls(Loop())  # type: ignore[arg-type] - stand-ins
    connection, wire = ScoringConnection(*parts), Wire()
    connection.connection_made(wire)  # type: ignore[arg-type] - a stand-in
    return connection, wire, parts[1]


def test_pipelined_requests_are_answered_in_their_order():
    connection, wire, threads = connected()
    connection.data_received(POST % b"1" + GET + POST % b"2")
    assert (len(threads.works), wire.answers) == (1, [])
    threads.works[0].sink.send(text_answer("one"))
    threads.works[1].sink.send(text_answer("two"))
    assert wire.answers == [b"200 one", b"200 healthy", b"200 two"]


def test_request_that_cannot_be_read_is_refused_after_the_answers_before_it():
    connection, wire, threads = connected()
    connection.data_received(POST % b"1")
    connection.data_received(b"nonsense\r\n\r\n" + GET)
    assert wire.answers == []
    threads.works[0].sink.send(text_answer("one"))
    assert [one[:3] for one in wire.answers] == [b"200", b"400"]
    assert wire.is_closed


def test_connection_that_drains_answers_what_runs_and_reads_nothing_more():
    idle, idle_wire, _ = connected()
    idle.drain()
    idle.data_received(GET)
    assert (idle_wire.sent, idle_wire.has_eof) == (DRAIN_ANSWER, True)
    busy, busy_wire, threads = connected()
    busy.data_received(POST % b"1")
    busy.drain()
    threads.works[0].sink.send(text_answer("one"))
    assert b"Connection: close" in busy_wire.sent
    assert busy_wire.is_closed


def test_stream_that_is_cut_does_not_look_whole():
    connection, wire, threads = connected()
    connection.data_received(POST % b"1")
    sink = threads.works[0].sink
    sink.send(ScoringAnswer(200, [], iter(())))
    assert sink.send_piece(b"one")
    sink.end(is_whole=False)
    assert wire.sent.endswith(b"3\r\none\r\n")
    assert wire.is_closed


def test_client_that_left_is_seen_by_its_stream():
    connection, _, threads = connected()
    connection.data_received(POST % b"1")
    connection.connection_lost(None)
    assert threads.works[0].is_abandoned
    assert not threads.works[0].sink.send_piece(b"one")

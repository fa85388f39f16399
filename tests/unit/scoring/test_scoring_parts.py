"""Results, stand-ins, settings, batches and time limits of the scoring server, without sockets."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from drumbeat.model.scoring_tokens import PROGRAM_VARIABLE, SETTINGS_VARIABLE
from drumbeat.scoring.messages import ScoringAnswer, ScoringRequest, render_head, text_answer
from drumbeat.scoring.request_ids import request_ids
from drumbeat.scoring.results import answer_of
from drumbeat.scoring.scorer import ScorerError
from drumbeat.scoring.settings import ProgramBehind, ScoringSettings, read_settings, shares
from drumbeat.scoring.stand_ins import AMLRequest, AMLResponse
from drumbeat.scoring.worker_threads import WorkerThreads, WorkRules


def request(body: bytes = b"", **headers: str) -> ScoringRequest:
    return ScoringRequest("POST", "/score?a=1&a=2&b=", {k.replace("_", "-"): v for k, v in headers.items()}, body)


def whole(answer: ScoringAnswer) -> bytes:
    return answer.body if isinstance(answer.body, bytes) else b"".join(answer.body)


def header(answer: ScoringAnswer, name: str) -> list[str]:
    return [value for key, value in answer.headers if key.lower() == name]


# --- output ---------------------------------------------------------------------------------------------------------
PRINTS = "from drumbeat.scoring.standard_output import keep_printing; keep_printing(); print('x' * 99999); print('end')"


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_prints_of_a_replica_reach_its_log_and_survive_a_full_disk(tmp_path: Path, unbuffered: str) -> None:
    def ended(out: int) -> subprocess.CompletedProcess[bytes]:
        environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
        return subprocess.run([sys.executable, "-c", PRINTS], stdout=out, stderr=out, env=environment, check=False)

    with (tmp_path / "log").open("wb") as log, Path("/dev/full").open("wb") as full:
        assert (ended(log.fileno()).returncode, ended(full.fileno()).returncode) == (0, 0)
    assert (tmp_path / "log").read_text() == f"{'x' * 99999}\nend\n"


# --- results ----------------------------------------------------------------------------------------------------------
class Array:
    """As numpy's, in what is asked of it."""

    def tolist(self) -> list[float]:
        return [1.5, 2.5]


@pytest.mark.parametrize(
    ("result", "body"),
    [(None, b"{}"), ("text", b'"text"'), ([1, None], b"[1, null]"), ({"a": Array()}, b'{"a": [1.5, 2.5]}'),
     (float("nan"), b"NaN")],
)  # fmt: skip
def test_result_is_answered_as_json(result: Any, body: bytes):
    answer = answer_of(result, request())
    assert (answer.status, answer.body) == (200, body)


def test_result_that_json_cannot_hold_is_an_error():
    with pytest.raises(TypeError, match="not JSON serializable"):
        answer_of({"a": object()}, request())


def pieces(*values: Any) -> Iterator[Any]:
    yield from values


@pytest.mark.parametrize(
    ("values", "accept", "kind", "body"),
    [
        (("a", b"b", "c"), "*/*", "text/plain; charset=utf-8", b"abc"),
        (({"i": 0}, [1]), "*/*", "application/x-ndjson", b'{"i": 0}\n[1]\n'),
        (({"i": 0}, "a\nb"), "text/event-stream", "text/event-stream", b'data: {"i": 0}\n\ndata: a\ndata: b\n\n'),
        ((b"event: x\ndata: 1\n\n",), "text/event-stream", "text/event-stream", b"event: x\ndata: 1\n\n"),
        ((), "*/*", "text/plain; charset=utf-8", b""),
    ],
)
def test_generator_is_answered_by_pieces(values: tuple[Any, ...], accept: str, kind: str, body: bytes):
    answer = answer_of(pieces(*values), request(accept=accept))
    assert answer.is_streamed
    assert header(answer, "content-type") == [kind]
    assert whole(answer) == body


def test_response_of_a_script_may_stream_and_keeps_its_headers():
    response = AMLResponse(pieces("a", b"b"), 206, {"Content-Type": "text/event-stream", "X-Many": "1, 2"})
    answer = answer_of(response, request())
    assert (answer.status, whole(answer)) == (206, b"ab")
    assert (header(answer, "content-type"), header(answer, "x-many")) == (["text/event-stream"], ["1", "2"])


def test_header_with_a_line_break_is_refused():
    answer = ScoringAnswer(200, [("X-Own", "a\r\nSet-Cookie: b")], b"")
    with pytest.raises(ValueError, match="X-Own"):
        render_head(answer, length=0, is_chunked=False, closes=False)


def test_headers_of_the_connection_are_the_servers_own():
    answer = ScoringAnswer(
        200, [("Content-Length", "99"), ("Transfer-Encoding", "chunked"), ("Connection", "close")], b""
    )
    assert render_head(answer, length=3, is_chunked=False, closes=False) == (
        b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n"
    )


# --- what scripts import --------------------------------------------------------------------------------------------
def test_stand_in_request_has_what_scripts_use():
    own = AMLRequest(request(b'{"a": 1}', content_type="application/json", x_own="1", host="h:1"))
    assert (own.method, own.path, own.args["a"], own.args.getlist("a")) == ("POST", "/score", "1", ["1", "2"])
    assert (own.get_data(), own.data, own.get_data(as_text=True)) == (b'{"a": 1}', b'{"a": 1}', '{"a": 1}')
    assert (own.json, own.headers["X-OWN"], own.headers.get("none", 5)) == ({"a": 1}, "1", 5)
    assert own.url == "http://h:1/score?a=1&a=2&b="
    assert AMLRequest(request(b"no")).get_json(silent=True) is None
    with pytest.raises(ValueError, match="application/json"):
        _ = AMLRequest(request(b"{}")).json
    assert AMLRequest(request(b"x=1", content_type="application/x-www-form-urlencoded")).form["x"] == "1"


# --- ids --------------------------------------------------------------------------------------------------------------
def test_each_request_has_an_id_of_its_own_unless_it_brings_one():
    first, second = request_ids(request()), request_ids(request())
    assert isinstance(first, list)
    assert isinstance(second, list)
    assert first[0] != second[0]
    assert request_ids(request(x_request_id="r", x_ms_client_request_id="c")) == [
        ("x-request-id", "r"), ("x-ms-request-id", "c"), ("x-ms-client-request-id", "c"),
    ]  # fmt: skip


# --- settings ---------------------------------------------------------------------------------------------------------
def test_settings_are_those_of_azures_variables_and_of_the_file(tmp_path: Path):
    file = tmp_path / "settings.json"
    file.write_text(json.dumps({
        "timeout_ms": 900, "router": {"addresses": ["unix:/x"], "endpoint": "e", "deployment": "d", "replica": "r"},
        "behind": {"port": 8000, "command": ["serve"], "readiness": {"path": "/ready"}},
    }))  # fmt: skip
    settings = read_settings(
        str(file), {"WORKER_COUNT": "3", "SCORING_TIMEOUT_MS": "5", "AZUREML_ENTRY_SCRIPT": "s.py"}
    )
    assert (settings.worker_count, settings.timeout_ms, settings.entry_script) == (3, 900, "s.py")
    assert settings.router is not None
    assert settings.router.addresses == ("unix:/x",)
    assert settings.behind is not None
    assert (settings.behind.command, settings.behind.readiness.path) == (("serve",), "/ready")
    assert read_settings("", {}) == ScoringSettings()


def test_agent_says_how_the_server_behind_a_replica_is_started():
    given = {"behind": {"port": 80, "scoring_path": "/v1/p:predict"}, "router": {
        "addresses": ["unix:/x"], "endpoint": "e", "deployment": "d", "replica": "r",
    }}  # fmt: skip
    told = {"port": 4711, "command": ["podman", "run"], "name": "the image's server"}
    settings = read_settings("", {SETTINGS_VARIABLE: json.dumps(given), PROGRAM_VARIABLE: json.dumps(told)})
    assert settings.behind == ProgramBehind(
        4711, ("podman", "run"), name="the image's server", scoring_path="/v1/p:predict"
    )


@pytest.mark.parametrize(
    ("content", "variables", "words"),
    [("{", {}, "can't be read"), ('{"threds": 2}', {}, "unknown: threds"),
     ("{}", {"WORKER_COUNT": "x"}, "WORKER_COUNT"), ('{"router": {"addresses": []}}', {}, "wrong")],
)  # fmt: skip
def test_wrong_settings_are_named(tmp_path: Path, content: str, variables: dict[str, str], words: str):
    file = tmp_path / "settings.json"
    file.write_text(content)
    with pytest.raises(ScorerError, match=words):
        read_settings(str(file), variables)


def test_connections_are_divided_among_processes_and_none_gets_none():
    assert [shares(7, 3), shares(2, 4), shares(4, 1)] == [[3, 2, 2], [1, 1], [4]]


# --- worker threads -----------------------------------------------------------------------------------------------
class Sink:
    """Takes an answer of the worker threads."""

    def __init__(self, on_piece: Callable[[bytes], bool] = lambda _: True) -> None:
        self.answer: ScoringAnswer | None = None
        self.pieces: list[bytes] = []
        self.is_whole: bool | None = None
        self.done = threading.Event()
        self._on_piece = on_piece

    def send(self, answer: ScoringAnswer) -> None:
        self.answer = answer
        if not answer.is_streamed:
            self.done.set()

    def send_piece(self, piece: bytes) -> bool:
        self.pieces.append(piece)
        return self._on_piece(piece)

    def end(self, *, is_whole: bool) -> None:
        self.is_whole = is_whole
        self.done.set()

    def drop(self) -> None:
        self.is_dropped = True
        self.done.set()

    is_dropped = False

    def wait(self) -> ScoringAnswer:
        assert self.done.wait(10)
        assert self.answer is not None
        return self.answer


class Echo:
    """A scorer of a function; keeps the sizes of its batches."""

    def __init__(self, score: Callable[[ScoringRequest], ScoringAnswer], *, can_batch: bool = False) -> None:
        self._score, self.can_batch = score, can_batch
        self.sizes: list[int] = []

    def init(self) -> None: ...

    def immediate(self, request: ScoringRequest) -> ScoringAnswer | None: ...

    def score(self, request: ScoringRequest) -> ScoringAnswer:
        self.sizes.append(1)
        return self._score(request)

    def score_many(self, requests: Sequence[ScoringRequest]) -> list[ScoringAnswer]:
        self.sizes.append(len(requests))
        return [self._score(one) for one in requests]


def echo(given: ScoringRequest) -> ScoringAnswer:
    return text_answer(given.body.decode())


def test_requests_that_wait_are_answered_as_one_batch():
    first_runs, go = threading.Event(), threading.Event()

    def score(given: ScoringRequest) -> ScoringAnswer:
        if given.body == b"first":
            first_runs.set()
            assert go.wait(10)
        return echo(given)

    scorer = Echo(score, can_batch=True)
    threads = WorkerThreads(scorer, WorkRules(max_batch_size=8, max_wait_ms=0))
    sinks = [Sink() for _ in range(11)]
    threads.put(request(b"first"), sinks[0])
    assert first_runs.wait(10)
    for number, sink in enumerate(sinks[1:]):
        threads.put(request(str(number).encode()), sink)
    go.set()
    assert [whole(sink.wait()) for sink in sinks[1:]] == [str(number).encode() for number in range(10)]
    assert scorer.sizes == [1, 8, 2]


def test_run_that_is_too_slow_is_answered_and_interrupted_and_the_thread_goes_on():
    running = threading.Event()

    def score(given: ScoringRequest) -> ScoringAnswer:
        running.set()
        while given.body == b"slow":
            pass
        return echo(given)

    threads = WorkerThreads(Echo(score), WorkRules(timeout_ms=1))
    slow, after = Sink(), Sink()
    threads.put(request(b"slow"), slow)
    assert running.wait(10)
    while not slow.done.is_set():
        threads.end_overdue()
    answer = slow.wait()
    assert (answer.status, answer.body) == (500, b'{"message": "Scoring timeout after 1 ms"}')
    threads.put(request(b"next"), after)
    assert whole(after.wait()) == b"next"


def test_stream_ends_and_its_generator_closes_when_the_client_is_gone():
    closed = threading.Event()

    def endless(_: ScoringRequest) -> ScoringAnswer:
        def numbers() -> Iterator[bytes]:
            try:
                while True:
                    yield b"x"
            finally:
                closed.set()

        return ScoringAnswer(200, [], numbers())

    sink = Sink(on_piece=lambda _: len(sink.pieces) < 3)
    WorkerThreads(Echo(endless), WorkRules()).put(request(), sink)
    sink.wait()
    assert (len(sink.pieces), sink.is_whole, closed.wait(10)) == (3, False, True)


def test_script_that_fails_before_its_first_piece_is_answered_by_500():
    def failing(_: ScoringRequest) -> ScoringAnswer:
        def numbers() -> Iterator[bytes]:
            raise ValueError("no")
            yield b""

        return ScoringAnswer(200, [], numbers())

    sink = Sink()
    WorkerThreads(Echo(failing), WorkRules()).put(request(), sink)
    assert sink.wait().status == 500


def test_request_whose_client_left_before_its_turn_does_not_run():
    first_runs, go = threading.Event(), threading.Event()
    seen: list[bytes] = []

    def score(given: ScoringRequest) -> ScoringAnswer:
        seen.append(given.body)
        if given.body == b"1":
            first_runs.set()
            assert go.wait(10)
        return echo(given)

    threads = WorkerThreads(Echo(score), WorkRules())
    threads.put(request(b"1"), Sink())
    assert first_runs.wait(10)
    dropped = Sink()
    threads.put(request(b"2"), dropped).is_abandoned = True
    last = Sink()
    threads.put(request(b"3"), last)
    go.set()
    last.wait()
    assert (seen, dropped.is_dropped) == ([b"1", b"3"], True)


# --- where a replica dials ------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("servers", "addresses"),
    [
        ("unix:/home/x/server.sock", ("unix:/home/x/router/replicas/router.sock",)),
        ("", ("unix:/home/x/router/replicas/router.sock",)),
        (
            "https://10.0.0.1:20000 https://[fd00::5]:20000 https://10.0.0.1:20001",
            ("https://10.0.0.1:8444", "https://[fd00::5]:8444"),
        ),
    ],
)
def test_replica_dials_the_router_where_its_agent_calls_the_server(servers: str, addresses: tuple[str, ...]):
    router = {
        "addresses": ["unix:/home/x/router/replicas/router.sock"], "port": 8444,
        "endpoint": "ships", "deployment": "blue", "replica": "blue_0",
    }  # fmt: skip
    variables = {
        "DRUMBEAT_SCORING": json.dumps({"router": router}), "DRUMBEAT_REPLICA_SECRET": "s",
        "DRUMBEAT_REPLICA_SERVERS": servers, "DRUMBEAT_REPLICA_CA": "the certificate",
    }  # fmt: skip
    access = read_settings("", variables).router
    assert access is not None
    assert access.addresses == addresses
    assert access.secret == "s"
    assert (access.ca == "the certificate") == (addresses[0].startswith("https:"))

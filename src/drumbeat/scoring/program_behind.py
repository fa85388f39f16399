"""A program with routes of its own behind the scoring server: a container's server, vLLM, anything that speaks HTTP.

The scoring server starts it, or finds it at a port of loopback, asks its routes whether it is ready and alive, and
passes requests and answers on as they are, piece by piece.
"""

from __future__ import annotations

import contextlib
import http.client
import logging
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence

from drumbeat.scoring.messages import ScoringAnswer, ScoringRequest, error_answer
from drumbeat.scoring.run_timeout import RunTimeoutError
from drumbeat.scoring.scorer import ScorerError
from drumbeat.scoring.settings import ProgramBehind, RouteProbe

log = logging.getLogger("drumbeat.scoring")
_HOP_BY_HOP = frozenset({
    b"connection", b"keep-alive", b"transfer-encoding", b"te", b"trailer", b"upgrade", b"content-length", b"expect",
    b"proxy-authorization", b"proxy-authenticate",
})  # fmt: skip
_PIECE_BYTES = 64 << 10
_HOST = "127.0.0.1"


class PassedOn:
    """Implements `scorer.Scorer` by passing requests on."""

    can_batch = False

    def __init__(self, behind: ProgramBehind, timeout_s: float) -> None:
        self._behind, self._timeout_s = behind, timeout_s
        self._local = threading.local()
        self._name = behind.name or next(iter(behind.command), "the program behind")
        self.process: subprocess.Popen[bytes] | None = None

    def init(self) -> None:
        if self._behind.command:
            self._check_port()
            try:
                self.process = subprocess.Popen(self._behind.command)
            except OSError as error:
                raise ScorerError(f"{self._name} can't be started: {error}") from error
        self._await_readiness(self._behind.readiness)

    def _check_port(self) -> None:
        """Raises ScorerError where another program, such as that of another replica, would answer instead."""
        with contextlib.suppress(OSError), socket.create_connection((_HOST, self._behind.port), 1.0):
            raise ScorerError(
                f"Port {self._behind.port} of this machine has a listener already, perhaps another replica's server. "
                "Give the environment an `image`, whose containers have ports of their own."
            )

    def _await_readiness(self, probe: RouteProbe) -> None:
        """Raises ScorerError when the program ends, or isn't ready after the probe's last try."""
        give_up = time.monotonic() + probe.initial_delay + probe.period * probe.failure_threshold
        pause = 0.05
        while not self.is_answering(probe):
            if self.process is not None and (code := self.process.poll()) is not None:
                raise ScorerError(f"{self._name} ended with {code} before it was ready.")
            if time.monotonic() > give_up:
                self.stop()
                raise ScorerError(
                    f"Nothing answered at {_HOST}:{self._behind.port}{probe.path} within the time of the readiness "
                    "probe. Check the port and the route, or raise failure_threshold."
                )
            time.sleep(pause)
            pause = min(1.0, pause * 1.5)

    def is_answering(self, probe: RouteProbe) -> bool:
        """Whether a route answers with a status below 400."""
        connection = http.client.HTTPConnection(_HOST, self._behind.port, timeout=probe.timeout)
        try:
            connection.request("GET", probe.path)
            return connection.getresponse().status < 400
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    def stop(self, grace_s: float = 10.0) -> None:
        """Ends the program that `init` has started."""
        if self.process is None or self.process.poll() is not None:
            return
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(grace_s)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def immediate(self, request: ScoringRequest) -> ScoringAnswer | None:
        return None

    def score_many(self, requests: Sequence[ScoringRequest]) -> list[ScoringAnswer]:
        return [self.score(one) for one in requests]

    def score(self, request: ScoringRequest) -> ScoringAnswer:
        begin = time.perf_counter()
        try:
            response = self._response(request)
        except RunTimeoutError:
            self._forget()
            raise
        except (OSError, http.client.HTTPException) as error:
            self._forget()
            log.warning("the program at port %d doesn't answer: %s", self._behind.port, error or type(error).__name__)
            return error_answer(502, f"The model's program doesn't answer: {error or type(error).__name__}.")
        headers = [(n, v) for n, v in response.getheaders() if n.lower().encode("latin-1") not in _HOP_BY_HOP]
        length = response.length
        if length is not None and length <= _PIECE_BYTES:
            answer = ScoringAnswer(response.status, headers, response.read())
        else:
            answer = ScoringAnswer(response.status, headers, self._pieces(response))
        answer.add("x-ms-run-fn-exec-ms", f"{(time.perf_counter() - begin) * 1e3:.3f}")
        return answer

    def _response(self, request: ScoringRequest) -> http.client.HTTPResponse:
        """Sends a request by this thread's connection; again by a fresh one if that was closed meanwhile."""
        connection: http.client.HTTPConnection | None = getattr(self._local, "connection", None)
        if connection is not None:
            try:
                return self._sent(connection, request)
            except (ConnectionError, http.client.RemoteDisconnected, http.client.CannotSendRequest):
                self._forget()
        fresh = http.client.HTTPConnection(_HOST, self._behind.port, timeout=self._timeout_s)
        self._local.connection = fresh
        return self._sent(fresh, request)

    def _sent(self, connection: http.client.HTTPConnection, request: ScoringRequest) -> http.client.HTTPResponse:
        connection.putrequest(request.method, self._target(request), skip_host=True, skip_accept_encoding=True)
        for name, value in request.raw_headers:
            if name.lower() not in _HOP_BY_HOP:
                connection.putheader(name, value)
        if "host" not in request.headers:
            connection.putheader("Host", _HOST)
        if request.body or request.method in {"POST", "PUT", "PATCH"}:
            connection.putheader("Content-Length", str(len(request.body)))
        connection.endheaders(request.body or None)
        return connection.getresponse()

    def _target(self, request: ScoringRequest) -> str:
        """The path and query of a request for the program: `/score` leads to its scoring route."""
        path, mark, query = request.target.partition("?")
        is_scoring = path == "/score" and self._behind.scoring_path
        return f"{self._behind.scoring_path}{mark}{query}" if is_scoring else request.target

    def _pieces(self, response: http.client.HTTPResponse) -> Iterator[bytes]:
        is_whole = False
        try:
            while piece := response.read1(_PIECE_BYTES):
                yield piece
            is_whole = True
        finally:
            if not is_whole:
                self._forget()

    def _forget(self) -> None:
        connection: http.client.HTTPConnection | None = getattr(self._local, "connection", None)
        if connection is not None:
            connection.close()
            self._local.connection = None

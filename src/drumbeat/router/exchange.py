"""One request on its way: it waits for a permit, runs at a replica, and is tried again by the rules.

- A replica that drains hasn't taken the request: it goes to another one, as often as that happens.
- A replica that dies may have run it: it goes to another one once, unless the deployment says no; then 502.
- After the first byte of the answer nothing is tried again.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Protocol

from drumbeat.model.routing_table import DeploymentRoute
from drumbeat.router.numbers import DeploymentNumbers

MAX_DEATHS = 1
"""How many replicas may die of a request before it is given up."""
_SMALL_BYTES = 64 << 10


class RequestPhase(Enum):
    """How far a request is."""

    WAITING = "waiting"
    RUNNING = "running"
    STREAMING = "streaming"
    ENDED = "ended"


class Permit(Protocol):
    """A replica's connection, which runs one request at a time."""

    replica: str
    process: str
    """Which process of the replica has dialed; all its connections end with it."""
    is_idle: bool
    has_redialed: bool
    """Whether the replica has been asked to dial this router's successor."""
    heard_s: float

    def run(self, exchange: Exchange) -> None:
        """Sends a request."""
        ...

    def redial(self) -> None:
        """Asks the replica to dial again: the next connection goes to this router's successor."""
        ...

    def abandon(self) -> None:
        """Gives up the request that runs. The replica dials again when the run has ended."""
        ...

    def end_if_silent(self, now: float) -> None:
        """Cuts an answer that has begun and doesn't go on."""
        ...

    def close(self) -> None:
        """Closes the connection now if it is idle, else after its answer."""
        ...

    def pause(self) -> None:
        """The client is slow."""
        ...

    def resume(self) -> None:
        """The client has caught up."""
        ...


class PermitQueue(Protocol):
    """The pool of a deployment, as its requests see it."""

    deployment: str
    route: DeploymentRoute
    numbers: DeploymentNumbers
    now: Callable[[], float]
    """The monotonic time in seconds."""

    def send(self, exchange: Exchange, *, is_again: bool = False) -> None:
        """Runs a request, or has it wait. is_again: it was at a replica already."""
        ...

    def has_begun(self, exchange: Exchange) -> None:
        """The answer has begun: the time-out is over."""
        ...

    def leave(self, exchange: Exchange) -> None:
        """Takes a request off the queue."""
        ...

    def count(self, exchange: Exchange, status: int) -> None:
        """Counts an ended request."""
        ...


class AnswerReceiver(Protocol):
    """The client's side of an exchange."""

    def begin(self, status: int, headers: list[tuple[bytes, bytes]], length: int | None) -> None:
        """Begins an answer. length: of its body; None = it comes by pieces."""
        ...

    def piece(self, data: bytes) -> None:
        """Passes a piece of the body on."""
        ...

    def end(self) -> None:
        """Ends a whole answer."""
        ...

    def refuse(self, status: int, message: str) -> None:
        """Answers instead of a replica."""
        ...

    def cut(self) -> None:
        """Ends an answer that isn't whole."""
        ...


class Exchange:
    """A request and what has become of it. receiver: None for a copy to a mirror, whose answer is dropped."""

    __slots__ = (
        "begin_s",
        "body",
        "connection",
        "dead_process",
        "deaths",
        "head",
        "is_head",
        "phase",
        "pool",
        "receiver",
    )  # fmt: skip

    def __init__(
        self, pool: PermitQueue, receiver: AnswerReceiver | None, head: bytes, body: bytes, *, is_head: bool
    ) -> None:
        self.pool, self.receiver, self.head, self.body, self.is_head = pool, receiver, head, body, is_head
        self.phase = RequestPhase.WAITING
        self.connection: Permit | None = None
        self.deaths = 0
        self.dead_process = ""
        """The process that died while it ran this: its other connections may look alive for a moment."""
        self.begin_s = pool.now()

    # --- on its way ---------------------------------------------------------------------------------------------
    def run_at(self, connection: Permit) -> None:
        """Sends the request to a replica."""
        self.phase, self.connection = RequestPhase.RUNNING, connection
        connection.run(self)

    def wire(self) -> tuple[bytes, bytes]:
        """The request's bytes in one or two parts."""
        if len(self.body) <= _SMALL_BYTES:
            return self.head + self.body, b""
        return self.head, self.body

    def drained(self) -> None:
        """The replica drains and hasn't taken the request."""
        self.connection = None
        if self.phase is not RequestPhase.RUNNING:
            return
        self.pool.numbers.retries_after_drain += 1
        self.pool.send(self, is_again=True)

    def died(self, process: str) -> None:
        """The connection ended before the answer did."""
        self.connection = None
        if self.phase is RequestPhase.STREAMING:
            self._end(499)
            if self.receiver is not None:
                self.receiver.cut()
        elif self.phase is RequestPhase.RUNNING:
            self.deaths += 1
            self.dead_process = process
            if self.deaths <= MAX_DEATHS and self.pool.route.has_retry and self.receiver is not None:
                self.pool.numbers.retries_after_death += 1
                self.pool.send(self, is_again=True)
            else:
                times = "another replica died of it, too" if self.deaths > 1 else "it isn't sent again"
                self.refuse(502, f"The replica that ran this request ended before it answered; {times}.")

    def answered_head(self, status: int, headers: list[tuple[bytes, bytes]], length: int | None) -> None:
        """The head of the answer is here, and its body isn't complete: it goes on by pieces."""
        self.phase = RequestPhase.STREAMING
        self.body = b""
        self.pool.has_begun(self)
        if self.receiver is not None:
            self.receiver.begin(*self._passed(status, headers), length)

    def answered_piece(self, data: bytes) -> None:
        """A piece of the answer."""
        if self.receiver is not None:
            self.receiver.piece(data)

    def answered_end(self, status: int) -> None:
        """The answer is complete."""
        self.connection = None
        shown = status if 200 <= status < 300 or self.pool.route.passes_errors else 424
        self._end(shown)
        if self.receiver is not None:
            self.receiver.end()

    def answered_whole(self, status: int, headers: list[tuple[bytes, bytes]], body: bytes) -> None:
        """The answer came at once."""
        self.connection = None
        shown, passed = self._passed(status, headers)
        self._end(shown)
        if self.receiver is not None:
            self.receiver.begin(shown, passed, len(body))
            if body:
                self.receiver.piece(body)
            self.receiver.end()

    def _passed(self, status: int, headers: list[tuple[bytes, bytes]]) -> tuple[int, list[tuple[bytes, bytes]]]:
        """Status and headers as the client gets them."""
        passed = headers
        passed.append((b"azureml-model-deployment", self.pool.deployment.encode()))
        if 200 <= status < 300 or self.pool.route.passes_errors:
            return status, passed
        code = str(status).encode()
        return 424, [
            *passed,
            (b"ms-azureml-model-error-statuscode", code),
            (b"ms-azureml-model-error-reason", b"model_error"),
        ]

    # --- its end ------------------------------------------------------------------------------------------------
    def refuse(self, status: int, message: str) -> None:
        """Answers with the router's own words."""
        self._leave()
        self._end(status)
        if self.receiver is not None:
            self.receiver.refuse(status, message)

    def abandon(self) -> None:
        """The client is gone: a run at a replica is given up."""
        if self.phase is RequestPhase.ENDED:
            return
        self.receiver = None
        self._leave()
        self._end(499)

    def _leave(self) -> None:
        """Takes the request off its queue or its replica."""
        self.pool.leave(self)
        connection, self.connection = self.connection, None
        if connection is not None:
            connection.abandon()

    def _end(self, status: int) -> None:
        self.phase = RequestPhase.ENDED
        self.body = b""
        self.pool.has_begun(self)
        self.pool.count(self, status)

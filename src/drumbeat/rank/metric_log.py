"""`drumbeat.log(loss=…, step=…)`: a call adds to a buffer, and a thread sends the buffer to the endpoint of the node.

Outside of drumbeat's jobs a call does nothing.
"""

from __future__ import annotations

import atexit
import json
import math
import os
import sys
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Any, SupportsFloat

if TYPE_CHECKING:
    import http.client

ADDRESS = "DRUMBEAT_METRICS"
"""The variable with the address of the endpoint, in which the rank stands (`drumbeat.launchers.tracking_variables`)."""
MAX_CALLS = 200_000
"""Calls that wait to be sent; later ones are dropped meanwhile, and their number is printed at the end."""
MAX_POINTS = 5_000
"""Points of one request."""
MAX_NAME, MAX_STEP = 250, 2**63 - 1
"""The longest name of a metric in characters, as in MLflow, and the last step that a database keeps."""
MAX_WARNINGS = 20
"""Sentences on values that aren't kept; later ones are counted."""
INTERVAL_S, FLUSH_S = 0.1, 10.0
_TIMEOUT_S = 30.0
_FIRST_PAUSE_S, _MAX_PAUSE_S = 0.1, 2.0

_LAST = -100
"""The priority of the flush among what multiprocessing does at the end of a child: after its own pools and queues."""

_MAX_QUOTED = 60
"""Characters of a name or value in a sentence."""

_Call = tuple[int, "int | None", dict[str, float]]
_Mark = threading.Event
"""Among the calls: is set when the node has those before it."""


def log(*, step: int | None = None, **values: SupportsFloat) -> None:
    """Logs the value of each metric at a step; without a step, each metric counts its own calls from 0.

    The count begins again in each process, also after a restart: a training that resumes gives its step. Never waits
    for the network or a disk. A tensor on a GPU is waited for, as with `.item()`. What can't be kept, as a value that
    is no number, is left out with a warning on standard error: it never ends a training.
    """
    buffer = _buffer
    if buffer is None:
        return
    # Both are read here: a tensor may have changed by the time that the thread sends the call.
    number = None if step is None else _step_of(step)
    if isinstance(number, str):
        buffer.warn(f"{', '.join(map(_quoted, values))} at step {_quoted(step)}", number)
        return
    floats: dict[str, float] = {}
    for name, value in values.items():
        number_or_fault = _name_fault(name) or _float_of(value)
        if isinstance(number_or_fault, str):
            buffer.warn(_quoted(name), number_or_fault)
        else:
            floats[name] = number_or_fault
    buffer.add(number, floats)


def _step_of(step: Any) -> int | str:
    """Returns the step, or why it is none."""
    try:
        number = int(step)
    except (TypeError, ValueError, OverflowError):
        return "a step is a whole number"
    return number if abs(number) <= MAX_STEP else "a step is a whole number of 64 bits"


def _name_fault(name: str) -> str:
    """Returns why a name isn't kept, "" = it is."""
    return "" if 0 < len(name) <= MAX_NAME else f"a name has 1 to {MAX_NAME} characters, this one {len(name)}"


def _float_of(value: Any) -> float | str:
    """Returns the value, or why it is none. An error of the device, as CUDA's, is the training's and goes through."""
    shape = getattr(value, "shape", ())
    if shape and math.prod(shape) != 1:
        return f"a value is one number, and this is an array of shape {list(shape)}"
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return f"a value is a number, and this is {_quoted(value)}"


def _quoted(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _MAX_QUOTED else f"{text[:_MAX_QUOTED]}…"


def sync(within_s: float = FLUSH_S) -> None:
    """Returns once the node has what this process has logged so far, or after this time.

    A checkpoint is published after it: the steps that it covers aren't done again, so their values would be lost with
    a process that is killed.
    """
    buffer = _buffer
    if buffer is not None:
        buffer.sync(within_s)


class Buffer:
    """Calls on their way to an endpoint. address: `http://host:port/token/rank`."""

    def __init__(self, address: str, rank: int | None = None) -> None:
        # Here and not in the thread: a fork in the middle of an import leaves the child half a module.
        import http.client

        self._sender, self._rank = _Sender(address, http.client.HTTPConnection, http.client.HTTPException), rank
        self._calls: deque[_Call | _Mark] = deque()
        self._steps: dict[str, int] = {}
        self._dropped = self._in_hand = 0
        self._warned: set[tuple[str, str]] = set()
        self._unsaid = 0
        """Warnings that weren't printed: after MAX_WARNINGS, or repetitions."""
        self._wake, self._is_over, self._is_ending = threading.Event(), False, False
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()
        self._waited_s = 0.0
        """How long `_send_here` has waited for an endpoint that didn't answer, since it last did."""

    def add(self, step: int | None, values: dict[str, float]) -> None:
        """Adds a call."""
        if len(self._calls) >= MAX_CALLS:
            self._dropped += 1
            return
        self._calls.append((time.time_ns() // 1_000_000, step, values))
        if self._thread is None:
            self._begin()

    def warn(self, what: str, why: str) -> None:
        """Prints which values of a call aren't kept: once for each metric and reason, and MAX_WARNINGS at most."""
        key = (what.partition(" at step ")[0], why.partition(", and this is")[0])
        if key in self._warned or len(self._warned) >= MAX_WARNINGS:
            self._unsaid += 1
            return
        self._warned.add(key)
        _say(f"{what} is not kept: {why}")

    def _begin(self) -> None:
        with self._starting:
            if self._thread is not None:
                return
            if not self._is_ending:
                _flush_at_end_of_child()
                thread = threading.Thread(target=self._run, name="drumbeat.log", daemon=True)
                try:
                    thread.start()
                except RuntimeError:  # The process ends (from Python 3.12 on), or may have no more threads.
                    pass
                else:
                    self._thread = thread
                    return
            self._send_here()

    def _send_here(self) -> None:
        """Sends all calls in the calling thread, which doesn't wait for an endpoint that is away.

        One that takes requests and doesn't answer costs FLUSH_S in all, not with each call.
        """
        while self._calls:
            points, marks = self._take()
            begun = time.monotonic()
            try:
                self._send(points, within_s=max(0.0, FLUSH_S - self._waited_s))
                self._waited_s = 0.0
            except Exception as error:  # noqa: BLE001 (of a process that ends: its modules may be gone)
                self._waited_s += time.monotonic() - begun
                _say(f"{len(points):,} values were not kept: {type(error).__name__}: {error}")
            self._in_hand = 0
            for mark in marks:
                mark.set()

    def sync(self, within_s: float = FLUSH_S) -> None:
        """Returns once the node has all calls that were made before, or after this time."""
        if self._thread is None or self._is_over:
            return
        mark = _Mark()
        self._calls.append(mark)
        self._wake.set()
        mark.wait(within_s)

    def flush(self, within_s: float = FLUSH_S) -> None:
        """Sends what is left, and ends the thread; returns after this time at the latest.

        A later call starts another thread, unless this one couldn't send everything.
        """
        if self._thread is None or self._is_over:
            return
        self._is_over = True
        self._wake.set()
        self._thread.join(within_s)
        lost = self._dropped + self._in_hand + len(self._calls)
        if lost:
            _say(f"{lost:,} calls were not kept: the node took no more, or too slowly")
        elif not self._thread.is_alive():
            self._thread, self._is_over = None, False

    def end(self) -> None:
        """Sends what is left. What the functions that the process still runs log is sent at once, without a thread."""
        self._is_ending = True
        if self._unsaid:
            _say(f"{self._unsaid:,} more calls had values that are not kept, for reasons as above")
            self._unsaid = 0
        self.flush()

    # --- the thread -----------------------------------------------------------------------------------------------
    def _run(self) -> None:
        while not (self._is_over and not self._calls):
            if len(self._calls) < MAX_POINTS:
                self._wake.wait(INTERVAL_S)
                if not self._is_over:
                    self._wake.clear()
            points, marks = self._take()
            try:
                self._send(points)
            except Exception as error:  # noqa: BLE001 (whatever it is: the thread sends the calls after these)
                _say(f"{len(points):,} values were not kept: {type(error).__name__}: {error}")
            self._in_hand = 0
            for mark in marks:
                mark.set()
        self._sender.close()

    def _send(self, points: list[tuple[str, float, int, int]], *, within_s: float | None = None) -> None:
        if points:
            body = {"points": points} if self._rank is None else {"points": points, "rank": self._rank}
            self._sender.send(body, within_s=within_s)

    def _take(self) -> tuple[list[tuple[str, float, int, int]], list[_Mark]]:
        points: list[tuple[str, float, int, int]] = []
        marks: list[_Mark] = []
        while self._calls and len(points) < MAX_POINTS:
            call = self._calls.popleft()
            if isinstance(call, _Mark):
                marks.append(call)
                continue
            self._in_hand += 1
            at_ms, step, values = call
            for name, value in values.items():
                at = self._steps.get(name, -1) + 1 if step is None else step
                self._steps[name] = at
                points.append((name, value, at, at_ms))
        return points, marks


class _Sender:
    """One connection to the endpoint."""

    def __init__(
        self, address: str, connection: type[http.client.HTTPConnection], error: type[http.client.HTTPException]
    ) -> None:
        host, _, path = address.removeprefix("http://").partition("/")
        self._host, self._path, self._connection, self._error = host, f"/{path}/log", connection, error
        self._line: http.client.HTTPConnection | None = None

    def send(self, body: dict[str, Any], *, within_s: float | None = None) -> None:
        """Sends a body until it is answered: an endpoint that was killed is started again.

        within_s: it is sent once, and not answered in this time raises ConnectionError.
        """
        text, pause_s = json.dumps(body, separators=(",", ":")), _FIRST_PAUSE_S
        while True:
            status, answer = self._try(text, _TIMEOUT_S if within_s is None else within_s)
            if status == 200:
                for sentence in json.loads(answer or "{}").get("refused", ()):
                    _say(sentence)
                return
            if 400 <= status < 500:
                _say(f"the node refuses metrics: {answer[:500]}")
                return
            if within_s is not None:
                raise ConnectionError("the node doesn't answer")
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, _MAX_PAUSE_S)

    def _try(self, text: str, timeout_s: float) -> tuple[int, str]:
        """Returns status and answer; status 0 = there was none."""
        try:
            if not timeout_s:
                return 0, ""
            self._line = self._line or self._connection(self._host, timeout=timeout_s)
            if self._line.sock is not None:
                self._line.sock.settimeout(timeout_s)
            self._line.request("POST", self._path, text, {"Content-Type": "application/json"})
            response = self._line.getresponse()
            return response.status, response.read().decode(errors="replace")
        except (OSError, self._error):
            self.close()
            return 0, ""

    def close(self) -> None:
        """Closes the connection; the next body opens another."""
        if self._line is not None:
            self._line.close()
        self._line = None


def _say(sentence: str) -> None:
    print(f"drumbeat.log: {sentence}", file=sys.stderr, flush=True)  # noqa: T201 (a rank's own log)


def _of_environment() -> Buffer | None:
    """Returns the buffer of this process, None outside of drumbeat's jobs.

    A launcher that a rank runs itself, as torchrun, starts processes with ranks of their own (RANK).
    """
    address, rank = os.environ.get(ADDRESS, ""), os.environ.get("RANK", "")
    return Buffer(address, int(rank) if rank.isdecimal() else None) if address.startswith("http://") else None


def _begin_again() -> None:
    """In a forked process: its parent sends what the parent has logged."""
    global _buffer  # noqa: PLW0603 (one of each process)
    _buffer = _of_environment()


def _flush_at_end_of_child() -> None:
    """Registers the flush with multiprocessing, whose forked children end without atexit's functions.

    It is registered when a child logs first: what is registered at the fork, multiprocessing clears in the child.
    """
    multiprocessing = sys.modules.get("multiprocessing")
    if multiprocessing is not None and multiprocessing.parent_process() is not None:
        sys.modules["multiprocessing.util"].Finalize(None, _flush, exitpriority=_LAST)


def _flush() -> None:
    if _buffer is not None:
        _buffer.end()


_buffer = _of_environment()
atexit.register(_flush)
os.register_at_fork(after_in_child=_begin_again)

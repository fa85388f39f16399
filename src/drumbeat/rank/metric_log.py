"""`drumbeat.log(loss=…, step=…)`: a call adds to a buffer, and a thread sends the buffer to the node's endpoint.

Numbers are sent many at once, and images, tables, histograms and texts (`drumbeat.rank.media`) one by one.
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
from collections.abc import Sequence
from typing import Any, NamedTuple, SupportsFloat

from drumbeat.rank.media import MAX_BYTES, LoggedImage, Media, MediaFile, entry_of, fault_of, media_of
from drumbeat.rank.node_sender import NodeSender, warn

ADDRESS = "DRUMBEAT_METRICS"
"""The variable with the address of the endpoint, which includes the rank (`drumbeat.launchers.tracking_variables`)."""
MAX_CALLS = 200_000
"""The maximum number of buffered calls; further ones are dropped, and their number is printed at the end."""
MAX_POINTS = 5_000
"""The maximum number of points of one request."""
MAX_NAME, MAX_STEP = 250, 2**63 - 1
"""The longest name of a metric in characters, as in MLflow, and the largest step that a database stores."""
MAX_HELD_BYTES = 256 << 20
"""The maximum size of the buffered images, tables, histograms and texts; further ones are not kept."""
MAX_WARNINGS = 20
"""The maximum number of printed warnings; further ones are counted."""
INTERVAL_S, FLUSH_S = 0.1, 10.0

_LAST = -100
"""The priority of the flush among multiprocessing's finalizers of a child: after its own pools and queues."""

_MAX_QUOTED = 60
"""The maximum characters of a name or value in a warning."""

_Value = float | tuple[MediaFile, ...]
_Call = tuple[int, "int | None", dict[str, _Value]]
_Mark = threading.Event
"""A marker among the calls: it is set when the node has all calls before it."""


class _Files(NamedTuple):
    """The images, the table, the histogram or the text of one name and step."""

    name: str
    entries: tuple[MediaFile, ...]
    step: int
    at_ms: int


class _Batch:
    """What is sent of the next calls."""

    def __init__(self) -> None:
        self.points: list[tuple[str, float, int, int]] = []
        self.files: list[_Files] = []
        self.marks: list[_Mark] = []

    @property
    def count(self) -> int:
        """How many values it has."""
        return len(self.points) + len(self.files)


LoggedValue = SupportsFloat | Media | Sequence[LoggedImage]
"""What a name may stand for in a call: a number, an image, several images of one step, a table, a histogram, a text."""


def log(*, step: int | None = None, **values: LoggedValue) -> None:
    """Logs the value of each metric at a step; without a step, each metric counts its own calls from 0.

    Beside numbers it takes a `drumbeat.Image` or a list of these, a `drumbeat.Table`, `Histogram` or `Text`.

    The count restarts in each process, even after a restart, so a training that resumes should pass its step. A call
    never waits for the network or a disk, only for a tensor on a GPU, as `.item()` does. A value that can't be kept,
    such as one that isn't a number, is dropped with a warning on standard error: it never ends a training.
    """
    buffer = _buffer
    if buffer is None:
        return
    # Both are read here: a tensor may have changed when the thread sends the call.
    number = None if step is None else _checked_step(step)
    if isinstance(number, str):
        buffer.warn(f"{', '.join(map(_quoted, values))} at step {_quoted(step)}", number)
        return
    kept: dict[str, _Value] = {}
    for name, value in values.items():
        value_or_fault = _name_fault(name) or _checked_value(name, value)
        if isinstance(value_or_fault, str):
            buffer.warn(_quoted(name), value_or_fault)
        else:
            kept[name] = value_or_fault
    buffer.add(number, kept)


def _checked_step(step: Any) -> int | str:
    """Returns the step, or why it is invalid."""
    try:
        number = int(step)
    except (TypeError, ValueError, OverflowError):
        return "a step must be an integer"
    return number if abs(number) <= MAX_STEP else "a step must be a 64-bit integer"


def _name_fault(name: str) -> str:
    """Returns why a name is invalid, "" = it is valid."""
    return (
        ""
        if 0 < len(name) <= MAX_NAME
        else f"a name must have 1 to {MAX_NAME} characters, and this one has {len(name)}"
    )


def _checked_value(name: str, value: Any) -> _Value | str:
    """Returns the value, or why it is invalid. Errors of the device, like CUDA's, are the training's and propagate."""
    if media := media_of(value):
        return fault_of(name, media) or tuple(map(entry_of, media))
    shape = getattr(value, "shape", ())
    if shape and math.prod(shape) != 1:
        return f"a value must be one number, and this is an array of shape {list(shape)}"
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return f"a value must be a number, and this is {_quoted(value)}"


def _query(words: dict[str, object]) -> str:
    """Returns the words as a query. Of the signs of a name, only a blank has to be written in another way."""
    return "&".join(f"{key}={str(value).replace(' ', '%20')}" for key, value in words.items())


def _quoted(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _MAX_QUOTED else f"{text[:_MAX_QUOTED]}…"


def sync(within_s: float = FLUSH_S) -> None:
    """Returns once the node has everything that this process has logged so far, or after this time.

    Checkpoints call it before they are published: the steps that they cover aren't repeated, so values that a killed
    process still held would be lost.
    """
    buffer = _buffer
    if buffer is not None:
        buffer.sync(within_s)


class Buffer:
    """The calls for an endpoint. address: `http://host:port/token/rank`."""

    def __init__(self, address: str, rank: int | None = None) -> None:
        # Imported here and not in the thread: a fork during an import would leave the child with half a module.
        from drumbeat.rank.endpoint_connection import EndpointConnection

        self._sender, self._rank = NodeSender(address, EndpointConnection), rank
        self._calls: deque[_Call | _Mark] = deque()
        self._steps: dict[str, int] = {}
        self._dropped = self._in_hand = self._held = 0
        self._warned: set[tuple[str, str]] = set()
        self._unsaid = 0
        """The count of unprinted warnings: beyond MAX_WARNINGS, or repeated."""
        self._wake, self._is_over, self._is_ending = threading.Event(), False, False
        self._thread: threading.Thread | None = None
        self._starting, self._holding = threading.Lock(), threading.Lock()
        self._waited_s = 0.0
        """How long `_send_here` has waited for an unresponsive endpoint since its last answer."""

    def add(self, step: int | None, values: dict[str, _Value]) -> None:
        """Adds a call."""
        if len(self._calls) >= MAX_CALLS:
            self._dropped += 1
            return
        if any(isinstance(value, tuple) for value in values.values()):
            values = {name: one for name, one in values.items() if not isinstance(one, tuple) or self._holds(name, one)}
        self._calls.append((time.time_ns() // 1_000_000, step, values))
        if self._thread is None:
            self._begin()

    def _holds(self, name: str, entries: tuple[MediaFile, ...]) -> bool:
        """Adds to what is held; returns False, with a warning, if these are too much beside what waits already."""
        size = sum(one.size for one in entries)
        with self._holding:
            is_held = self._held + size <= MAX_HELD_BYTES
            self._held += size if is_held else 0
        if not is_held:
            self.warn(_quoted(name), f"{MAX_HELD_BYTES >> 20} MiB of images, tables and texts wait already")
        return is_held

    def warn(self, what: str, why: str) -> None:
        """Prints which values of a call are dropped: once for each metric and reason, MAX_WARNINGS at most."""
        key = (what.partition(" at step ")[0], why.partition(", and this is")[0])
        if key in self._warned or len(self._warned) >= MAX_WARNINGS:
            self._unsaid += 1
            return
        self._warned.add(key)
        warn(f"{what} is not kept: {why}")

    def _begin(self) -> None:
        with self._starting:
            if self._thread is not None:
                return
            if not self._is_ending:
                _flush_at_end_of_child()
                thread = threading.Thread(target=self._run, name="drumbeat.log", daemon=True)
                try:
                    thread.start()
                except RuntimeError:  # The process is ending (from Python 3.12 on), or can't start more threads.
                    pass
                else:
                    self._thread = thread
                    return
            self._send_here()

    def _send_here(self) -> None:
        """Sends all calls in the calling thread, without waiting for an absent endpoint.

        An endpoint that accepts requests without answering costs FLUSH_S in all, not for each call.
        """
        while self._calls:
            batch = self._take()
            begun = time.monotonic()
            try:
                self._send(batch, within_s=max(0.0, FLUSH_S - self._waited_s))
                self._waited_s = 0.0
            except Exception as error:  # noqa: BLE001 (in an ending process, modules may be gone)
                self._waited_s += time.monotonic() - begun
                warn(f"{batch.count:,} values were not kept: {type(error).__name__}: {error}")
            self._end(batch)

    def sync(self, within_s: float = FLUSH_S) -> None:
        """Returns once the node has all earlier calls, or after this time."""
        if self._thread is None or self._is_over:
            return
        mark = _Mark()
        self._calls.append(mark)
        self._wake.set()
        mark.wait(within_s)

    def flush(self, within_s: float = FLUSH_S) -> None:
        """Sends the rest, and ends the thread; returns after this time at the latest.

        A later call starts another thread, unless this one couldn't send everything.
        """
        if self._thread is None or self._is_over:
            return
        self._is_over = True
        self._wake.set()
        self._thread.join(within_s)
        lost = self._dropped + self._in_hand + len(self._calls)
        if lost:
            warn(f"{lost:,} calls were not kept: the node accepted no more, or too slowly")
        elif not self._thread.is_alive():
            self._thread, self._is_over = None, False

    def end(self) -> None:
        """Sends the rest. Later calls, by functions that run at the process's exit, are sent at
        once, without a thread.
        """
        self._is_ending = True
        if self._unsaid:
            warn(f"{self._unsaid:,} more calls had values that are not kept, for reasons as above")
            self._unsaid = 0
        self.flush()

    # --- the thread -----------------------------------------------------------------------------------------------
    def _run(self) -> None:
        while not (self._is_over and not self._calls):
            if len(self._calls) < MAX_POINTS:
                self._wake.wait(INTERVAL_S)
                if not self._is_over:
                    self._wake.clear()
            batch = self._take()
            try:
                self._send(batch)
            except Exception as error:  # noqa: BLE001 (after any error, the thread sends the next calls)
                warn(f"{batch.count:,} values were not kept: {type(error).__name__}: {error}")
            self._end(batch)
        self._sender.close()

    def _send(self, batch: _Batch, *, within_s: float | None = None) -> None:
        if batch.points:
            body = {"points": batch.points} if self._rank is None else {"points": batch.points, "rank": self._rank}
            self._sender.send(body, within_s=within_s)
        for files in batch.files:
            self._send_files(files, within_s)

    def _send_files(self, files: _Files, within_s: float | None) -> None:
        """Sends a file of each entry, and the captions of images; what is too large is named."""
        about: dict[str, object] = {"name": files.name, "step": files.step, "at_ms": files.at_ms}
        about |= {} if self._rank is None else {"rank": self._rank}
        for index, one in enumerate(files.entries):
            content = one.content()
            if len(content) > MAX_BYTES:
                why = f"it has {len(content) / (1 << 20):,.1f} MiB, and {MAX_BYTES >> 20} MiB are the most"
                self.warn(f"{_quoted(files.name)} at step {files.step}", why)
                continue
            words = _query({**about, "kind": one.kind, "ending": one.ending, "index": index})
            self._sender.post(f"/media?{words}", content, within_s=within_s)
        captions = [one.caption for one in files.entries]
        if any(captions):
            words = _query({**about, "kind": files.entries[0].kind, "ending": "captions.json", "index": 0})
            self._sender.post(f"/media?{words}", json.dumps(captions).encode(), within_s=within_s)

    def _end(self, batch: _Batch) -> None:
        """Releases what was sent, or lost."""
        with self._holding:
            self._held -= sum(entry.size for files in batch.files for entry in files.entries)
        self._in_hand = 0
        for mark in batch.marks:
            mark.set()

    def _take(self) -> _Batch:
        batch = _Batch()
        while self._calls and len(batch.points) < MAX_POINTS:
            call = self._calls.popleft()
            if isinstance(call, _Mark):
                batch.marks.append(call)
                continue
            self._in_hand += 1
            at_ms, step, values = call
            for name, value in values.items():
                at = self._steps.get(name, -1) + 1 if step is None else step
                self._steps[name] = at
                if isinstance(value, tuple):
                    batch.files.append(_Files(name, value, at, at_ms))
                else:
                    batch.points.append((name, value, at, at_ms))
        return batch


def _open_buffer() -> Buffer | None:
    """Returns the buffer of this process, None outside of drumbeat's jobs.

    A launcher that a rank runs itself, like torchrun, starts processes with their own ranks (RANK).
    """
    address, rank = os.environ.get(ADDRESS, ""), os.environ.get("RANK", "")
    return Buffer(address, int(rank) if rank.isdecimal() else None) if address.startswith("http://") else None


def _begin_again() -> None:
    """Starts afresh in a forked process: the parent sends the parent's calls."""
    global _buffer  # noqa: PLW0603 (one for each process)
    _buffer = _open_buffer()


def _flush_at_end_of_child() -> None:
    """Registers the flush with multiprocessing, whose forked children end without atexit's functions.

    It is registered at a child's first call, because multiprocessing clears the registrations of the fork in the child.
    """
    multiprocessing = sys.modules.get("multiprocessing")
    if multiprocessing is not None and multiprocessing.parent_process() is not None:
        sys.modules["multiprocessing.util"].Finalize(None, _flush, exitpriority=_LAST)


def _flush() -> None:
    if _buffer is not None:
        _buffer.end()


_buffer = _open_buffer()
atexit.register(_flush)
os.register_at_fork(after_in_child=_begin_again)

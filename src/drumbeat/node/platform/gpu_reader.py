"""Asks the driver about GPUs in a separate process, so that a hanging driver blocks nothing here. Thread-safe.

`gpu_readings.py` has the readings; `nvml.py` has the library.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from typing import IO, TYPE_CHECKING, cast

from drumbeat.model.programs import GPU_READER
from drumbeat.model.wire import from_wire
from drumbeat.node.host.own_programs import program
from drumbeat.node.platform import child_processes
from drumbeat.node.platform.gpu_readings import GpuReading
from drumbeat.node.platform.nvml import LIBRARY

if TYPE_CHECKING:
    import subprocess

ANSWER_TIMEOUT_S, RETRY_S = 5.0, 60.0
_KILLED_S = 1.0


class GpuReader:
    """Reads by one child, which stays for the next reading.

    A child that doesn't answer is killed. The next one starts `retry_s` later, and only if the first has ended: there
    is never more than one.
    """

    def __init__(self, library: str = LIBRARY, timeout_s: float = ANSWER_TIMEOUT_S, retry_s: float = RETRY_S) -> None:
        self._library, self._timeout_s, self._retry_s = library, timeout_s, retry_s
        self._lock = threading.Lock()
        self._child: subprocess.Popen[bytes] | None = None
        self._is_given_up = False
        self._next_start = 0.0

    def read(self, names: Sequence[str] = ()) -> tuple[GpuReading, ...]:
        """Returns the GPUs that answer in time; () = none, or no driver.

        names: as in `gpu_readings.read`.
        """
        if not _is_installed(self._library) or not self._lock.acquire(timeout=self._timeout_s):
            return ()
        try:
            child = self._running()
            line = self._answer(child, json.dumps(list(names)).encode() + b"\n") if child else b""
            if child and not line.endswith(b"\n"):
                self._give_up(child)
            return from_wire(tuple[GpuReading, ...], json.loads(line)) if line.endswith(b"\n") else ()
        finally:
            self._lock.release()

    def close(self) -> None:
        """Ends the child, without a long wait for one that can't end."""
        import subprocess

        with self._lock:
            if self._child is not None:
                self._give_up(self._child)
                with suppress(subprocess.TimeoutExpired):
                    self._child.wait(_KILLED_S)
                self._forget(self._child)

    def _running(self) -> subprocess.Popen[bytes] | None:
        import subprocess

        child = self._child
        if child is not None:
            has_ended = child.poll() is not None
            if not has_ended:
                return None if self._is_given_up else child
            self._forget(child)
        if time.monotonic() < self._next_start:
            return None
        words = [*program(GPU_READER), self._library]
        try:
            self._child = child_processes.start(
                words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd="/"
            )
        except OSError:
            self._next_start = time.monotonic() + self._retry_s
        self._is_given_up = False
        return self._child

    def _answer(self, child: subprocess.Popen[bytes], question: bytes) -> bytes:
        """Returns the line that a child answers, truncated where it ends or takes too long."""
        # Popen got pipes for both. The child has answered all earlier questions, so this one fits into its pipe.
        stdin, stdout = cast("IO[bytes]", child.stdin).fileno(), cast("IO[bytes]", child.stdout).fileno()
        line, end = b"", time.monotonic() + self._timeout_s
        try:
            os.write(stdin, question)
            while not line.endswith(b"\n") and _is_readable(stdout, end):
                part = os.read(stdout, 1 << 16)
                if not part:
                    break
                line += part
        except OSError:
            return b""
        return line

    def _give_up(self, child: subprocess.Popen[bytes]) -> None:
        self._is_given_up, self._next_start = True, time.monotonic() + self._retry_s
        child.kill()

    def _forget(self, child: subprocess.Popen[bytes]) -> None:
        self._child = None
        child_processes.leave(child)
        for pipe in (child.stdin, child.stdout):
            cast("IO[bytes]", pipe).close()


def _is_readable(file: int, until: float) -> bool:
    """Waits until a file is readable. By poll, because select refuses high file numbers."""
    poll = select.poll()
    poll.register(file, select.POLLIN)
    return bool(poll.poll(max(until - time.monotonic(), 0) * 1000))


@cache
def gpu_reader() -> GpuReader:
    """Returns the reader of this process."""
    return GpuReader()


@cache
def _is_installed(library: str) -> bool:
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True

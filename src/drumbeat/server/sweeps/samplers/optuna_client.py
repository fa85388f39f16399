"""The client of the process that runs Optuna: a query is one line of JSON, and so is its answer.

Every query contains all trials, so the process may end at any time. It ends by itself when it gets no query for a
while, and when the server ends, because its input is closed then.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from threading import Lock, Timer
from time import monotonic
from typing import IO, Any, cast

from drumbeat.model.errors import RefusedError, UnreachableError
from drumbeat.model.programs import OPTUNA

ANSWER_TIMEOUT_S = 120.0
IDLE_TIMEOUT_S = 300.0
MAX_TAIL = 2000
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
"""One thread suffices for the small queries, and leaves the cores to the ranks of local jobs."""


class ProcessEndedError(Exception):
    """The process ended without an answer."""


class OptunaProcess:
    """Runs Optuna, for one query at a time. Thread-safe."""

    def __init__(self, *, answer_timeout_s: float = ANSWER_TIMEOUT_S, idle_timeout_s: float = IDLE_TIMEOUT_S) -> None:
        self._answer_timeout_s, self._idle_timeout_s = answer_timeout_s, idle_timeout_s
        self._lock = Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._errors: IO[bytes] | None = None

    @property
    def pid(self) -> int | None:
        """The id of the running process; None = none runs."""
        return self._process.pid if self._process and self._process.poll() is None else None

    def ask(self, question: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Returns values for the next trials. Raises UnreachableError on a timeout, RefusedError if Optuna fails."""
        line = json.dumps(question).encode() + b"\n"
        with self._lock:
            try:
                answer = self._exchange(line)
            except ProcessEndedError:
                # An idle process may have ended by itself at this moment.
                answer = self._exchange_again(line)
        if "error" in answer:
            raise RefusedError(f"Optuna failed: {answer['error']}", where="sampling_algorithm")
        return answer["values"]

    def close(self) -> None:
        """Ends the process."""
        with self._lock:
            self._end()

    def _exchange_again(self, question: bytes) -> dict[str, Any]:
        self._end()
        try:
            return self._exchange(question)
        except ProcessEndedError:
            what = f"Optuna's process ended without an answer: {self._end() or 'it printed nothing'}"
            fix = "Check its installation: python -c 'import optuna'"
            raise RefusedError(what, where="sampling_algorithm", fix=fix) from None

    def _exchange(self, question: bytes) -> dict[str, Any]:
        process, started = self._running(), monotonic()
        # Both are pipes.
        stdin, stdout = cast("IO[bytes]", process.stdin), cast("IO[bytes]", process.stdout)
        timer = Timer(self._answer_timeout_s, process.kill)
        timer.start()
        try:
            stdin.write(question)
            stdin.flush()
            line = stdout.readline()
        except BrokenPipeError:
            line = b""
        finally:
            timer.cancel()
        if line.endswith(b"\n"):
            return json.loads(line)
        if monotonic() - started >= self._answer_timeout_s:
            self._end()
            what = f"Optuna gave no answer within {self._answer_timeout_s:g} s"
            raise UnreachableError(what, where="sampling_algorithm")
        raise ProcessEndedError

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._process.poll() is not None:
            self._end()
            self._errors = tempfile.TemporaryFile()  # noqa: SIM115 (it is open as long as the process runs)
            # -P: don't import a file optuna.py from the server's current folder.
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", OPTUNA, str(self._idle_timeout_s)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                env={**ONE_THREAD, **os.environ},
                start_new_session=True,
            )
        return self._process

    def _end(self) -> str:
        """Ends the process, and returns the end of its standard error."""
        process, errors, self._process, self._errors = self._process, self._errors, None, None
        if process is None or errors is None:
            return ""
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            with suppress(BrokenPipeError):
                cast("IO[bytes]", pipe).close()
        with errors:
            size = errors.seek(0, os.SEEK_END)
            errors.seek(max(0, size - MAX_TAIL))
            lines = errors.read().decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else ""

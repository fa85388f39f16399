"""The server's end of the process that runs Optuna: one line of JSON for a question, one for its answer.

Every question carries all trials, so the process may end at any time: it does so by itself when it isn't asked
for a while, and when the server is gone, for its input is closed then.
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
"""Each question is small, and the cores are for the ranks of local jobs."""


class ProcessEndedError(Exception):
    """The process ended without an answer."""


class OptunaProcess:
    """Runs Optuna, for one question at a time. Thread-safe."""

    def __init__(self, *, answer_timeout_s: float = ANSWER_TIMEOUT_S, idle_timeout_s: float = IDLE_TIMEOUT_S) -> None:
        self._answer_timeout_s, self._idle_timeout_s = answer_timeout_s, idle_timeout_s
        self._lock = Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._errors: IO[bytes] | None = None

    @property
    def pid(self) -> int | None:
        """The process that runs now, if one does."""
        return self._process.pid if self._process and self._process.poll() is None else None

    def ask(self, question: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Values for the next trials. Raises UnreachableError if it takes too long, RefusedError if Optuna fails."""
        line = json.dumps(question).encode() + b"\n"
        with self._lock:
            try:
                answer = self._exchange(line)
            except ProcessEndedError:
                # It may have ended by itself, idle, just when it was asked.
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
        # Popen was given pipes for both.
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
            # -P: a file optuna.py in the server's current folder isn't taken for the package.
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
        """Ends the process, and gives the last of what it printed to its standard error."""
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

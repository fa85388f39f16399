"""`WORKER_COUNT` processes of one scoring server, each with a model of its own and its share of the connections."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence

from drumbeat.model.programs import SCORING

log = logging.getLogger("drumbeat.scoring")
NUMBER = "DRUMBEAT_SCORING_WORKER"
"""The variable that says to a worker process which one it is."""
LOAD_EXIT = 3
"""The exit code of a process whose model can't be loaded, as of Azure's server."""
_RESTART_PAUSE_S = 0.2


class WorkerProcesses:
    """Starts the processes, and again those that die; ends when one can't load its model."""

    def __init__(self, arguments: Sequence[str], count: int) -> None:
        self._command = [sys.executable, "-m", SCORING, *arguments]
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self._count = count
        self._is_ending = False

    def run(self) -> int:
        """Runs until SIGTERM; returns the exit code."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda _number, _frame: self._end())
        for number in range(self._count):
            self._start(number)
        code = 0
        while self._processes:
            process_id, status = os.wait()
            number = next((one for one, process in self._processes.items() if process.pid == process_id), None)
            if number is None:
                continue
            code = os.waitstatus_to_exitcode(status)
            # subprocess mustn't wait for a process that os.wait() has reaped.
            self._processes.pop(number).returncode = code
            if self._is_ending:
                continue
            if code == LOAD_EXIT:
                log.error("worker %d can't load the model: all workers end", number)
                self._end()
                continue
            hint = ", perhaps by the kernel because memory ran out," if code == -signal.SIGKILL else ""
            log.warning("worker %d ended with %d%s and is started again", number, code, hint)
            time.sleep(_RESTART_PAUSE_S)
            self._start(number)
        return LOAD_EXIT if code == LOAD_EXIT else 0

    def _start(self, number: int) -> None:
        self._processes[number] = subprocess.Popen(self._command, env={**os.environ, NUMBER: str(number)})

    def _end(self) -> None:
        self._is_ending = True
        for process in self._processes.values():
            process.send_signal(signal.SIGTERM)

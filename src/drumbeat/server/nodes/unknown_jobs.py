"""Jobs of which a home that was restored from a backup knows nothing: they were submitted after it was made.

Their agents call, or their gangs are found on the machines, and are ended. An agent's secret is made of the home's key,
so one that shows it is believed.
"""

from __future__ import annotations

import json
import logging
import threading
from contextlib import suppress
from pathlib import Path

from drumbeat.server.home import write_whole

log = logging.getLogger(__name__)

MAX_JOBS = 1_000
"""The maximum number of names that are kept."""


class UnknownJobs:
    """The names of such jobs, in a file that outlives the server. file: None = the home was never restored.

    Thread-safe.
    """

    def __init__(self, file: Path | None = None) -> None:
        self._file, self._lock = file, threading.Lock()
        self._names: list[str] = []
        if file is not None:
            with suppress(OSError, ValueError, TypeError):
                self._names = [str(name) for name in json.loads(file.read_text())][:MAX_JOBS]

    @property
    def names(self) -> tuple[str, ...]:
        """The jobs, in the order in which they were met."""
        with self._lock:
            return tuple(self._names)

    def note(self, job: str) -> None:
        """Notes a job whose agent has called, or whose gang was found."""
        with self._lock:
            if self._file is None or job in self._names or len(self._names) >= MAX_JOBS:
                return
            self._names.append(job)
            log.warning("the restored home knows nothing of job %s, whose nodes were met: they are ended", job)
            with suppress(OSError):  # It is told from memory, then.
                write_whole(self._file, json.dumps(self._names) + "\n")

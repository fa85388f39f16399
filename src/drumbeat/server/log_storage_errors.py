"""Records why this server couldn't store the logs of jobs."""

from __future__ import annotations

import time
from collections.abc import Callable

from drumbeat.core.lifecycle.job import Job

LASTS_S = 30.0
"""How long an error counts. An agent retries within 5 s, perhaps successfully at another server."""


class LogStorageErrors:
    """The errors by job. Written by one thread, read by any. monotonic: a clock, in seconds."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._said: dict[str, tuple[str, float]] = {}

    def for_job(self, job: Job) -> str:
        """Returns why the job's logs can't be stored; "" = they can."""
        sentence, said_at = self._said.get(job.name, ("", 0.0))
        return sentence if not job.state.is_terminal and self._monotonic() < said_at + LASTS_S else ""

    def record(self, job: str, sentence: str) -> bool:
        """Records an error, "" = resolved. Returns whether it has changed."""
        now = self._monotonic()
        fresh = {name: (text, at) for name, (text, at) in self._said.items() if now < at + LASTS_S}
        before, _ = fresh.pop(job, ("", 0.0))
        self._said = {**fresh, job: (sentence, now)} if sentence else fresh
        return sentence != before

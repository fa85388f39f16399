"""What keeps the logs of jobs from being stored, as this server was told by those that it refused."""

from __future__ import annotations

import time
from collections.abc import Callable

from drumbeat.core.lifecycle.job import Job

LASTS_S = 30.0
"""How long a refusal counts: an agent tries again within 5 s, here or, with success maybe, at another server."""


class LogStorageErrors:
    """By job. Written by one thread, read by any. monotonic: a clock, in seconds."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._said: dict[str, tuple[str, float]] = {}

    def for_job(self, job: Job) -> str:
        """What keeps the job's logs on their nodes; "" = nothing."""
        sentence, said_at = self._said.get(job.name, ("", 0.0))
        return sentence if not job.state.is_terminal and self._monotonic() < said_at + LASTS_S else ""

    def record(self, job: str, sentence: str) -> bool:
        """Keeps it, "" = nothing any more; gives whether it's another one than before."""
        now = self._monotonic()
        fresh = {name: (said, at) for name, (said, at) in self._said.items() if now < at + LASTS_S}
        before, _ = fresh.pop(job, ("", 0.0))
        self._said = {**fresh, job: (sentence, now)} if sentence else fresh
        return sentence != before

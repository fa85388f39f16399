"""The first value that a job's ranks log in a round: the sign that they have started up and work."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from drumbeat.core.lifecycle.events import ValueLogged
from drumbeat.core.lifecycle.job import Job
from drumbeat.model.errors import DrumbeatError
from drumbeat.model.metric_lines import Spooled
from drumbeat.model.metrics import SYSTEM, PointsLogged, value_to_json
from drumbeat.model.states import Reason, State
from drumbeat.server.loop.loop import Loop


class FirstValues:
    """Notes in a job's story when its ranks have logged their first value. Thread-safe."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop

    def note(self, job: Job, attempt: int, records: Sequence[Spooled]) -> None:
        """Takes records that a node of the attempt has just sent. What fails is noted with the next records."""
        if (job.state, job.reason, job.attempt) != (State.RUNNING, Reason.RANKS_RUNNING, attempt):
            return
        if sentence := first_value(job, records):
            event = ValueLogged(attempt, job.round, sentence)
            with contextlib.suppress(DrumbeatError):
                self._loop.call(lambda: self._loop.apply(job.name, event))


def first_value(job: Job, records: Sequence[Spooled]) -> str:
    """Returns the first value among the records that a rank of the job's present round logged, in a sentence.

    "" = there is none. A node may send what earlier rounds logged after the next one has begun.
    """
    began_at = job.failures[-1].at if job.failures else job.started_at
    began_ms = began_at.timestamp() * 1000 if began_at else 0.0
    for _, record in records:
        if isinstance(record, PointsLogged):
            for point in record.points:
                if not point.name.startswith(SYSTEM) and point.at_ms >= began_ms:
                    value = value_to_json(point.value)
                    shown = value if isinstance(value, str) else f"{value:.4g}"
                    return f"rank {record.rank} logged its first value: {point.name} {shown} at step {point.step}"
    return ""

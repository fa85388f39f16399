"""The checkpoints that the ranks of elastic jobs save: after one, a job may take the nodes that are free."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from drumbeat.control.loop.loop import Loop
from drumbeat.control.metrics.checkpoint_points import WRITE
from drumbeat.core.life.events import CheckpointSaved
from drumbeat.core.life.job import Job
from drumbeat.protocol.errors import DrumbeatError
from drumbeat.protocol.metric_lines import Spooled
from drumbeat.protocol.metrics import PointsLogged
from drumbeat.protocol.states import State


class CheckpointSaves:
    """Reports saved checkpoints to the jobs that wait for one to grow. Thread-safe."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop

    def note(self, job: Job, attempt: int, records: Sequence[Spooled]) -> None:
        """Takes records that a node of the attempt has just sent. What fails is noted with the next checkpoint."""
        if not job.growth or (job.state, job.attempt) != (State.RUNNING, attempt):
            return
        steps = [step for _, record in records if isinstance(record, PointsLogged) for step in _saved(record)]
        if steps:
            event = CheckpointSaved(attempt, job.round, max(steps))
            with contextlib.suppress(DrumbeatError):
                self._loop.call(lambda: self._loop.deliver(job.name, event))


def _saved(record: PointsLogged) -> list[int]:
    return [point.step for point in record.points if point.name == WRITE]

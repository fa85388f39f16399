"""The checkpoints of jobs, which `drumbeat.train.Checkpoints` logs when the files of a save are written."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from drumbeat.core.ledger_times import Save
from drumbeat.core.lifecycle.events import CheckpointSaved
from drumbeat.core.lifecycle.job import Job
from drumbeat.model.errors import DrumbeatError
from drumbeat.model.metric_lines import Spooled
from drumbeat.model.metrics import Point, PointsLogged, run_id
from drumbeat.model.states import State
from drumbeat.server.loop.loop import Loop

if TYPE_CHECKING:
    from drumbeat.server.metrics.tables import SqlMetricStore

STALL, WRITE = "checkpoint/stall_s", "checkpoint/write_s"
_MAX_SAVES = 10_000
"""Maximum number of saves of one job that are read."""


def read_saves(store: SqlMetricStore, names: Sequence[str]) -> dict[str, list[Save]]:
    """Returns the checkpoints of those of these jobs that have saved any."""
    runs = {run_id(name): name for name in names}
    stalls = store.curves([*runs], STALL, _MAX_SAVES)
    writes = store.curves([*stalls], WRITE, _MAX_SAVES) if stalls else {}
    return {runs[run]: _saves(points, writes.get(run, [])) for run, points in stalls.items()}


def _saves(stalls: list[Point], writes: list[Point]) -> list[Save]:
    written_s = {(point.step, point.at_ms): point.value for point in writes}
    return [
        Save(
            datetime.fromtimestamp(stall.at_ms / 1000 - written_s.get((stall.step, stall.at_ms), 0.0), UTC),
            timedelta(seconds=stall.value),
        )
        for stall in stalls
        if math.isfinite(stall.value) and stall.value >= 0
    ]


def read_last_save(store: SqlMetricStore, name: str) -> tuple[int, datetime] | None:
    """Returns step and time of the last checkpoint of a job, None = it has saved none."""
    points = [one for some in store.curves([run_id(name)], WRITE, _MAX_SAVES).values() for one in some]
    last = max(points, key=lambda point: point.at_ms, default=None)
    return (last.step, datetime.fromtimestamp(last.at_ms / 1000, UTC)) if last else None


class CheckpointSaves:
    """Reports saved checkpoints to elastic jobs, which may then grow to free nodes. Thread-safe."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop

    def note(self, job: Job, attempt: int, records: Sequence[Spooled]) -> None:
        """Handles new records from a node of the attempt. After a failure, the next checkpoint is reported instead."""
        if not job.growth or (job.state, job.attempt) != (State.RUNNING, attempt):
            return
        steps = [step for _, record in records if isinstance(record, PointsLogged) for step in _saved(record)]
        if steps:
            event = CheckpointSaved(attempt, job.round, max(steps))
            with contextlib.suppress(DrumbeatError):
                self._loop.call(lambda: self._loop.apply(job.name, event))


def _saved(record: PointsLogged) -> list[int]:
    return [point.step for point in record.points if point.name == WRITE]

"""The checkpoints of jobs, as `drumbeat.train.Checkpoints` logs them: once a save's files are written."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from drumbeat.core.ledger_times import Save
from drumbeat.ports.metrics import MetricStore
from drumbeat.protocol.metrics import Point, run_id

STALL, WRITE = "checkpoint/stall_s", "checkpoint/write_s"
_MAX_SAVES = 10_000
"""Saves of one job that are read; of more, a part."""


def saves_of(store: MetricStore, names: Sequence[str]) -> dict[str, list[Save]]:
    """Returns the checkpoints of each of these jobs that has saved any."""
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

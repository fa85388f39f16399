"""The values of runs that come from their jobs. They are made once per version of a job."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, cast

from drumbeat.core.lifecycle.job import Job
from drumbeat.core.run_queries.fields import Cell
from drumbeat.core.sweeps.trial_values import PREFIX
from drumbeat.model.metrics import run_id
from drumbeat.model.states import State
from drumbeat.server.database.records import Record
from drumbeat.server.metrics.metrics import STATUS_OF

_UNSTARTED = (State.QUEUED, State.PROVISIONING, State.STAGING)
_HOUR_S = 3600.0


@dataclass(frozen=True)
class RunFacts:
    """What a job says of its run. attributes: by their names in `ATTRIBUTES`, but for those that grow with time."""

    job: str
    run: str
    experiment: str
    """The name by which the job calls its experiment."""
    attributes: Mapping[str, Cell]
    inputs: Mapping[str, Cell]
    tags: Mapping[str, str]
    gpus: int
    started_at: datetime | None
    ended_at: datetime | None

    def duration_s(self, now: datetime) -> float | None:
        """The seconds since the job started, or until it ended; None = it hasn't started."""
        return None if self.started_at is None else ((self.ended_at or now) - self.started_at).total_seconds()

    def gpu_hours(self, now: datetime) -> float | None:
        """The GPUs of the job times its duration."""
        duration = self.duration_s(now)
        return None if duration is None else self.gpus * duration / _HOUR_S


class KnownFacts:
    """Caches facts by the name and version of the job. Thread-safe."""

    def __init__(self, size: int = 50_000) -> None:
        self._size = size
        self._facts: OrderedDict[str, tuple[int, RunFacts]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, name: str, version: int) -> RunFacts | None:
        """Returns the facts of a job if they are cached at that version."""
        with self._lock:
            cached = self._facts.get(name)
            return cached[1] if cached is not None and cached[0] == version else None

    def put(self, records: Iterable[Record]) -> dict[str, RunFacts]:
        """Adds the facts of jobs, and drops the oldest ones. Returns the added ones by job."""
        made = {record.job.name: (record.version, facts_of(record)) for record in records}
        with self._lock:
            for name, versioned in made.items():
                self._facts.pop(name, None)
                self._facts[name] = versioned
            while len(self._facts) > self._size:
                self._facts.popitem(last=False)
        return {name: facts for name, (_, facts) in made.items()}


def facts_of(record: Record) -> RunFacts:
    """Returns what a job says of its run."""
    job, plan = record.job, record.job.plan
    gpus = job.need.nodes * job.need.gpus
    attributes: dict[str, Cell] = {
        "name": job.name,
        "display_name": job.display_name or job.name,
        "state": job.state.value,
        "reason": job.reason.value,
        "error": job.verdict.sentence if job.verdict and job.state is State.FAILED else None,
        "status": STATUS_OF.get(job.state, "SCHEDULED" if job.state in _UNSTARTED else "RUNNING"),
        "user": job.user or None,
        "compute": plan.compute,
        "environment": plan.environment or None,
        "type": job.kind.value,
        "parent": job.parent or None,
        "run_id": run_id(job.name),
        "submitted": _ms(job.submitted_at),
        "started": _ms(job.started_at),
        "ended": _ms(job.ended_at),
        "nodes": float(plan.nodes),
        "ranks": float(plan.world_size),
        "gpus": float(gpus),
        "failures": float(len(job.failures)),
    }
    return RunFacts(
        job.name,
        run_id(job.name),
        plan.experiment,
        attributes,
        _inputs(record.spec, job),
        {str(key): str(value) for key, value in job.tags.items()},
        gpus,
        job.started_at,
        job.ended_at,
    )


def _inputs(spec: Mapping[str, Any], job: Job) -> dict[str, Cell]:
    """Returns the literal values and the paths of a job's inputs, and of a trial the values of its parameters."""
    cells: dict[str, Cell] = {}
    for name, given in _mapping(spec.get("inputs")).items():
        value: object = given
        if isinstance(given, dict):
            written = cast("dict[str, object]", given)
            value = written.get("path", written.get("value", written.get("default")))
        cells[name] = _cell(value)
    if job.parent:
        for variable, value in _mapping(spec.get("environment_variables")).items():
            if variable.startswith(PREFIX):
                cells[variable.removeprefix(PREFIX)] = _cell(value)
    return {name: cell for name, cell in cells.items() if cell is not None}


def _mapping(value: object) -> dict[str, object]:
    return cast("dict[str, object]", value) if isinstance(value, dict) else {}


def _cell(value: object) -> Cell:
    if value is None:
        return None
    if isinstance(value, bool):
        return str(value).lower()
    return float(value) if isinstance(value, int | float) and abs(value) < 1e300 else str(value)


def _ms(at: datetime | None) -> float | None:
    return None if at is None else float(int(at.timestamp() * 1000))

"""The runs that ranks of a node write to, in memory: for checks, and for readers while the server is away."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from drumbeat.model.metrics import (
    InputsLogged,
    JsonObject,
    MetricRecord,
    OutputsLogged,
    ParamsLogged,
    Point,
    PointsLogged,
    Run,
    RunCreated,
    RunDeleted,
    RunRestored,
    RunUpdated,
    TagDeleted,
    TagsSet,
)
from drumbeat.model.mlflow_runs import artifact_uri, run_info, run_view


@dataclass
class NodeRun:
    """A run as this node knows it."""

    run: Run
    latest: dict[tuple[int, str], Point] = field(default_factory=dict[tuple[int, str], Point])
    """By rank and name: the point with the highest step, the latest of several, as in MLflow."""

    def apply(self, record: MetricRecord) -> None:
        """Applies a record to the run."""
        if isinstance(record, PointsLogged):
            for point in record.points:
                before = self.latest.get((record.rank, point.name))
                if before is None or (point.step, point.at_ms) >= (before.step, before.at_ms):
                    self.latest[record.rank, point.name] = point
        else:
            self.run = _changed(self.run, record)

    def view(self, rank: int) -> JsonObject:
        """Returns MLflow's `Run`, with the metrics that this rank wrote."""
        points = [point for (of_rank, _), point in self.latest.items() if of_rank == rank]
        return run_view(self.run, points, artifact_uri(self.run.id))


def _changed(run: Run, record: MetricRecord) -> Run:
    match record:
        case ParamsLogged():
            return replace(run, params={**record.params, **run.params})
        case TagsSet():
            return replace(run, tags={**run.tags, **record.tags})
        case TagDeleted():
            return replace(run, tags={key: value for key, value in run.tags.items() if key != record.key})
        case InputsLogged():
            datasets, models = (*run.datasets, *record.datasets), (*run.model_inputs, *record.models)
            return replace(run, datasets=datasets, model_inputs=models)
        case OutputsLogged():
            return replace(run, model_outputs=(*run.model_outputs, *record.models))
        case RunDeleted():
            return replace(run, deleted_ms=record.at_ms)
        case RunRestored():
            return replace(run, deleted_ms=None)
        case RunUpdated():
            end_ms = None if record.status in ("RUNNING", "SCHEDULED") else run.end_ms
            end_ms = end_ms if record.end_ms is None else record.end_ms
            return replace(run, status=record.status or run.status, end_ms=end_ms, name=record.name or run.name)
        case _:
            return run


def _begun(record: RunCreated) -> Run:
    one = record
    return Run(
        one.run, one.experiment, one.name, "RUNNING", one.start_ms, user=one.user, job=one.job, tags=dict(one.tags)
    )


class NodeRuns:
    """The job's run and the runs that the ranks of this node began. Thread-safe."""

    def __init__(self, job_run: RunCreated) -> None:
        self._lock = threading.Lock()
        self.job_run = job_run.run
        self._runs = {job_run.run: NodeRun(_begun(job_run))}

    def apply(self, record: MetricRecord) -> None:
        """Applies a record of a rank. Records of unknown runs are left to the server."""
        with self._lock:
            if isinstance(record, RunCreated):
                self._runs.setdefault(record.run, NodeRun(_begun(record)))
            elif run := self._runs.get(record.run):
                run.apply(record)

    def __contains__(self, run: str) -> bool:
        return run in self._runs

    def __getitem__(self, run: str) -> Run:
        return self._runs[run].run

    def rank_in(self, run: str, rank: int) -> int:
        """Returns the rank under which points are stored: 0 in a run that one rank began by itself."""
        return rank if run == self.job_run else 0

    def view(self, run: str, rank: int) -> JsonObject:
        """Returns MLflow's `Run` of a known run for a rank."""
        with self._lock:
            return self._runs[run].view(self.rank_in(run, rank))

    def info(self, run: str) -> JsonObject:
        """Returns MLflow's `RunInfo` of a known run."""
        return run_info(self[run], artifact_uri(run))

    def search(self, experiments: Sequence[str], rank: int) -> list[JsonObject]:
        """Returns the active runs in these experiments (empty = in all), newest first."""
        with self._lock:
            runs = [one for one in self._runs.values() if one.run.deleted_ms is None]
            runs = [one for one in runs if not experiments or one.run.experiment in experiments]
            return [one.view(self.rank_in(one.run.id, rank)) for one in reversed(runs)]

"""What the ranks of a node have written of runs, in memory: for checks, and for readers while the server is away."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from drumbeat.protocol.metrics import (
    InputsLogged,
    JsonObject,
    MetricRecord,
    OutputsLogged,
    ParamsLogged,
    Point,
    PointsLogged,
    RunCreated,
    RunDeleted,
    RunRestored,
    RunUpdated,
    TagDeleted,
    TagsSet,
    value_to_json,
)


@dataclass
class NodeRun:
    """One run, as far as this node knows it."""

    created: RunCreated
    status: str = "RUNNING"
    end_ms: int | None = None
    name: str = ""
    is_deleted: bool = False
    params: dict[str, str] = field(default_factory=dict[str, str])
    tags: dict[str, str] = field(default_factory=dict[str, str])
    latest: dict[tuple[int, str], Point] = field(default_factory=dict[tuple[int, str], Point])
    """By rank and name: the point with the highest step, of these the last in time, as in MLflow."""
    datasets: list[JsonObject] = field(default_factory=list[JsonObject])
    models: list[JsonObject] = field(default_factory=list[JsonObject])
    outputs: list[JsonObject] = field(default_factory=list[JsonObject])

    def apply(self, record: MetricRecord) -> None:
        """Changes the run as the record says."""
        match record:
            case PointsLogged():
                for point in record.points:
                    self._add(record.rank, point)
            case ParamsLogged():
                self.params = {**record.params, **self.params}
            case TagsSet():
                self.tags.update(record.tags)
            case TagDeleted():
                self.tags.pop(record.key, None)
            case InputsLogged():
                self.datasets += record.datasets
                self.models += record.models
            case OutputsLogged():
                self.outputs += record.models
            case _:
                self._change(record)

    def _add(self, rank: int, point: Point) -> None:
        before = self.latest.get((rank, point.name))
        if before is None or (point.step, point.at_ms) >= (before.step, before.at_ms):
            self.latest[rank, point.name] = point

    def _change(self, record: MetricRecord) -> None:
        if isinstance(record, RunDeleted | RunRestored):
            self.is_deleted = isinstance(record, RunDeleted)
        if not isinstance(record, RunUpdated):
            return
        self.status, self.name = record.status or self.status, record.name or self.name
        if record.status == "RUNNING":
            self.end_ms = None
        self.end_ms = record.end_ms if record.end_ms is not None else self.end_ms

    def info(self) -> JsonObject:
        """Returns MLflow's `RunInfo`."""
        name = self.name or self.created.name
        info: JsonObject = {
            "run_id": self.created.run,
            "run_uuid": self.created.run,
            "run_name": name,
            "experiment_id": self.created.experiment,
            "user_id": self.created.user,
            "status": self.status,
            "start_time": self.created.start_ms,
            "artifact_uri": artifact_uri(self.created.run),
            "lifecycle_stage": "deleted" if self.is_deleted else "active",
        }
        return info if self.end_ms is None else {**info, "end_time": self.end_ms}

    def to_mlflow(self, rank: int) -> JsonObject:
        """Returns MLflow's `Run`, with the metrics that this rank wrote."""
        metrics = [
            {"key": point.name, "value": value_to_json(point.value), "timestamp": point.at_ms, "step": point.step}
            for (of_rank, _), point in self.latest.items()
            if of_rank == rank
        ]
        tags = {**self.created.tags, "mlflow.runName": self.name or self.created.name, **self.tags}
        data: dict[str, Any] = {"metrics": metrics, "params": _pairs(self.params), "tags": _pairs(tags)}
        inputs = {"dataset_inputs": self.datasets, "model_inputs": self.models}
        return {"info": self.info(), "data": data, "inputs": inputs, "outputs": {"model_outputs": self.outputs}}


class NodeRuns:
    """The job's run and the runs that the ranks of this node began. Thread-safe."""

    def __init__(self, job_run: RunCreated) -> None:
        self._lock = threading.Lock()
        self.job_run = job_run.run
        self._runs = {job_run.run: NodeRun(job_run)}

    def apply(self, record: MetricRecord) -> None:
        """Takes note of what a rank wrote. A record of an unknown run is left to the server."""
        with self._lock:
            if isinstance(record, RunCreated):
                self._runs.setdefault(record.run, NodeRun(record))
            elif run := self._runs.get(record.run):
                run.apply(record)

    def __contains__(self, run: str) -> bool:
        return run in self._runs

    def rank_in(self, run: str, rank: int) -> int:
        """Returns the rank under which points are kept: 0 in a run that one rank began for itself."""
        return rank if run == self.job_run else 0

    def to_mlflow(self, run: str, rank: int) -> JsonObject | None:
        """Returns MLflow's `Run` for a rank; None = the run isn't known here."""
        with self._lock:
            node_run = self._runs.get(run)
            return node_run and node_run.to_mlflow(self.rank_in(run, rank))

    def info(self, run: str) -> JsonObject:
        """Returns MLflow's `RunInfo` of a known run."""
        with self._lock:
            return self._runs[run].info()

    def all_of(self, experiments: Sequence[str], rank: int) -> list[JsonObject]:
        """Returns the active runs in these experiments (none given = in all), the last first."""
        with self._lock:
            runs = [one for one in self._runs.values() if not one.is_deleted]
            runs = [one for one in runs if not experiments or one.created.experiment in experiments]
            return [one.to_mlflow(self.rank_in(one.created.run, rank)) for one in reversed(runs)]

    def params(self, run: str) -> dict[str, str]:
        """Returns the parameters that this node knows of a run."""
        with self._lock:
            return dict(self._runs[run].params)

    def tag(self, run: str, key: str) -> str | None:
        """Returns the value of a tag, None = this node doesn't know it."""
        with self._lock:
            node_run = self._runs[run]
            return node_run.tags.get(key, node_run.created.tags.get(key))


def artifact_uri(run: str) -> str:
    """Returns the address of a run's artifacts, which MLflow's clients resolve against their tracking address."""
    return f"mlflow-artifacts:/{run}/artifacts"


def _pairs(values: dict[str, str]) -> list[JsonObject]:
    return [{"key": key, "value": value} for key, value in values.items()]

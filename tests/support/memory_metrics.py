"""A store of metrics in memory for tests: the same contract as the real ones, nothing durable."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from threading import RLock
from typing import Any

from drumbeat.core.curve_thinning import higher, latest, lower, thin
from drumbeat.ports.metrics import (
    RECENT_POINTS,
    HistoryPage,
    RefusedParam,
    Run,
    RunPage,
    RunSearch,
    Series,
    Taken,
)
from drumbeat.protocol.errors import ConflictError, NotFoundError
from drumbeat.protocol.metric_lines import Spooled
from drumbeat.protocol.metrics import (
    SYSTEM,
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
    RunStatus,
    RunUpdated,
    Source,
    TagDeleted,
    TagsSet,
    run_id,
)
from tests.support.memory_documents import MemoryDocuments
from tests.support.memory_experiments import MemoryExperiments
from tests.support.memory_metric_search import page

Key = tuple[str, int, str]
"""Run, rank and name of a series."""


@dataclass
class Shelf:
    """All that the store keeps."""

    runs: dict[str, Run] = field(default_factory=dict[str, Run])
    params: dict[str, dict[str, str]] = field(default_factory=dict[str, dict[str, str]])
    tags: dict[str, dict[str, str]] = field(default_factory=dict[str, dict[str, str]])
    links: dict[tuple[str, str], list[JsonObject]] = field(default_factory=dict[tuple[str, str], list[JsonObject]])
    points: dict[Key, list[Point]] = field(default_factory=dict[Key, list[Point]])
    settled: set[str] = field(default_factory=set[str])
    taken: dict[Source, int] = field(default_factory=dict[Source, int])


class MemoryMetricStore(MemoryExperiments, MemoryDocuments):
    """The `MetricStore` port. Safe from any thread."""

    def __init__(self) -> None:
        super().__init__()
        self._lock = RLock()
        self._shelf = Shelf()

    def close(self) -> None:
        """Does nothing."""

    # --- records ---
    def take(self, source: Source, offset: int, records: Sequence[Spooled]) -> Taken:
        with self._lock:
            before = self.taken(source)
            fresh = [one for one in records if one.end > before]
            if offset > before or not fresh:
                return Taken(before)
            refused = self._write(one.record for one in fresh)
            self._shelf.taken[source] = fresh[-1].end
            return Taken(fresh[-1].end, tuple(refused))

    def taken(self, source: Source) -> int:
        return self._shelf.taken.get(source, 0)

    def write(self, records: Sequence[MetricRecord]) -> None:
        with self._lock:
            before = copy.deepcopy(self._shelf.params)
            params = [record for record in records if isinstance(record, ParamsLogged)]
            for refused in self._write(params):
                self._shelf.params = before
                raise ConflictError(f"parameter {refused.key!r} is {refused.kept!r} already")
            others = [record for record in records if not isinstance(record, ParamsLogged)]
            self._write(self._unsent(one) if isinstance(one, PointsLogged) else one for one in others)

    def _unsent(self, record: PointsLogged) -> PointsLogged:
        fresh = {_facts(point): point for point in record.points}
        for name in {point.name for point in record.points}:
            for point in self._shelf.points.get((record.run, record.rank, name), [])[-RECENT_POINTS:]:
                fresh.pop(_facts(point), None)
        return replace(record, points=tuple(fresh.values()))

    def _write(self, records: Iterable[MetricRecord]) -> list[RefusedParam]:
        refused: list[RefusedParam] = []
        for record in records:
            refused += self._one(record)
        return refused

    def _one(self, record: MetricRecord) -> list[RefusedParam]:  # noqa: C901 - one case for each kind of record
        shelf = self._shelf
        match record:
            case RunCreated():
                self._create(record)
            case RunUpdated():
                self._update(record)
            case RunDeleted():
                self._change(record.run, deleted_ms=record.at_ms)
            case RunRestored():
                self._change(record.run, deleted_ms=None)
            case PointsLogged():
                for point in record.points:
                    shelf.points.setdefault((record.run, record.rank, point.name), []).append(point)
            case ParamsLogged():
                kept = shelf.params.setdefault(record.run, {})
                pairs = [(key, kept.setdefault(key, value), value) for key, value in record.params.items()]
                return [RefusedParam(record.run, key, old, new) for key, old, new in pairs if old != new]
            case TagsSet():
                shelf.tags.setdefault(record.run, {}).update(record.tags)
            case TagDeleted():
                shelf.tags.get(record.run, {}).pop(record.key, None)
            case InputsLogged():
                self._link(record.run, "dataset", record.datasets)
                self._link(record.run, "model_input", record.models)
            case OutputsLogged():
                self._link(record.run, "model_output", record.models)
        return []

    def _create(self, record: RunCreated) -> None:
        if record.run in self._shelf.runs:
            return
        status, end_ms = "RUNNING", None
        if record.job and run_id(record.job) in self._shelf.settled:
            own = self._shelf.runs[run_id(record.job)]
            status, end_ms = own.status, own.end_ms
        experiment = self._canonical(record.experiment)
        facts = (record.run, experiment, record.name, status, record.start_ms, end_ms, record.user, record.job)
        self._shelf.runs[record.run] = Run(*facts)
        self._shelf.tags.setdefault(record.run, {}).update(record.tags)

    def _update(self, record: RunUpdated) -> None:
        if record.name:
            self._change(record.run, name=record.name)
        if record.run in self._shelf.settled:
            return
        if record.status:
            self._change(record.run, status=record.status)
        if record.end_ms is not None or record.status in {"RUNNING", "SCHEDULED"}:
            self._change(record.run, end_ms=record.end_ms)

    def _change(self, run: str, **values: Any) -> None:
        if run in self._shelf.runs:
            self._shelf.runs[run] = replace(self._shelf.runs[run], **values)

    def _link(self, run: str, kind: str, bodies: Sequence[JsonObject]) -> None:
        kept = self._shelf.links.setdefault((run, kind), [])
        kept += [body for n, body in enumerate(bodies) if body not in kept and body not in bodies[:n]]

    # --- runs ---
    def ensure_run(self, run: RunCreated, experiment: str) -> Run:
        with self._lock:
            self.ensure_experiment(experiment, run.start_ms)
            self._create(run)
            return self.run(run.run)

    def open_runs(self) -> list[tuple[str, str]]:
        own = [run for run in self._shelf.runs.values() if run.job and run.id == run_id(run.job)]
        return [(run.id, run.job) for run in own if run.id not in self._shelf.settled]

    def has_outside_run(self, since_ms: int, until_ms: int) -> bool:
        running = (
            run for run in self._shelf.runs.values() if not run.job and run.status == "RUNNING" and not run.deleted_ms
        )
        times = ([run.start_ms, *(one.last.at_ms for one in self.series(run.id))] for run in running)
        return any(since_ms <= at_ms <= until_ms for of_run in times for at_ms in of_run)

    def settle(self, run: str, status: RunStatus, end_ms: int) -> None:
        with self._lock:
            own = self._shelf.runs.get(run)
            if own is None or not own.job:
                return
            for one in list(self._shelf.runs.values()):
                if one.job == own.job and (one.id == run or one.status in {"RUNNING", "SCHEDULED"}):
                    self._change(one.id, status=status, end_ms=end_ms)
            self._shelf.settled.add(run)

    def remove_run(self, run: str) -> None:
        with self._lock:
            own, shelf, gone = self._shelf.runs.get(run), self._shelf, {run}
            if own and own.job and run == run_id(own.job):
                gone |= {one.id for one in shelf.runs.values() if one.job == own.job}
                shelf.taken = {source: end for source, end in shelf.taken.items() if source.job != own.job}
            for table in (shelf.runs, shelf.params, shelf.tags):
                for one in gone:
                    table.pop(one, None)
            shelf.points = {key: points for key, points in shelf.points.items() if key[0] not in gone}
            shelf.links = {key: bodies for key, bodies in shelf.links.items() if key[0] not in gone}
            shelf.settled -= gone

    def remove_points(self) -> None:
        pass  # They went with their run.

    def run(self, run: str) -> Run:
        with self._lock:
            shelf = self._shelf
            if run not in shelf.runs:
                raise NotFoundError(f"there is no run {run!r}")
            main = sorted((one for one in self.series(run) if one.rank == 0), key=lambda one: one.name)
            datasets, used, made = (
                tuple(shelf.links.get((run, kind), ())) for kind in ("dataset", "model_input", "model_output")
            )
            return replace(
                shelf.runs[run],
                params=dict(shelf.params.get(run, {})),
                tags=dict(shelf.tags.get(run, {})),
                datasets=datasets,
                model_inputs=used,
                model_outputs=made,
                metrics=tuple(main),
            )

    def search_runs(self, search: RunSearch) -> RunPage:
        with self._lock:
            archived = {one.id for one in self.experiments("deleted")}
            search = replace(search, experiments=tuple(self._canonical(one) for one in search.experiments))
            return page([self.run(run) for run in self._shelf.runs], search, archived)

    # --- series ---
    def series(self, run: str) -> list[Series]:
        with self._lock:
            return [_series(key, points) for key, points in self._shelf.points.items() if key[0] == run]

    def primaries(self, runs: Sequence[str]) -> dict[str, Series]:
        firsts = {
            run: [one for one in self.series(run) if one.rank == 0 and not one.name.startswith(SYSTEM)][:1]
            for run in runs
        }
        return {run: found[0] for run, found in firsts.items() if found}

    def curve(self, run: str, name: str, rank: int, max_points: int) -> list[Point]:
        with self._lock:
            return thin(self._shelf.points.get((run, rank, name), []), max_points)

    def curves(self, runs: Sequence[str], name: str, max_points: int) -> dict[str, list[Point]]:
        curves = {run: self.curve(run, name, 0, max_points) for run in runs}
        return {run: points for run, points in curves.items() if points}

    def history(self, run: str, name: str, rank: int, after: int = 0, limit: int = 25_000) -> HistoryPage:
        with self._lock:
            points = self._shelf.points.get((run, rank, name), [])
            shown = tuple(points[after : after + limit])
            return HistoryPage(shown, after + len(shown), is_last=after + limit >= len(points))

    def _has_runs(self, experiment: str) -> bool:
        return any(run.experiment == experiment for run in self._shelf.runs.values())


def _facts(point: Point) -> tuple[str, str, int, int]:
    return point.name, f"{float(point.value)}", point.step, point.at_ms


def _series(key: Key, points: Sequence[Point]) -> Series:
    _, rank, name = key
    low: Point | None = None
    high: Point | None = None
    for point in points:
        low, high = lower(low, point), higher(high, point)
    return Series(name, rank, len(points), latest(points), low, high)

"""The runs of jobs: a run begins with its job or its first record from a node, and ends with its job."""

from __future__ import annotations

import getpass
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from drumbeat.core.ledger_times import Save
from drumbeat.core.lifecycle.events import LabelsChanged
from drumbeat.core.lifecycle.job import Job
from drumbeat.core.lifecycle.late_nodes import is_heard_late, over
from drumbeat.model.errors import NotFoundError, RefusedError, SpecError, StaleError, VersionError
from drumbeat.model.metric_lines import BLANK, Spooled, spooled
from drumbeat.model.metrics import (
    NOTE_TAG,
    SYSTEM,
    UPDATES,
    MetricHighlights,
    MetricRecord,
    Point,
    Run,
    RunCreated,
    RunStatus,
    RunUpdated,
    Series,
    Source,
    TagDeleted,
    TagsSet,
    experiment_id,
    run_id,
)
from drumbeat.model.mlflow_writes import MAX_TAG_VALUE
from drumbeat.model.primary_metrics import PRIMARY_TAG, PrimaryMetric, goal_of, parse_goal
from drumbeat.model.states import State
from drumbeat.server.loop.bus import job_topic
from drumbeat.server.loop.loop import Loop
from drumbeat.server.metrics.checkpoint_points import CheckpointSaves, read_last_save, read_saves
from drumbeat.server.metrics.gpu_use import mean_gpu_use
from drumbeat.server.metrics.metric_records import HistoryPage, RunSearch
from drumbeat.server.metrics.run_labels import RunLabels, records_of
from drumbeat.server.nodes.engine_gangs import Secrets

if TYPE_CHECKING:
    from drumbeat.server.metrics.tables import SqlMetricStore
import contextlib

from drumbeat.core.lifecycle.events import ValueLogged
from drumbeat.model.errors import DrumbeatError
from drumbeat.model.metrics import PointsLogged, value_to_json
from drumbeat.model.states import Reason

# The first value that a job's ranks log in a round shows that they have started up and work.


class FirstValues:
    """Adds an event to a job when its ranks have logged their first value. Thread-safe."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop

    def note(self, job: Job, attempt: int, records: Sequence[Spooled]) -> None:
        """Handles new records from a node of the attempt. After a failure, the next records are used instead."""
        if (job.state, job.reason, job.attempt) != (State.RUNNING, Reason.RANKS_RUNNING, attempt):
            return
        if sentence := first_value(job, records):
            event = ValueLogged(attempt, job.round, sentence)
            with contextlib.suppress(DrumbeatError):
                self._loop.call(lambda: self._loop.apply(job.name, event))


def first_value(job: Job, records: Sequence[Spooled]) -> str:
    """Returns a sentence about the first value among the records that a rank of the job's current round logged.

    "" = there is none. A node may send records of earlier rounds after the next one has begun.
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


log = logging.getLogger(__name__)

OUTSIDE_RUN_S = 24 * 3600
"""How long a run outside of jobs counts as running after its start and its last metric, because a run whose process
was killed stays RUNNING.
"""

MAX_COMPARED = 2000
"""Points of a curve with which jobs of different lengths are compared."""
MAX_NESTED = 200
"""Maximum number of nested runs of a job that are shown."""

STATUS_OF: dict[State, RunStatus] = {
    State.COMPLETED: "FINISHED",
    State.FAILED: "FAILED",
    State.CANCELED: "KILLED",
}
"""The status of a run whose job has ended."""


class TakenLines(NamedTuple):
    """The offset up to which the lines of a spool have been taken. foreign: number of records of runs of other jobs."""

    offset: int
    foreign: int = 0


@dataclass(frozen=True)
class MetricPlace:
    """The place of the store of metrics, which is opened when it is first needed."""

    open: Callable[[], SqlMetricStore]
    exists: Callable[[], bool]
    """Whether the store has been created; otherwise it is empty."""


class Metrics:
    """Takes and serves the metrics of jobs. Thread-safe."""

    def __init__(self, loop: Loop, secrets: Secrets, place: MetricPlace | None) -> None:
        self._loop, self._secrets, self._place = loop, secrets, place
        self._first_values = FirstValues(loop)
        self._checkpoint_saves = CheckpointSaves(loop)
        self.labels = RunLabels(loop)
        self._lock = threading.Lock()
        self._ending = threading.RLock()
        """Held while the run of an ended job is created or removed."""
        self._naming = threading.Lock()
        """Held while a run is created with the labels of its job, or gets others."""
        self._store: SqlMetricStore | None = None
        self._ensured: dict[str, str] = {}
        """The unique names of jobs whose runs exist, by job."""
        self._own_runs: dict[str, set[str]] = {}
        """The runs that a job is known to have created, by its unique name."""
        self._settled: dict[str, str] = {}
        """The unique names of jobs whose runs have been settled, by job."""

    @property
    def store(self) -> SqlMetricStore:
        """The store, opened at the first use. Raises RefusedError, StorageError, VersionError."""
        with self._lock:
            if self._store is None:
                if self._place is None:
                    raise RefusedError("this server keeps no metrics")
                self._store = self._place.open()
            return self._store

    @property
    def is_empty(self) -> bool:
        """Whether nothing has been logged, because the store was never created."""
        return self._store is None and (self._place is None or not self._place.exists())

    def close(self) -> None:
        """Closes the store, if it was opened."""
        with self._lock:
            if self._store is not None:
                self._store.close()

    # --- from nodes -------------------------------------------------------------------------------------------
    def take(self, source: Source, secret: str, offset: int, lines: bytes) -> TakenLines:
        """Takes complete lines of a node's spool from `offset` on. Returns the offset up to which they have been taken.

        Records of runs of other jobs are skipped and counted. Until the job has ended, records of replaced attempts

        are taken, too. Raises UnauthorizedError, NotFoundError; StaleError for an attempt that doesn't exist or is
        over; SpecError for damaged lines.
        """
        node = (source.attempt, source.node)
        self._secrets.check(source.job, *node, secret)
        job = self._attempted(source)
        self._secrets.check_job(job, *node, secret)
        if not is_heard_late(job, *node, self._loop.clock.now()):
            raise over(job)
        misfits: list[str] = []
        try:
            records = spooled(lines, offset, misfits.append)
        except ValueError as error:
            what = f"node {source.node} of job {source.job} sent records that can't be read: {error}"
            raise SpecError(what, where=f"offset {offset}") from error
        self._ensure(job)
        records, foreign = self._own_records(job, records)
        self._take_labels(source, records)
        taken = self.store.take(source, offset, records)
        for misfit in misfits:
            log.warning(
                "node %d of job %s sent a record that is stored only in part: %s", source.node, source.job, misfit
            )
        for refused in taken.refused:
            what = "parameter %r of run %s is %r already; node %d of job %s logged it as %r"
            log.warning(what, refused.key, refused.run, refused.kept, source.node, source.job, refused.refused)
        if records:
            self._first_values.note(job, source.attempt, records)
            self._checkpoint_saves.note(job, source.attempt, records)
            self._loop.bus.publish(job_topic(source.job))
        return TakenLines(taken.offset, foreign)

    def _own_records(self, job: Job, records: Sequence[Spooled]) -> tuple[list[Spooled], int]:
        """Replaces the records of other jobs' runs by ones without effect, and returns the number of these."""
        own = self._own_runs.setdefault(job.unique_name, {run_id(job.name), BLANK.run})
        kept: list[Spooled] = []
        foreign = 0
        for one in records:
            if one.record.run not in own and self._is_own(job, one.record):
                own.add(one.record.run)
            is_own = one.record.run in own
            foreign += not is_own
            kept.append(one if is_own else Spooled(one.end, BLANK))
        if foreign:
            log.warning("job %s sent %d records of other jobs' runs, which were ignored", job.name, foreign)
        return kept, foreign

    def _is_own(self, job: Job, record: MetricRecord) -> bool:
        """Whether the run of a record belongs to the job, or begins to do so with this record."""
        try:
            return self.store.run(record.run).job == job.name
        except NotFoundError:
            return isinstance(record, RunCreated) and record.job == job.name

    def _take_labels(self, source: Source, records: Sequence[Spooled]) -> None:
        """Has the job take the labels that its script writes, before its run does: a lost answer repeats both."""
        own = [one for one in records if isinstance(one.record, RunUpdated | TagsSet | TagDeleted)]
        if own:
            taken = self.store.taken(source)
            self.labels.note(source.job, [one.record for one in own if one.end > taken])

    def take_records(self, job: Job, source: Source, offset: int, records: Sequence[Spooled]) -> None:
        """Takes records from another source than a node's spool, with offsets of their own."""
        self._ensure(job)
        self.store.take(source, offset, records)
        self._loop.bus.publish(job_topic(job.name))

    def _attempted(self, source: Source) -> Job:
        job = self._loop.record(source.job).job
        if source.attempt > job.attempt:  # The loop knows an attempt only after its placement was written.
            job = self._loop.store.load(source.job).job
        if source.attempt > job.attempt:
            raise StaleError(f"job {source.job} has no attempt {source.attempt}")
        return job

    # --- runs -------------------------------------------------------------------------------------------------
    def begun_run(self, name: str) -> Run | None:
        """Returns the run of a job, None while it has none. A waiting job gets one only by records of its nodes.

        Raises NotFoundError.
        """
        if self._loop.record(name).job.started_at is None:
            if self.is_empty:
                return None
            try:
                self.store.run(run_id(name))
            except NotFoundError:
                return None
        return self.ensured_run(name)

    def ensured_run(self, name: str) -> Run:
        """Returns the run of a job with the job's current status. Creates it if necessary.

        Raises NotFoundError.
        """
        job = self._loop.record(name).job
        self._ensure(job)
        if job.state.is_terminal and self._settled.get(name) != job.unique_name:
            self._settle(job)
        return self.store.run(run_id(name))

    def last_values(self, name: str) -> dict[str, Any]:
        """Returns the last value of each metric of rank 0 of a job's own run, by name, as JSON values."""
        if self.is_empty:
            return {}
        series = self.store.series(run_id(name))
        return {
            one.name: {"value": value_to_json(one.last.value), "step": one.last.step}
            for one in series
            if one.rank == 0 and not one.name.startswith(SYSTEM)
        }

    def nested_runs(self, name: str) -> list[Run]:
        """Returns the runs that a job's ranks created beside its own, in the order of their starts."""
        if self.is_empty:
            return []
        of_job = {"type": "attribute", "key": "job", "comparator": "=", "value": name}
        page = self.store.search_runs(RunSearch((), (of_job,), (("attribute", "start_time", True),), limit=MAX_NESTED))
        return [run for run in page.runs if run.id != run_id(name)]

    def nested_reports(self, name: str, metric: str) -> tuple[str, list[float]]:
        """Returns name and values of the first nested run that has a metric; "", [] = none."""
        for run in self.nested_runs(name):
            if any(one.name == metric for one in run.metrics):
                return run.name, [point.value for point in self.history(run.id, metric, 0).points]
        return "", []

    def note_end(self, job: Job) -> None:
        """Ensures that an ended job has a run with its status, even if it logged nothing.

        Idempotent. Raises StorageError, after which the caller retries; other errors are only logged.
        """
        if self._place is None or job.started_at is None:
            return
        try:
            with self._ending:
                if self._loop.is_there(job):  # Not for a deleted job, nor for another one of its name.
                    self._ensure(job)
                    self._settle(job)
        except (RefusedError, VersionError) as error:
            log.warning("job %s has no run in MLflow's API: %s", job.name, error)

    def settle(self) -> None:
        """Updates the runs from their jobs: running jobs have a run, and runs of ended jobs have their status.

        Readers call this first, so jobs needn't update their runs at start and end.
        """
        for record in list(self._loop.jobs.values()):
            if record.job.started_at is not None:
                self._ensure(record.job)
        for run, name in self.store.open_runs():
            try:
                job = self._loop.record(name).job
            except NotFoundError:
                self.store.settle(run, "KILLED", _ms(self._loop.clock.now()))
            else:
                if job.state.is_terminal:
                    self._settle(job)

    def has_outside_run(self) -> bool:
        """Whether a run outside of jobs is active: started or last written to within `OUTSIDE_RUN_S`.

        Raises StorageError.
        """
        if self.is_empty:
            return False
        now_ms, range_ms = _ms(self._loop.clock.now()), 1000 * OUTSIDE_RUN_S
        try:  # The times are the clients', whose clocks may be ahead.
            return self.store.has_outside_run(now_ms - range_ms, now_ms + range_ms)
        except (RefusedError, VersionError):
            return False

    def held(self) -> AbstractContextManager[object]:
        """Keeps runs of ended jobs from being created meanwhile."""
        return self._ending

    def write_labels(self, job: Job, change: LabelsChanged) -> None:
        """Changes the run of a job as its labels were changed. A job that has none gets one with its labels later."""
        if self.is_empty:
            return
        with self._naming, contextlib.suppress(NotFoundError):
            if self.store.run(run_id(job.name)).job == job.name:
                self.store.write(records_of(job, change))

    def remove(self, name: str) -> None:
        """Removes the run of a deleted job, and the runs within it, but for their points (`remove_points`)."""
        with self._ending:
            self._ensured.pop(name, None)
            self._settled.pop(name, None)
            self._own_runs = {key: own for key, own in self._own_runs.items() if key.partition("~")[0] != name}
            if not self.is_empty:
                self.store.remove_run(run_id(name))

    def remove_points(self) -> None:
        """Removes the points of the runs of deleted jobs."""
        if not self.is_empty:
            self.store.remove_points()

    def highlights(self, names: Sequence[str]) -> dict[str, MetricHighlights]:
        """Returns what a list says of the metrics of each job that has logged any."""
        if not names or self.is_empty:
            return {}
        runs = [run_id(name) for name in names]
        primaries, not_finite = self.store.primaries(runs), self.store.not_finite(runs)
        return {
            name: MetricHighlights(primaries.get(run), not_finite.get(run))
            for name, run in zip(names, runs, strict=True)
            if run in primaries or run in not_finite
        }

    def saves(self, names: Sequence[str]) -> dict[str, list[Save]]:
        """Returns the checkpoints of those of these jobs that saved any with `drumbeat.train.Checkpoints`."""
        if not names or self.is_empty:
            return {}
        return read_saves(self.store, names)

    def last_save(self, name: str) -> tuple[int, datetime] | None:
        """Returns step and time of a job's last checkpoint by `drumbeat.train.Checkpoints`; None = it saved none."""
        return None if self.is_empty else read_last_save(self.store, name)

    def gpu_use(self, name: str) -> float | None:
        """Returns how busy the GPUs of a job were, from 0 to 1; None = nothing was recorded."""
        return None if self.is_empty else mean_gpu_use(self.store, name)

    def params(self, name: str) -> Mapping[str, str]:
        """Returns the parameters that a job's script logged."""
        if self.is_empty:
            return {}
        try:
            return self.store.run(run_id(name)).params
        except NotFoundError:
            return {}

    def main_series(self, name: str) -> list[Series]:
        """Returns the series that the script of a job's rank 0 logged, and those of its communication volume."""
        if self.is_empty:
            return []
        own = [one for one in self.store.series(run_id(name)) if one.rank == 0]
        return [one for one in own if not one.name.startswith(SYSTEM) or one.name.startswith(UPDATES)]

    def curve(self, name: str, metric: str) -> list[Point]:
        """Returns the thinned curve of a metric of a job's rank 0."""
        return [] if self.is_empty else self.store.curve(run_id(name), metric, 0, MAX_COMPARED)

    def history(self, run: str, name: str, rank: int, after: int = 0) -> HistoryPage:
        """Returns a page of a series. See `SqlMetricStore.history`."""
        if self.is_empty:
            return HistoryPage((), after, is_last=True)
        return self.store.history(run, name, rank, after)

    def _ensure(self, job: Job) -> None:
        if self._ensured.get(job.name) == job.unique_name:
            return
        with self._naming:
            created = _created(self._present(job), self._loop.clock.now(), self._primary_of(job))
            if self.store.ensure_run(created, job.plan.experiment).job != job.name:
                # Another job has created a run with the id of this job's run.
                self.store.remove_run(created.run)
                self.store.ensure_run(created, job.plan.experiment)
            self._ensured[job.name] = job.unique_name

    def _present(self, job: Job) -> Job:
        """Returns a job as it is now; as it was, if it was deleted meanwhile."""
        with contextlib.suppress(NotFoundError):
            now = self._loop.record(job.name).job
            if now.unique_name == job.unique_name:
                return now
        return job

    def _primary_of(self, job: Job) -> PrimaryMetric | None:
        """Returns the metric that a job's file names, or the objective of the sweep whose trial it is."""
        with contextlib.suppress(NotFoundError):
            if named := named_primary(self._loop.record(job.name).spec):
                return named
            if job.parent and (sweep := self._loop.record(job.parent).job.sweep):
                return PrimaryMetric(sweep.metric, parse_goal(sweep.goal))
        return None

    def _settle(self, job: Job) -> None:
        self.store.settle(run_id(job.name), STATUS_OF[job.state], _ms(job.ended_at or self._loop.clock.now()))
        self._settled[job.name] = job.unique_name


def _created(job: Job, now: datetime, primary: PrimaryMetric | None) -> RunCreated:
    user = job.user or getpass.getuser()
    name = job.display_name or job.name
    tags = {
        **job.tags,
        "mlflow.runName": name,
        "mlflow.user": user,
        "mlflow.source.name": job.name,
        "mlflow.source.type": "JOB",
        **({NOTE_TAG: job.description[:MAX_TAG_VALUE]} if job.description else {}),
        **({PRIMARY_TAG: str(primary)} if primary else {}),
    }
    start = job.started_at or now
    return RunCreated(run_id(job.name), experiment_id(job.plan.experiment), name, _ms(start), user, job.name, tags)


def named_primary(spec: Mapping[str, Any]) -> PrimaryMetric | None:
    """Returns the metric that a job file names."""
    extensions = cast("Mapping[str, Any]", spec.get("drumbeat") or {})
    named = cast("Mapping[str, str]", extensions.get("primary_metric") or {})
    if not named.get("name"):
        return None
    return PrimaryMetric(named["name"], parse_goal(named.get("goal", "")) or goal_of(named["name"]))


def _ms(at: datetime) -> int:
    return int(at.timestamp() * 1000)

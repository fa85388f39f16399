"""Runs one job of a rehearsal: submits it, waits for the time of its fault, and collects its results."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from drumbeat.model.api.jobs import JobView
from drumbeat.model.errors import DrumbeatError
from drumbeat.model.states import State
from drumbeat.rehearsal import injection
from drumbeat.rehearsal.fault_costs import Strike
from drumbeat.rehearsal.faults import DrawnFault, FaultKind
from drumbeat.rehearsal.injection import FaultScene, MissedFaultError
from drumbeat.rehearsal.job_record import JobRecord, collect
from drumbeat.rehearsal.metric_comparison import SeriesKey, is_judged

if TYPE_CHECKING:
    from drumbeat.client import Client

SAMPLES_VARIABLE = "DRUMBEAT_SAMPLE_RECORD"
"""The variable of the ranks with the folder to which `drumbeat.train.ResumableLoader` writes its record."""
_LOOK_S = 0.05
_MIN_LIMIT_S = 300.0
_LIMIT = 5
"""A job with a fault may take this many times as long as the unbroken one, plus `_MIN_LIMIT_S`."""


@dataclass(frozen=True)
class JobOrder:
    """A job of a rehearsal, ready to be submitted."""

    file: Path
    sets: tuple[str, ...]
    name: str
    home: Path
    """The home of the server."""
    folder: Path
    """The folder of the rehearsal's working files."""
    limit_s: float = 0.0
    """The time limit of the job; 0 = none."""

    @property
    def batches(self) -> Path:
        """The folder in which its ranks record the samples that they read."""
        return self.folder / "samples" / self.name

    @property
    def checkpoints(self) -> Path:
        """The folder of its checkpoints."""
        return self.home / "jobs" / self.name / "checkpoints"


@dataclass(frozen=True)
class Timeline:
    """The times of an unbroken job, in seconds since the epoch."""

    has_checkpoints: bool
    has_steps: bool
    """Whether it logs metrics of its own."""
    begin: float
    """The first checkpoint, else the first step, else the start."""
    end: float
    """The last step, else the end."""

    def wait_s(self, fault: DrawnFault) -> float:
        """Returns the time from the beginning to a fault."""
        return max((self.end - self.begin) * fault.when, 0.0)


def read_timeline(record: JobRecord) -> Timeline:
    """Returns when an unbroken job first had something to lose, and when it was done."""
    times = [point.at for key, points in record.logged.items() if is_judged(key) for point in points]
    job = record.job
    started, ended = ((at.timestamp() if at else 0.0) for at in (job.started_at, job.ended_at))
    end = max(times, default=ended)
    begin = record.first_checkpoint_at or min(times, default=started)
    return Timeline(record.first_checkpoint_at is not None, bool(times), min(begin, end), end)


@dataclass(frozen=True)
class StruckJob:
    """A job with a fault. strike: None = the job, or the rank that was hit, had done its work before it."""

    record: JobRecord
    strike: Strike | None
    before: tuple[int, int] = (0, 0)
    """The attempt and round that were hit."""


@dataclass
class JobRun:
    """One job from its submission to its record."""

    client: Client
    order: JobOrder
    first_checkpoint_at: float | None = None

    def run_unbroken(self) -> JobRecord:
        """Runs the job without a fault."""
        with self._submitted():
            while self.first_checkpoint_at is None and not self._look().has_ended:
                time.sleep(_LOOK_S)
            self._wait()
            return self._collected()

    def run_struck(self, fault: DrawnFault, timeline: Timeline, scene: FaultScene) -> StruckJob:
        """Runs the job with a fault."""
        with self._submitted():
            before = self._await_moment(timeline, timeline.wait_s(fault))
            strike = None if before is None else self._strike(fault, scene, before)
            self._wait()
            now = (before.attempt, before.round) if before else (0, 0)
            record = self._collected()
            return StruckJob(record, None if is_too_late(fault, record) else strike, now)

    @contextlib.contextmanager
    def _submitted(self):
        self.order.batches.mkdir(parents=True, exist_ok=True)
        sets = [*self.order.sets, f"environment_variables.{SAMPLES_VARIABLE}={self.order.batches}"]
        self.client.submit(self.order.file, sets=sets, name=self.order.name)
        try:
            yield
        except BaseException:
            with contextlib.suppress(DrumbeatError):
                self.client.cancel(self.order.name)
            raise

    def _look(self) -> JobView:
        """Returns the current job, and records its first checkpoint."""
        if self.first_checkpoint_at is None and _has_files(self.order.checkpoints):
            self.first_checkpoint_at = time.time()
        return self.client.get(self.order.name)

    def _await_moment(self, timeline: Timeline, wait_s: float) -> JobView | None:
        """Returns the job when its fault is due; None = it ended first."""
        begin: float | None = None
        while not (job := self._look()).has_ended:
            if begin is None:
                begin = self.first_checkpoint_at if timeline.has_checkpoints else self._progress_began_at(job, timeline)
            if begin is not None and time.time() >= begin + wait_s and job.state == State.RUNNING:
                return job
            time.sleep(_LOOK_S)
        return None

    def _progress_began_at(self, job: JobView, timeline: Timeline) -> float | None:
        """Returns when the first step was logged, or when the job started if it logs none; None = not yet."""
        if not timeline.has_steps:
            return job.started_at.timestamp() if job.started_at else None
        series = self.client.metrics(job.name).series
        keys = [SeriesKey(one.name, one.rank) for one in series]
        own = [key for key in keys if is_judged(key)]
        if not own:
            return None
        point = next(iter(self.client.points(job.name, own[0].name, rank=own[0].rank)), None)
        return point.at.timestamp() if point else None

    def _strike(self, fault: DrawnFault, scene: FaultScene, before: JobView) -> Strike | None:
        machines = tuple(node.machine for node in before.nodes)

        def is_over() -> bool:
            job = self.client.get(before.name)
            return job.has_ended or (job.attempt, job.round) != (before.attempt, before.round)

        while not is_over():
            with contextlib.suppress(MissedFaultError):
                return injection.strike(fault, replace(scene, machines=machines, is_over=is_over))
            time.sleep(_LOOK_S)
        return None

    def _wait(self) -> None:
        """Waits for the end of the job; cancels it after its time limit."""
        limit_s = self.order.limit_s
        if self.client.wait(self.order.name, limit_s or None) is None:
            self.client.cancel(self.order.name)
            self.client.wait(self.order.name)

    def _collected(self) -> JobRecord:
        record = collect(self.client, self.order.name, self.order.folder / "files", self.order.batches)
        return replace(record, first_checkpoint_at=self.first_checkpoint_at)


def is_too_late(fault: DrawnFault, record: JobRecord) -> bool:
    """Whether a rank was killed that had done its work: the job completed without it, and nothing resumed."""
    return fault.kind is FaultKind.KILL and record.job.state == State.COMPLETED and not record.restarts


def _has_files(folder: Path) -> bool:
    """Whether a checkpoint folder has anything but records and unfinished files."""
    with contextlib.suppress(OSError):
        return any(not path.name.startswith(".") for path in folder.iterdir())
    return False


def time_limit_s(unbroken: Sequence[JobRecord]) -> float:
    """Returns the time limit of a job with a fault, in seconds."""
    return _LIMIT * max(record.seconds for record in unbroken) + _MIN_LIMIT_S

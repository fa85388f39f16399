"""A whole rehearsal: the job runs twice unbroken, then with each drawn fault; then the report."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Callable, Generator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from drumbeat.model.api.jobs import PreviewView
from drumbeat.model.errors import EngineError
from drumbeat.model.states import State
from drumbeat.rehearsal.fault_costs import Cost, compute_cost
from drumbeat.rehearsal.faults import DrawnFault, FaultKind, draw_faults
from drumbeat.rehearsal.file_comparison import compare_files
from drumbeat.rehearsal.injection import FaultScene, own_disk
from drumbeat.rehearsal.job_record import JobRecord, format_events
from drumbeat.rehearsal.job_run import JobOrder, JobRun, StruckJob, Timeline, read_timeline, time_limit_s
from drumbeat.rehearsal.metric_comparison import SeriesKey, compare_series, find_lost_points, is_judged, main_series
from drumbeat.rehearsal.observations import (
    Observation,
    ObservationKind,
    explaining,
    find_in_run,
    find_in_unbroken,
    find_lost,
)
from drumbeat.rehearsal.report import HintRow, RehearsalReport, RunRow, UnbrokenRow, gather_observations
from drumbeat.rehearsal.script_hints import Hint

if TYPE_CHECKING:
    from drumbeat.client import Client

TAG = "rehearsal"
_DISK_ROOM = 32 << 20
MAX_TRIES = 3
"""How many jobs are run for a fault that came too late, each time at half the time."""


@dataclass(frozen=True)
class RehearsalOrder:
    """The order of a rehearsal."""

    file: Path
    sets: tuple[str, ...]
    """Settings over the job file, including those that make it small."""
    preview: PreviewView
    """The preview of the job with these settings."""
    home: Path
    """The home of the server, which is on this machine."""
    engine: str
    """The compute's type: `local` or `netlab`."""
    tag: str
    """The prefix of the jobs' names."""
    faults: tuple[FaultKind, ...]
    runs: int
    seed: int
    lasts_s: float
    """How long a fault lasts that can be undone."""
    hints: tuple[Hint, ...] = ()
    notes: tuple[str, ...] = ()
    """Messages about deviations from the job file."""


@dataclass
class Rehearsal:
    """The jobs of a rehearsal, one after the other. report_line: is called with a line when each one ends."""

    client: Client
    order: RehearsalOrder
    report_line: Callable[[str], None]
    _folder: Path = field(default=Path(), init=False)

    def run(self) -> RehearsalReport:
        """Runs the whole rehearsal. Raises EngineError if an unbroken job doesn't complete."""
        with _working_folder(self.order.home) as self._folder:
            unbroken = [self._run_unbroken(number) for number in (1, 2)]
            baseline = _Baseline(unbroken)
            drawn = draw_faults(self.order.faults, self.order.runs, self.order.seed)
            rows = [self._run_struck(number, fault, baseline) for number, fault in enumerate(drawn, 1)]
        return self._report(baseline, rows)

    def _run_unbroken(self, number: int) -> JobRecord:
        job = JobRun(self.client, self._job_order(f"unbroken-{number}"))
        record = job.run_unbroken()
        if record.job.state != State.COMPLETED:
            fix = f"A rehearsal needs a job that completes. See its log: drumbeat logs {record.job.name}"
            raise EngineError(
                f"the unbroken job didn't complete: {record.job.sentence}", where=record.job.name, fix=fix
            )
        self.report_line(f"unbroken {number}/2  {record.seconds:.1f} s  {record.job.name}")
        return record

    def _job_order(self, name: str, limit_s: float = 0.0) -> JobOrder:
        order = self.order
        sets = (*order.sets, f"tags.{TAG}={order.tag}")
        return JobOrder(order.file, sets, f"{order.tag}-{name}", order.home, self._folder, limit_s)

    def _run_struck(self, number: int, fault: DrawnFault, baseline: _Baseline) -> RunRow:
        limit_s = time_limit_s(baseline.unbroken)
        struck = self._strike(self._job_order(f"{number}-{fault.kind}", limit_s), fault, baseline)
        for again in range(2, MAX_TRIES + 1):
            if struck.strike is not None:
                break
            fault = replace(fault, when=fault.when / 2)
            struck = self._strike(self._job_order(f"{number}-{fault.kind}-{again}", limit_s), fault, baseline)
        row = baseline.judge(number, fault, struck)
        equal = {True: "equal", False: "not equal", None: "not judged"}[row.is_equal]
        step = "" if row.cost.step is None else f" at step {row.cost.step:,}"
        hit = f"{row.target}{step}" if row.target else "the fault came too late"
        self.report_line(
            f"run {number}/{self.order.runs}  {fault.kind}: {hit}  {row.seconds:.1f} s  {equal}  {row.job}"
        )
        return row

    def _strike(self, order: JobOrder, fault: DrawnFault, baseline: _Baseline) -> StruckJob:
        lab = self.order.home / "labs" / self.order.preview.plan.compute if self.order.engine == "netlab" else None
        scene = FaultScene(self.order.home, order.name, (), self.order.lasts_s, lambda: False, lab)
        with contextlib.ExitStack() as stack:
            if fault.kind is FaultKind.FILL_DISK:
                room = 2 * baseline.unbroken[0].checkpoint_bytes + _DISK_ROOM
                scene = replace(scene, disk=stack.enter_context(own_disk(order.checkpoints, room)))
            return JobRun(self.client, order).run_struck(fault, baseline.timeline, scene)

    def _report(self, baseline: _Baseline, rows: list[RunRow]) -> RehearsalReport:
        order, plan = self.order, self.order.preview.plan
        observations = gather_observations([baseline.observations, *(list(row.observations) for row in rows)])
        hints = [
            HintRow(f"{hint.file}:{hint.line}", hint.code, hint.what, hint.fix, is_observed)
            for hint, is_observed in explaining(order.hints, observations)
        ]
        return RehearsalReport(
            str(order.file), order.tag, plan.compute, plan.nodes, plan.world_size, order.seed,
            tuple(order.faults), tuple(_unbroken_row(one) for one in baseline.unbroken), tuple(rows), baseline.judged,
            baseline.unjudged, observations, tuple(hints),
        )  # fmt: skip


def _unbroken_row(record: JobRecord) -> UnbrokenRow:
    return UnbrokenRow(record.job.name, record.seconds, tuple(format_events(record.job.story)))


class _Baseline:
    """The unbroken jobs, by which jobs with faults are judged."""

    def __init__(self, unbroken: list[JobRecord]) -> None:
        self.unbroken = unbroken
        first, second = unbroken
        series = compare_series(first.logged, second.logged)
        self._random_series = [one.key for one in series]
        self._random_files = [one.path for one in compare_files(first.files, second.files)]
        self.observations = find_in_unbroken(series, first)
        self.timeline: Timeline = read_timeline(first)
        self._main: SeriesKey | None = main_series(first.logged)
        keys = {key for key in first.logged if is_judged(key)} - {*self._random_series}
        self.judged = tuple(dict.fromkeys(key.name for key in sorted(keys)))
        self.unjudged = (*dict.fromkeys(key.name for key in self._random_series), *self._random_files)

    def judge(self, number: int, fault: DrawnFault, struck: StruckJob) -> RunRow:
        """Compares a job with a fault with the unbroken one."""
        record, strike = struck.record, struck.strike
        first = self.unbroken[0]
        job = record.job
        row = RunRow(
            number, job.name, fault.kind, strike.target if strike else "", job.state, job.sentence, record.restarts,
            None, Cost(), record.seconds, story=tuple(format_events(job.story)),
        )  # fmt: skip
        if strike is None:
            return row
        points = record.logged.get(self._main, ()) if self._main else ()
        extra_s = record.seconds - sum(one.seconds for one in self.unbroken) / len(self.unbroken)
        restarted_at = record.restarted_at(struck.before)
        cost = compute_cost(points, strike, restarted_at, extra_s)
        lost = find_lost_points(first.logged, record.logged, restarted_at) if restarted_at else []
        series = compare_series(first.logged, record.logged, [*self._random_series, *(one.key for one in lost)])
        files = compare_files(first.files, record.files, self._random_files)
        observations: list[Observation] = find_in_run(first, record, cost, series, files)
        if any(one.kind is ObservationKind.NO_STEP for one in observations):
            cost = replace(cost, resumed=None, lost_steps=None)
        is_equal = job.state == State.COMPLETED and not series and not files
        has_judged = bool(self.judged) or bool({*first.files} - {*self._random_files})
        return replace(
            row,
            cost=cost,
            is_equal=is_equal if has_judged or not is_equal else None,
            differences=(*map(str, series), *map(str, files), *map(str, lost)),
            observations=(*observations, *find_lost(lost)),
        )


@contextlib.contextmanager
def _working_folder(home: Path) -> Generator[Path]:
    """A working folder in the server's home, which every node of `local` and netlab sees."""
    place = home / "rehearsals"
    place.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="files-", dir=place))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)

"""One job at a glance: its standing in its experiment, and what it took."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta

from drumbeat.core import ledger_times
from drumbeat.core.lifecycle.job import Job
from drumbeat.model.api.ledger import TimeClass
from drumbeat.model.api.overview import OverviewView, RankedJob, RankUseView, StandingView
from drumbeat.model.errors import NotFoundError
from drumbeat.model.metrics import NOTE_TAG, SYSTEM, MetricHighlights, PrimarySeries, Run, Series, run_id
from drumbeat.server.jobs.job_filter import JobFilter
from drumbeat.server.loop.loop import Loop
from drumbeat.server.metrics.metrics import Metrics
from drumbeat.server.metrics.series_views import series_view

MAX_RANKED = 1000
"""Jobs of an experiment that are ranked, the newest."""


class Overviews:
    """Makes overviews of jobs. Thread-safe. names_in_jobs: the names by which jobs call an experiment."""

    def __init__(self, loop: Loop, metrics: Metrics, names_in_jobs: Callable[[str], tuple[str, ...]]) -> None:
        self._loop, self._metrics, self._names_in_jobs = loop, metrics, names_in_jobs

    def of(self, name: str) -> OverviewView:
        """Returns the overview of a job. Raises NotFoundError."""
        job = self._loop.record(name).job
        now = self._loop.clock.now()
        saves = self._metrics.saves([name]).get(name, [])
        parts = ledger_times.stretches(self._loop.store.events(name), job.ended_at or now, saves)
        held = sum((one.length for one in parts if one.attempt), timedelta())
        held_h, lost = held / timedelta(hours=1), ledger_times.by_class(parts)[TimeClass.LOST]
        run, all_series = self._run(name)
        return OverviewView(
            name,
            held.total_seconds(),
            held_h * job.need.nodes * job.need.cpus,
            held_h * job.need.nodes * job.need.gpus,
            lost.total_seconds(),
            inputs=_inputs(job),
            parameters=dict(run.params) if run else {},
            note=job.description or (run.tags.get(NOTE_TAG, "") if run else ""),
            series=tuple(series_view(one) for one in all_series if one.rank == 0 and not one.name.startswith(SYSTEM)),
            use=self._use(name, all_series),
            standing=self._standing(job),
        )

    def _run(self, name: str) -> tuple[Run | None, list[Series]]:
        if self._metrics.is_empty:
            return None, []
        try:
            return self._metrics.store.run(run_id(name)), self._metrics.store.series(run_id(name))
        except NotFoundError:
            return None, []

    def _use(self, name: str, all_series: Sequence[Series]) -> RankUseView:
        cores = [one for one in all_series if one.name == f"{SYSTEM}cpu_cores"]
        busy = [one for one in all_series if one.rank < 0 and _is_busy(one.name)]
        means = self._metrics.store.means(run_id(name), {one.name for one in [*cores, *busy]}) if cores or busy else {}
        of_cores = [mean for (metric, _), mean in means.items() if not _is_busy(metric)]
        of_gpus = [mean for (metric, rank), mean in means.items() if rank < 0 and _is_busy(metric)]
        return RankUseView(
            _peak(one for one in all_series if one.rank >= 0 and one.name == f"{SYSTEM}memory_mib"),
            sum(of_cores) if of_cores else None,
            sum(of_gpus) / len(of_gpus) if of_gpus else None,
            _peak(one for one in all_series if one.rank < 0 and _is_gpu(one.name, "_memory_mib")),
        )

    def _standing(self, job: Job) -> StandingView | None:
        own = self._metrics.highlights([job.name]).get(job.name)
        if own is None or own.primary is None or own.primary.goal is None or own.primary.best is None:
            return None
        names = self._names_in_jobs(job.plan.experiment)
        records = self._loop.store.jobs(JobFilter(experiments=names, is_archived=None, limit=MAX_RANKED))
        submitted = {record.job.name: record.job.submitted_at for record in records if not record.archived}
        ranked = _ranked(own.primary, self._metrics.highlights(list(submitted)))
        before = [name for name in ranked if name in submitted and submitted[name] < job.submitted_at]
        previous = max(before, key=lambda name: submitted[name], default=None)
        return standing(job.name, own.primary, ranked, previous)


def standing(name: str, own: PrimarySeries, ranked: Mapping[str, float], previous: str | None) -> StandingView | None:
    """Returns the standing of a job among these, by their best values; None = nothing can be said."""
    if own.goal is None or own.best is None:
        return None
    value, is_up = own.best.value, own.goal == "maximize"
    table = {**ranked, name: value}
    best = (max if is_up else min)(table, key=lambda job: table[job])
    better = sum((other > value) if is_up else (other < value) for other in table.values())
    if not better:
        best = name
    before = RankedJob(previous, table[previous]) if previous else None
    first = RankedJob(best, table[best])
    return StandingView(own.series.name, own.goal, value, own.best.step, better + 1, len(table), first, before)


def _ranked(own: PrimarySeries, others: Mapping[str, MetricHighlights]) -> dict[str, float]:
    """Returns the best values of the jobs for which the same metric counts, with the same goal."""
    values: dict[str, float] = {}
    for name, one in others.items():
        primary = one.primary
        if primary and primary.best and (primary.series.name, primary.goal) == (own.series.name, own.goal):
            values[name] = primary.best.value
    return values


def _inputs(job: Job) -> dict[str, str]:
    return {**job.plan.literals, **{one.name: one.uri for one in job.plan.inputs}}


def _is_gpu(name: str, end: str) -> bool:
    return name.startswith(f"{SYSTEM}gpu_") and name.endswith(end)


def _is_busy(name: str) -> bool:
    return _is_gpu(name, "_percent") and not name.endswith("_memory_percent")


def _peak(some: Iterable[Series]) -> float | None:
    return max((one.max.value for one in some if one.max), default=None)

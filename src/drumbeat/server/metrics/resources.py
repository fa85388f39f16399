"""What the nodes and ranks of a job use over time, and how well they use it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from drumbeat.core import ledger_times
from drumbeat.core.lifecycle.job import Job
from drumbeat.core.resource_use import Grid, SlotsOfJob, describe_use
from drumbeat.model.api.resources import IdleRowView, ResourceSeriesView, ResourcesView
from drumbeat.model.metrics import SYSTEM, UPDATES, Series, run_id
from drumbeat.server.loop.loop import Loop
from drumbeat.server.metrics.metrics import Metrics

DIGITS = 4
"""Significant digits of a mean: nothing is measured more exactly."""


def read_resources(loop: Loop, metrics: Metrics, name: str, max_parts: int) -> ResourcesView:
    """Returns the use of a job's nodes and ranks in at most so many parts of its time. Raises NotFoundError."""
    job = loop.record(name).job
    if metrics.is_empty:
        return ResourcesView(name)
    means = metrics.store.part_means(run_id(name), SYSTEM, max_parts)
    own = [(one, values) for one, values in means.series if not one.name.startswith(UPDATES)]
    if not own:
        return ResourcesView(name)
    start, part = datetime.fromtimestamp(means.start_ms / 1000, UTC), timedelta(milliseconds=means.width_ms)
    by_key = {(one.name.removeprefix(SYSTEM), one.rank): values for one, values in own}
    saves = metrics.saves([name]).get(name, [])
    stretches = ledger_times.stretches(loop.store.events(name), job.ended_at or loop.clock.now(), saves)
    use = describe_use(by_key, Grid(start, part, means.parts), stretches, _held(job))
    return ResourcesView(
        name,
        use.sentence,
        start,
        part.total_seconds(),
        means.parts,
        tuple(_view(one, values) for one, values in own),
        tuple(IdleRowView(*key) for key in use.idle),
    )


def _held(job: Job) -> SlotsOfJob:
    return SlotsOfJob(job.need.nodes * job.need.cpus, is_over=job.state.is_terminal)


def _view(series: Series, values: tuple[float | None, ...]) -> ResourceSeriesView:
    rounded = tuple(None if value is None else float(f"{value:.{DIGITS}g}") for value in values)
    highest = series.max.value if series.max else series.last.value
    return ResourceSeriesView(series.name.removeprefix(SYSTEM), series.rank, rounded, series.last.value, highest)

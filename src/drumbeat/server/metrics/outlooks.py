"""The outlooks of jobs: when those that wait may start, and when those that run end."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from drumbeat.core.lifecycle.job import Job
from drumbeat.core.scheduling.queued_job import QueuedJob
from drumbeat.core.scheduling.resource_needs import Slot
from drumbeat.core.scheduling.slot_fitting import MachineCapacity, SlotAllocation
from drumbeat.core.scheduling.start_estimates import (
    MAX_QUEUE,
    ExpectedEnd,
    Pace,
    StartEstimate,
    estimate_starts,
    expected_end,
    fewer_nodes,
)
from drumbeat.model.api.outlooks import HolderView, OutlookView, StartView
from drumbeat.model.plurals import counted
from drumbeat.model.states import JobKind, Reason, State
from drumbeat.server.database.records import Record
from drumbeat.server.jobs.job_filter import JobFilter
from drumbeat.server.loop.loop import Loop
from drumbeat.server.loop.unfinished_jobs import is_queued
from drumbeat.server.loop.waiting_jobs import Queue
from drumbeat.server.metrics.metrics import Metrics

EARLIER = 5
"""So many of the last runs tell how long a job takes."""
READ = 40
"""So many of the last completed jobs of its experiment are looked at for them."""
KEPT_FOR = timedelta(seconds=30)
"""For so long it isn't read again how long earlier runs took."""
STEP_PARAMETERS = ("max_steps", "total_steps", "num_train_steps", "num_training_steps", "max_iters", "num_steps")
"""Parameters in which scripts log how many steps they take."""
MAX_STARTS = 1000


@dataclass(frozen=True)
class _Look:
    """A compute with its queue at a moment."""

    compute: str
    queue: Queue
    rooms: list[MachineCapacity]
    held: list[SlotAllocation]
    paces: Mapping[str, Pace]
    ends: Mapping[str, ExpectedEnd]
    now: datetime


class Outlooks:
    """Tells when jobs start and end, as far as it can be estimated. Thread-safe."""

    def __init__(self, loop: Loop, metrics: Metrics) -> None:
        self._loop, self._metrics = loop, metrics
        self._lock = threading.Lock()
        self._earlier: dict[tuple[str, str, int], tuple[datetime, tuple[float, ...]]] = {}

    def of(self, name: str) -> OutlookView:
        """Returns the outlook of a job. Raises NotFoundError."""
        record = self._loop.record(name)
        job = record.job
        if not is_queued(job):
            return OutlookView(name, own=self._own(record))
        look = self._look(job.plan.compute)
        start = next((one for one in self._starts(look) if one.job == name), None)
        return OutlookView(name, start, tuple(self._holders(look)), self._fewer(look, name))

    def starts(self) -> list[StartView]:
        """Returns when each waiting job starts."""
        computes = {job.plan.compute for job in self._loop.jobs.queued()}
        return [one for compute in sorted(computes) for one in self._starts(self._look(compute))][:MAX_STARTS]

    # --- one compute ---
    def _look(self, compute: str) -> _Look:
        now = self._loop.clock.now()
        queue = self._loop.placer.queue(compute)
        held = self._loop.placer.holdings(compute)
        named = [*(one.job for one in held if one.slots), *(one.job for one in queue.jobs[:MAX_QUEUE])]
        paces = self._paces([record for name in dict.fromkeys(named) if (record := self._loop.jobs.get(name))], now)
        ends = {name: expected_end(pace) for name, pace in paces.items()}
        return _Look(compute, queue, self._loop.supply.rooms(compute), held, paces, ends, now)

    def _starts(self, look: _Look) -> list[StartView]:
        count = len(look.queue.jobs)
        estimates = self._estimates(look)
        return [
            StartView(
                one.job, look.compute, place, count, _at(look.now, own.in_s), _at(look.now, own.latest_s), own.sentence
            )
            for place, one in enumerate(look.queue.jobs, 1)
            if (own := estimates.get(one.job))
        ]  # fmt: skip

    def _estimates(self, look: _Look) -> dict[str, StartEstimate]:
        supply, jobs = self._loop.supply, look.queue.jobs
        if trouble := supply.troubles.get(look.compute, ""):
            return _unknown(jobs, f"compute {look.compute} can't be used: {trouble}")
        if look.compute in supply.with_queue or look.compute in supply.caps:
            return _unknown(jobs, f"the machines of {look.compute} are started, or given out, by its own cluster")
        reasons = {one.job: record.job.reason for one in jobs if (record := self._loop.jobs.get(one.job))}
        by_quota = [one for one in jobs if reasons.get(one.job) is Reason.WAITING_FOR_QUOTA]
        lacking = [one for one in jobs if one.lacking and one not in by_quota]
        others = [one for one in jobs if one not in by_quota and one not in lacking]
        return {
            **estimate_starts(others, look.rooms, look.held, look.ends),
            **_unknown(by_quota, "it waits for a quota"),
            **_unknown(lacking, "it can't use every machine"),
        }

    def _fewer(self, look: _Look, name: str) -> str:
        asked = next((one for one in look.queue.jobs if one.job == name), None)
        smaller = fewer_nodes(asked, look.rooms, look.held) if asked else None
        if smaller is None or look.compute in self._loop.supply.with_queue:
            return ""
        queue = replace(look.queue, jobs=[smaller if one.job == name else one for one in look.queue.jobs])
        placements = self._loop.placer.placed(look.compute, queue, look.rooms, look.held)
        is_placed = any(one.job == name and one.slots for one in placements)
        return f"{counted(smaller.need.nodes, 'node')} would start now" if is_placed else ""

    def _holders(self, look: _Look) -> Iterable[HolderView]:
        held = [(one, record.job) for one in look.held if one.slots and (record := self._loop.jobs.get(one.job))]
        for one, job in sorted(held, key=lambda pair: (-sum(slot.cpus for slot in pair[0].slots), pair[0].job)):
            yield _holder_view(job, one.slots, look.paces.get(job.name, Pace()), look.now)

    def _own(self, record: Record) -> HolderView | None:
        job, now = record.job, self._loop.clock.now()
        if job.state is not State.RUNNING or job.kind is not JobKind.COMMAND:
            return None
        return _holder_view(job, job.slots, self._paces([record], now)[job.name], now)

    # --- how long jobs take ---
    def _paces(self, records: Sequence[Record], now: datetime) -> dict[str, Pace]:
        begun = [record.job.name for record in records if record.job.started_at]
        highlights = self._metrics.highlights(begun)
        paces: dict[str, Pace] = {}
        for record in records:
            job = record.job
            one = highlights.get(job.name)
            step = one.primary.series.last.step if one and one.primary else None
            steps = _steps(self._metrics.params(job.name)) if step is not None else None
            paces[job.name] = _pace(job, now, self._lengths_of_earlier(job, now), (step, steps))
        return paces

    def _lengths_of_earlier(self, job: Job, now: datetime) -> tuple[float, ...]:
        key = (job.plan.experiment, job.plan.command, job.plan.nodes)
        with self._lock:
            kept = self._earlier.get(key)
        if kept and now - kept[0] < KEPT_FOR:
            return kept[1]
        chosen = JobFilter((State.COMPLETED,), (job.plan.experiment,), is_archived=None, limit=READ)
        earlier = [record.job for record in self._loop.store.jobs(chosen)]
        alike = [one for one in earlier if (one.plan.command, one.plan.nodes) == key[1:]]
        lengths = tuple(
            (one.ended_at - one.started_at).total_seconds() for one in alike if one.started_at and one.ended_at
        )[:EARLIER]
        with self._lock:
            self._earlier = {of: one for of, one in self._earlier.items() if now - one[0] < KEPT_FOR}
            self._earlier[key] = now, lengths
        return lengths


def _holder_view(job: Job, slots: Sequence[Slot], pace: Pace, now: datetime) -> HolderView:
    end = expected_end(pace)
    return HolderView(
        job.name, job.user, len(slots), sum(slot.cpus for slot in slots), sum(len(slot.gpus) for slot in slots),
        job.started_at, pace.step, pace.steps, job.deadline, _at(now, end.in_s), end.ground, is_limit=end.is_limit,
        is_hanging=job.reason is Reason.HANGING,
    )  # fmt: skip


def _pace(job: Job, now: datetime, earlier: tuple[float, ...], steps: tuple[int | None, int | None]) -> Pace:
    elapsed = (now - job.started_at).total_seconds() if job.started_at else 0.0
    limit = job.policy.timeout_s
    return Pace(
        elapsed,
        None if limit is None else max(0.0, limit - elapsed),
        earlier,
        *steps,
        has_failed=bool(job.failures),
        obstacle=job.obstacle,
    )


def _steps(params: Mapping[str, str]) -> int | None:
    for name in STEP_PARAMETERS:
        text = params.get(name, "")
        if text.isdecimal() and int(text) > 0:
            return int(text)
    return None


def _unknown(jobs: Sequence[QueuedJob], why: str) -> dict[str, StartEstimate]:
    return {one.job: StartEstimate(0, None, None, f"unknown: {why}") for one in jobs}


def _at(now: datetime, in_s: float | None) -> datetime | None:
    return None if in_s is None else now + timedelta(seconds=in_s)

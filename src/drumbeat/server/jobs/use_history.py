"""The history of use: what jobs held of computes over time, what was free, and who waited for how long."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from drumbeat.core.use_times import SECOND_US, Amounts, Window, from_us, mean_levels, percentile, to_us, window
from drumbeat.model.api.ledger import LedgerGroup
from drumbeat.model.api.use import IdleJob, UseGroup, UseHistoryView, UseSeries, UseStep, WaitsView
from drumbeat.model.errors import RefusedError
from drumbeat.server.jobs.ledger import DEFAULT_AGE, UNKNOWN
from drumbeat.server.jobs.time_book import TimeBook, UseSummary
from drumbeat.server.loop.loop import Loop

MAX_SERIES = 8
"""The most series; what else was held is in one of its own."""
OTHERS = "others"
MAX_PARTS = 1000
MAX_IDLE = 5

STEPS = {
    UseStep.HOUR: timedelta(hours=1),
    UseStep.SIX_HOURS: timedelta(hours=6),
    UseStep.DAY: timedelta(days=1),
    UseStep.WEEK: timedelta(weeks=1),
}
_USUAL = (
    (timedelta(days=2), UseStep.HOUR),
    (timedelta(days=10), UseStep.SIX_HOURS),
    (timedelta(days=120), UseStep.DAY),
)
"""The longest histories that have each step unless another one is asked for."""

Level = tuple[int, float]
"""A number that holds from a time on, in microseconds since 1970."""


class UseHistories:
    """Tells what jobs held over time. Thread-safe. title: returns the current name of a job's experiment."""

    def __init__(self, loop: Loop, book: TimeBook, title: Callable[[str], str]) -> None:
        self._loop, self._store, self._book, self._title = loop, loop.store, book, title

    def read(
        self,
        by: UseGroup,
        since: datetime | None = None,
        until: datetime | None = None,
        step: UseStep | None = None,
        compute: str = "",
    ) -> UseHistoryView:
        """Returns the history of a compute, "" = of all. since: None = 30 days ago. Raises RefusedError for too many
        parts.
        """
        now = self._loop.clock.now()
        end, start = min(until or now, now), since or now - DEFAULT_AGE
        step = step or next((one for most, one in _USUAL if end - start <= most), UseStep.WEEK)
        span = window(start, end, STEPS[step], from_monday=step is UseStep.WEEK)
        if len(span.buckets) > MAX_PARTS:
            parts = f"{len(span.buckets):,} parts of {step}, and at most {MAX_PARTS:,} are told"
            what = f"the time from {start:%Y-%m-%d} on has {parts}"
            raise RefusedError(what, where="step", fix="Ask for a longer step, or a later beginning.")
        return self._view(by, span, step, compute, (start, end))

    def _view(
        self, by: UseGroup, span: Window, step: UseStep, compute: str, ends: tuple[datetime, datetime]
    ) -> UseHistoryView:
        use = self._book.use(span, LedgerGroup(by.value), compute)
        by_name: dict[str, dict[int, Amounts]] = {}
        whole: dict[int, Amounts] = {}
        for (name, bucket), one in use.sums.items():
            of_name = by_name.setdefault(self._shown(by, name), {})
            of_name.setdefault(bucket, Amounts()).add_all(one)
            whole.setdefault(bucket, Amounts()).add_all(one)
        buckets = span.buckets
        total = [whole.get(bucket, Amounts()) for bucket in buckets]
        bounds = [(max(span.start(one), span.since), min(span.start(one + 1), span.until)) for one in buckets]
        slots, gpus = self._capacity(span, compute)
        return UseHistoryView(
            *ends,
            by,
            step,
            compute,
            tuple(from_us(span.start(one)) for one in buckets),
            tuple((until - since) / SECOND_US for since, until in bounds),
            _series(by_name, buckets),
            sum(one.gpu_us for one in total) / SECOND_US,
            sum(one.slot_us for one in total) / SECOND_US,
            tuple(one.work_slot_us / SECOND_US for one in total),
            tuple(round(one.busy_gpus / SECOND_US, 6) for one in total),
            tuple(
                round(one.queue_us / max(until - since, 1), 3)
                for one, (since, until) in zip(total, bounds, strict=True)
            ),
            _waits(use.waits),
            tuple(slots.get(one) for one in buckets),
            tuple(gpus.get(one) for one in buckets),
            self._idle(use),
        )

    def _shown(self, by: UseGroup, name: str) -> str:
        if by is UseGroup.EXPERIMENT:
            return self._title(name)
        return name or UNKNOWN if by is UseGroup.USER else name

    def _capacity(self, span: Window, compute: str) -> tuple[dict[int, float], dict[int, float]]:
        """Returns the mean slots and GPUs of the usable machines, by part of the history."""
        levels: dict[str, tuple[int, int]] = {}
        slots: list[Level] = []
        gpus: list[Level] = []
        for one in self._store.capacities():
            if compute in ("", one.compute):
                levels[one.compute] = one.slots, one.gpus
                slots.append((to_us(one.at), float(sum(each for each, _ in levels.values()))))
                gpus.append((to_us(one.at), float(sum(each for _, each in levels.values()))))
        return mean_levels(slots, span), mean_levels(gpus, span)

    def _idle(self, use: UseSummary) -> tuple[IdleJob, ...]:
        """Returns the jobs that held the most without use."""
        unused = [
            (one.gpu_us - one.busy_gpus, one.slot_us - one.work_slot_us, job) for (job, _), one in use.unused.items()
        ]
        first = sorted((one for one in unused if one[0] > 0 or one[1] > 0), key=lambda one: (-one[0], -one[1], one[2]))
        chosen = [job for _, _, job in first[:MAX_IDLE]]
        persons = {one.job.name: one.job.user for one in self._store.jobs_named(chosen)}
        held = {job: one for (job, _), one in use.unused.items()}
        return tuple(_idle_job(job, persons.get(job, ""), held[job]) for job in chosen)


def _waits(lengths_us: Sequence[int]) -> WaitsView:
    waits = [one / SECOND_US for one in lengths_us]
    return WaitsView(len(waits), percentile(waits, 0.5), percentile(waits, 0.95))


def _idle_job(job: str, person: str, held: Amounts) -> IdleJob:
    idle_gpu_us, idle_slot_us = held.gpu_us - held.busy_gpus, held.slot_us - held.work_slot_us
    return IdleJob(
        job,
        person,
        held.gpu_us / SECOND_US,
        round(idle_gpu_us / SECOND_US, 6),
        held.slot_us / SECOND_US,
        idle_slot_us / SECOND_US,
    )


def _series(by_name: dict[str, dict[int, Amounts]], buckets: Sequence[int]) -> tuple[UseSeries, ...]:
    """Returns the largest series, and one of all the others."""

    def size(name: str) -> tuple[int, int, str]:
        some = by_name[name].values()
        return -sum(one.gpu_us for one in some), -sum(one.slot_us for one in some), name

    held = [
        name for name in sorted(by_name, key=size) if any(one.slot_us or one.gpu_us for one in by_name[name].values())
    ]
    shown = held if len(held) <= MAX_SERIES + 1 else held[:MAX_SERIES]
    rest: dict[int, Amounts] = {}
    for name in held[len(shown) :]:
        for bucket, one in by_name[name].items():
            rest.setdefault(bucket, Amounts()).add_all(one)
    named = [(name, by_name[name]) for name in shown] + ([(OTHERS, rest)] if rest else [])
    return tuple(
        UseSeries(
            name,
            tuple(of_name[one].slot_us / SECOND_US if one in of_name else 0.0 for one in buckets),
            tuple(of_name[one].gpu_us / SECOND_US if one in of_name else 0.0 for one in buckets),
        )
        for name, of_name in named
    )

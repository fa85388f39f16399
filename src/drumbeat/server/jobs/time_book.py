"""The time of all jobs: of ended ones from a table, in which it is booked once; of others from their events."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from drumbeat.core import ledger_times
from drumbeat.core.ledger_times import Save
from drumbeat.core.lifecycle.job import Job
from drumbeat.core.use_times import QUEUE, Amounts, Hold, TimePiece, Window, add_row, day_rows, pieces, to_us
from drumbeat.model.api.ledger import LedgerGroup
from drumbeat.model.errors import DrumbeatError
from drumbeat.server.database.records import BookedRow, BookedTimes, History
from drumbeat.server.jobs.time_tables import DATED, Sums
from drumbeat.server.loop.loop import Loop

log = logging.getLogger(__name__)

INTERVAL_S = 20.0
"""How often the time of jobs that have ended is booked."""
AT_ONCE = 50
"""The most jobs that one transaction books."""
REST = 4.0
"""So many times as long as a transaction took, the thread leaves the server to others: an upgraded one has all its jobs
to book."""
MAX_UNUSED = 50
"""Of so many booked jobs it is read how much they held without use."""
TOTALS_AGE_S = 10.0
"""For so long the totals of all time count."""
BUSY_AGE_S = 30.0
"""For so long the reading of a running job's GPUs counts."""

Key = tuple[str, str, int]
"""Name, compute and bucket."""


@dataclass(frozen=True)
class JobTimes:
    """A job whose time isn't booked."""

    job: Job
    history: History
    pieces: list[TimePiece]


@dataclass
class Summary:
    """The time of jobs in a window. jobs: how many have any, by name; total: of all."""

    sums: dict[Key, Amounts] = field(default_factory=dict[Key, Amounts])
    jobs: dict[str, int] = field(default_factory=dict[str, int])
    total: int = 0

    def amounts(self, key: Key) -> Amounts:
        """Returns the sums under a key, to be added to."""
        return self.sums.setdefault(key, Amounts())


@dataclass(frozen=True)
class UseSummary:
    """What was held in a window. sums: by name and bucket. unused: by job, of those that held the most without use.

    waits: microseconds in queues, of each job whose wait is over.
    """

    sums: dict[tuple[str, int], Amounts]
    unused: dict[tuple[str, int], Amounts]
    waits: list[int]


@dataclass(frozen=True)
class JobReadings:
    """What metrics know of jobs. saves: checkpoints, by job. gpu_use: how busy a job's GPUs were, from 0 to 1."""

    saves: Callable[[Sequence[str]], Mapping[str, list[Save]]]
    gpu_use: Callable[[str], float | None]


class TimeBook:
    """Books and sums the time of jobs. Thread-safe."""

    def __init__(self, loop: Loop, readings: JobReadings) -> None:
        self._loop, self._store, self._readings = loop, loop.store, readings
        self._busy: dict[str, tuple[float, float | None]] = {}
        self._totals: tuple[float, dict[tuple[str, str], Amounts]] = (-math.inf, {})
        self._lock = threading.Lock()
        self._booking = threading.Lock()
        """Held while time is booked, and while it is read what is booked and what isn't: a job is either."""
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="time book", daemon=True)

    # --- booking ---
    def start(self) -> None:
        """Starts the thread that books what has ended."""
        self._thread.start()

    def stop(self) -> None:
        """Ends the thread."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(timeout=5)

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self.book()
            except Exception as error:
                if not self._stopping.is_set():
                    has_traceback = not isinstance(error, DrumbeatError)
                    log.warning("booking the time of jobs failed and is tried again: %s", error, exc_info=has_traceback)
            self._stopping.wait(INTERVAL_S)

    def book(self, *names: str) -> None:
        """Books the time of these jobs, or of all that have ended and hold nothing any more."""
        holders, unfinished = self._store.slot_holders(), self._loop.jobs
        every = names or self._store.unbooked_jobs()
        chosen = [one for one in every if one not in holders and unfinished.get(one) is None]
        for start in range(0, len(chosen), AT_ONCE):
            if self._stopping.is_set():
                return
            begun = time.monotonic()
            some = self._read_some(chosen[start : start + AT_ONCE])
            booked = [_booked(one, self._gpu_use(one.job)) for one in some]
            with self._booking:
                self._store.book_times(booked)
            if not names:
                self._stopping.wait(REST * (time.monotonic() - begun))

    # --- summing ---
    def summary(self, span: Window, by: LedgerGroup, names: Sequence[str] = (), largest: int | None = None) -> Summary:
        """Returns the time in a window. names: of these jobs and their children alone, from their events.

        largest: of booked jobs, only so many, which held the most; jobs that aren't booked yet are all there.
        """
        if names:
            summary, chosen = Summary(), [*names]
        else:
            with self._booking:
                sums, shared = self._store.booked_sums(span, by, largest=largest)
                summary = Summary(sums, *self._booked_jobs(span, by, sums, shared))
                chosen = self._store.unbooked_jobs()
            _add_rows(summary, shared, span)
        for one in self._times(chosen, has_children=bool(names)):
            self._add(summary, one, span, by)
        return summary

    def _booked_jobs(
        self, span: Window, by: LedgerGroup, sums: Sums, shared: list[BookedRow]
    ) -> tuple[dict[str, int], int]:
        """Returns how many booked jobs have time in a window, by name, and all together."""
        if by is LedgerGroup.JOB:
            names = {*(name for name, _, _ in sums), *(one.name for one in shared)}
            return dict.fromkeys(names, 1), len(names)
        return self._store.booked_jobs(span, by)

    def totals(self) -> dict[tuple[str, str], Amounts]:
        """Returns the time of all jobs ever, by user and compute, as it was a while ago."""
        with self._lock:
            read_at, totals = self._totals
        if time.monotonic() - read_at >= TOTALS_AGE_S:
            ever = Window(0, to_us(self._loop.clock.now()), 0, 1 << 62)
            summary = self.summary(ever, LedgerGroup.USER)
            totals = {(name, compute): one for (name, compute, _), one in summary.sums.items()}
            with self._lock:
                self._totals = time.monotonic(), totals
        return totals

    def use(self, span: Window, by: LedgerGroup, compute: str) -> UseSummary:
        """Returns what was held in a window of one compute, or of all ("")."""
        with self._booking:
            summary = Summary()
            summary.sums, shared = self._store.booked_sums(span, by, compute)
            unused = self._store.most_unused(span, compute, MAX_UNUSED)
            waits = self._store.booked_waits(span, compute)
            unbooked = self._store.unbooked_jobs()
        _add_rows(summary, shared, span)
        whole, jobs = Window(span.since, span.until, span.since, max(span.until - span.since, 1)), Summary()
        _add_rows(jobs, unused, whole)
        for one in self._times(unbooked):
            if compute in ("", one.job.plan.compute):
                self._add(summary, one, span, by)
                self._add(jobs, one, whole, LedgerGroup.JOB)
                if one.job.attempt:
                    waits.append(_queue_us(one, whole))
        return UseSummary(_by_name(summary), _by_name(jobs), waits)

    def _times(self, names: Sequence[str], *, has_children: bool = False) -> Iterator[JobTimes]:
        """Yields jobs with their time, from their events, but no sweeps and pipelines. has_children: also theirs."""
        for one in self._read_some(names, has_children=has_children):
            if not ledger_times.is_parent(one.history.events):
                yield one

    def _add(self, summary: Summary, one: JobTimes, span: Window, by: LedgerGroup) -> None:
        name, busy = _name(one, by), self._gpu_use(one.job)
        has_names: set[str] = set()
        for piece in one.pieces:
            for bucket, since, until in span.cuts(piece.since, piece.until):
                sums = summary.amounts((name, one.job.plan.compute, bucket))
                sums.add(piece.part, until - since, piece.slots, piece.gpus, busy)
                has_names.add(str(bucket) if by in DATED else name)
        for each in has_names:
            summary.jobs[each] = summary.jobs.get(each, 0) + 1
        summary.total += bool(has_names)

    def _read_some(self, names: Sequence[str], *, has_children: bool = False) -> list[JobTimes]:
        if not names:
            return []
        now = self._loop.clock.now()
        histories = self._store.histories(names, has_children=has_children)
        every = [one.job for one in histories]
        saves, holds, jobs = self._readings.saves(every), self._store.holds(every), self._jobs(every)
        return [
            JobTimes(job, one, _pieces(one, job, holds.get(one.job, []), saves.get(one.job, ()), now))
            for one in histories
            if (job := jobs.get(one.job)) is not None
        ]

    def _jobs(self, names: Sequence[str]) -> dict[str, Job]:
        """Returns jobs by name: unfinished ones from memory, and those that exist of the others."""
        records = {name: record.job for name in names if (record := self._loop.jobs.get(name)) is not None}
        others = [name for name in names if name not in records]
        return records | {record.job.name: record.job for record in self._store.jobs_named(others)}

    def _gpu_use(self, job: Job) -> float | None:
        """Returns how busy the job's GPUs were; of a running job, as it was read a while ago."""
        if not job.need.gpus:
            return None
        now = time.monotonic()
        with self._lock:
            read_at, busy = self._busy.get(job.name, (None, None))
            if read_at is not None and now - read_at < BUSY_AGE_S and not job.state.is_terminal:
                return busy
        busy = self._readings.gpu_use(job.name)
        with self._lock:
            self._busy = {name: one for name, one in self._busy.items() if now - one[0] < BUSY_AGE_S}
            self._busy[job.name] = now, busy
        return busy


def _add_rows(summary: Summary, rows: Iterable[BookedRow], span: Window) -> None:
    for one in rows:
        for bucket, since, until in span.cuts(one.row.since, one.row.until):
            add_row(summary.amounts((one.name, one.compute, bucket)), one.row, one.busy, since, until)


def _by_name(summary: Summary) -> dict[tuple[str, int], Amounts]:
    sums: dict[tuple[str, int], Amounts] = {}
    for (name, _, bucket), one in summary.sums.items():
        sums.setdefault((name, bucket), Amounts()).add_all(one)
    return sums


def _queue_us(one: JobTimes, whole: Window) -> int:
    queues = (piece for piece in one.pieces if piece.part == QUEUE)
    return sum(until - since for piece in queues for _, since, until in whole.cuts(piece.since, piece.until))


def _pieces(one: History, job: Job, holds: list[Hold], saves: Iterable[Save], now: datetime) -> list[TimePiece]:
    """Returns the time of a job. What attempts held of which nothing is written, the last one tells."""
    if ledger_times.is_parent(one.events):
        return []
    stretches = ledger_times.stretches(one.events, now, saves)
    size = job.need.nodes * job.need.cpus, job.need.nodes * job.need.gpus
    untold = {part.attempt for part in stretches if part.attempt} - {hold.attempt for hold in holds}
    submitted = one.events[0].at
    return pieces(stretches, [*holds, *(Hold(attempt, *size, submitted, submitted) for attempt in untold)], now)


def _booked(one: JobTimes, busy: float | None) -> BookedTimes:
    return BookedTimes(one.job.name, one.job.plan.compute, tuple(day_rows(one.pieces)), busy)


def _name(one: JobTimes, by: LedgerGroup) -> str:
    match by:
        case LedgerGroup.JOB:
            return one.job.name
        case LedgerGroup.EXPERIMENT:
            return one.history.experiment
        case LedgerGroup.USER:
            return one.history.user
        case LedgerGroup.COMPUTE:
            return one.job.plan.compute
        case _:
            return ""

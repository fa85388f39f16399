"""What jobs held of their computes, and for what: pieces of time, and their sums by bucket. Pure; whole microseconds.

Sums of whole numbers don't depend on their order, so that the ledger, the history of a compute and the metrics agree.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import NamedTuple

from drumbeat.core.ledger_times import Stretch
from drumbeat.model.api.ledger import TimeClass

CLASSES = tuple(TimeClass)
AFTER = len(CLASSES)
"""The part of a vector with the time after an attempt, until it had given its slots back: no class of the wall time."""
PARTS = AFTER + 1

QUEUE = CLASSES.index(TimeClass.QUEUE)
_STAGE = CLASSES.index(TimeClass.STAGE)
_WORK = (CLASSES.index(TimeClass.TRAIN), CLASSES.index(TimeClass.CHECKPOINT))

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_US = timedelta(microseconds=1)
SECOND_US = 1_000_000
DAY_US = 86_400_000_000
MONDAY_US = 4 * DAY_US
"""The first Monday of the epoch."""


@dataclass(frozen=True)
class Hold:
    """What an attempt held of its compute. until: when it gave that back; None = it holds it still."""

    attempt: int
    slots: int
    gpus: int
    since: datetime | None = None
    until: datetime | None = None


class TimePiece(NamedTuple):
    """A part of the time of a job, in microseconds since 1970. part: the place of its class in a vector, or `AFTER`."""

    since: int
    until: int
    attempt: int
    slots: int
    gpus: int
    part: int


@dataclass(frozen=True)
class Window:
    """A span of time in buckets of equal width, in microseconds. The first and last one may reach beyond the span."""

    since: int
    until: int
    origin: int
    """Where a bucket begins, at or before `since`."""
    width: int

    @property
    def buckets(self) -> range:
        """The numbers of the buckets that the span touches."""
        return range(self.bucket(self.since), self.bucket(max(self.until - 1, self.since)) + 1)

    def bucket(self, at: int) -> int:
        """Returns the number of the bucket that a time is in."""
        return (at - self.origin) // self.width

    def start(self, bucket: int) -> int:
        """Returns when a bucket begins."""
        return self.origin + bucket * self.width

    def cuts(self, since: int, until: int) -> Iterator[tuple[int, int, int]]:
        """Yields the bucket, start and end of each part of a stretch of time that lies in the window."""
        since, until = max(since, self.since), min(until, self.until)
        while since < until:
            bucket = self.bucket(since)
            end = min(until, self.start(bucket + 1))
            yield bucket, since, end
            since = end


def window(since: datetime, until: datetime, width: timedelta | None = None, *, from_monday: bool = False) -> Window:
    """Returns the window of buckets that begin at multiples of `width`, in UTC. None = one bucket."""
    start, end = to_us(since), max(to_us(until), to_us(since))
    if width is None:
        return Window(start, end, start, max(end - start, 1))
    size, first = width // _US, MONDAY_US if from_monday else 0
    return Window(start, end, first + (start - first) // size * size, size)


def to_us(at: datetime) -> int:
    """Returns microseconds since 1970."""
    return (at - _EPOCH) // _US


def from_us(at: int) -> datetime:
    """Returns the time of so many microseconds since 1970."""
    return _EPOCH + at * _US


def pieces(stretches: Sequence[Stretch], holds: Iterable[Hold], now: datetime) -> list[TimePiece]:
    """Returns the time of a job with what was held in it.

    In the queue nothing is held, not in that of a cluster either. Slots that are given back later than the attempt
    ended are held until then.
    """
    by_attempt = {one.attempt: one for one in holds}
    spent = [_spent(one, by_attempt) for one in stretches]
    ends: dict[int, int] = {}
    for piece in spent:
        ends[piece.attempt] = max(piece.until, ends.get(piece.attempt, 0))
    for hold in by_attempt.values():
        until = to_us(hold.until or now)
        since = ends.get(hold.attempt, to_us(hold.since) if hold.since else until)
        if since < until:
            spent.append(TimePiece(since, until, hold.attempt, hold.slots, hold.gpus, AFTER))
    return spent


def _spent(one: Stretch, holds: dict[int, Hold]) -> TimePiece:
    part = CLASSES.index(one.time_class)
    hold = holds.get(one.attempt) if one.attempt and part != QUEUE else None
    size = (hold.slots, hold.gpus) if hold else (0, 0)
    return TimePiece(to_us(one.start), to_us(one.end), one.attempt, *size, part)


@dataclass
class Amounts:
    """Sums of time, in microseconds: of the wall, and of each slot and each GPU that was held, by part."""

    wall: list[int] = field(default_factory=lambda: [0] * PARTS)
    slots: list[int] = field(default_factory=lambda: [0] * PARTS)
    gpus: list[int] = field(default_factory=lambda: [0] * PARTS)
    busy_gpus: float = 0.0
    """The time of GPUs while ranks worked, by how busy they were where that was measured."""

    def add(self, part: int, length: int, slots: int, gpus: int, busy: float | None = None) -> None:
        """Adds a stretch of time in one part. busy: how busy the GPUs were, from 0 to 1; None = it isn't known."""
        self.wall[part] += length
        self.slots[part] += length * slots
        self.gpus[part] += length * gpus
        if part in _WORK:
            self.busy_gpus += length * gpus * (1.0 if busy is None else busy)

    def add_all(self, other: Amounts) -> None:
        """Adds other sums."""
        for mine, more in ((self.wall, other.wall), (self.slots, other.slots), (self.gpus, other.gpus)):
            for part, length in enumerate(more):
                mine[part] += length
        self.busy_gpus += other.busy_gpus

    @property
    def wall_us(self) -> int:
        """The wall time."""
        return sum(self.wall[:AFTER])

    @property
    def slot_us(self) -> int:
        """The time of the slots that were held."""
        return sum(self.slots)

    @property
    def gpu_us(self) -> int:
        """The time of the GPUs that were held."""
        return sum(self.gpus)

    @property
    def work_slot_us(self) -> int:
        """The time of the slots that were held while ranks worked."""
        return sum(self.slots[part] for part in _WORK)

    @property
    def queue_us(self) -> int:
        """The time in queues."""
        return self.wall[QUEUE]


def seconds_by_class(parts: Sequence[int], *, is_held: bool = False) -> dict[TimeClass, float]:
    """Returns the seconds in each class. is_held: of what was held; the time after an attempt is in `stage` then."""
    sums = list(parts)
    if is_held:
        sums[_STAGE] += sums[AFTER]
    return {one: sums[number] / SECOND_US for number, one in enumerate(CLASSES)}


@dataclass(frozen=True)
class TimeRow:
    """The time of an attempt in a day, in microseconds: of each part. attempt: 0 = in the queue, and between two."""

    attempt: int
    since: int
    until: int
    slots: int
    gpus: int
    lengths: tuple[int, ...]


def day_rows(some: Iterable[TimePiece]) -> list[TimeRow]:
    """Returns the time of a job by attempt and day (UTC)."""
    days = Window(-(1 << 62), 1 << 62, 0, DAY_US)
    rows: dict[tuple[int, int], TimeRow] = {}
    for piece in some:
        for day, since, until in days.cuts(piece.since, piece.until):
            held = piece.slots, piece.gpus
            row = rows.get((piece.attempt, day)) or TimeRow(piece.attempt, since, until, *held, (0,) * PARTS)
            lengths = list(row.lengths)
            lengths[piece.part] += until - since
            span = min(row.since, since), max(row.until, until)
            sizes = max(row.slots, piece.slots), max(row.gpus, piece.gpus)
            rows[piece.attempt, day] = TimeRow(piece.attempt, *span, *sizes, tuple(lengths))
    return list(rows.values())


def add_row(sums: Amounts, row: TimeRow, busy: float | None, since: int, until: int) -> None:
    """Adds the share of a row between two times. Within a row, each class is taken as spread evenly."""
    whole, left, right = row.until - row.since, since - row.since, until - row.since
    for part, length in enumerate(row.lengths):
        share = length * right // whole - length * left // whole
        if share:
            is_held = part != QUEUE
            sums.add(part, share, row.slots * is_held, row.gpus * is_held, busy)


def percentile(values: Sequence[float], share: float) -> float | None:
    """Returns the smallest value that so many of the values don't exceed (nearest rank); None = there are none."""
    ordered = sorted(values)
    return ordered[max(0, -(-int(share * 1000) * len(ordered) // 1000) - 1)] if ordered else None


def mean_levels(changes: Sequence[tuple[int, float]], span: Window) -> dict[int, float]:
    """Returns the mean of a level in each bucket, from the times at which it changed, oldest first.

    Before the first change the level is unknown: those parts are left out, and buckets without any other are, too.
    """
    totals: dict[int, float] = {}
    lengths: dict[int, int] = {}
    for (since, level), (until, _) in pairwise([*changes, (span.until, 0.0)]):
        for bucket, start, end in span.cuts(since, until):
            totals[bucket] = totals.get(bucket, 0.0) + level * (end - start)
            lengths[bucket] = lengths.get(bucket, 0) + end - start
    return {bucket: total / lengths[bucket] for bucket, total in totals.items()}

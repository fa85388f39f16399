"""The table of the time of jobs that have ended, by attempt and day: written once, and summed by the database."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, and_, case, delete, func, insert, literal, not_, or_, select

from drumbeat.core.use_times import DAY_US, PARTS, Amounts, TimeRow, Window
from drumbeat.model.api.ledger import LedgerGroup, TimeClass
from drumbeat.server.database.records import BookedRow, BookedTimes
from drumbeat.server.database.schema import TIME_PARTS, job_times, jobs, reservations
from drumbeat.server.jobs import day_sum_tables as day_sums

_T = job_times.c
_LENGTHS = tuple(job_times.c[f"{one}_us"] for one in TIME_PARTS)
_IS_HELD = tuple(one != TimeClass.QUEUE for one in TIME_PARTS)
_HELD = sum((one for one, is_held in zip(_LENGTHS, _IS_HELD, strict=True) if is_held), literal(0))
_WORK = _T.train_us + _T.checkpoint_us
_BUSY = case((_T.gpus > 0, _WORK * _T.gpus * func.coalesce(_T.busy, 1.0)), else_=0.0)

Sums = dict[tuple[str, str, int], Amounts]
"""By name, compute and bucket."""

DATED = (LedgerGroup.DAY, LedgerGroup.WEEK)
"""Groups whose names are buckets of the window; a row lies in one of them."""

_NAMES: dict[LedgerGroup, ColumnElement[Any]] = {
    LedgerGroup.JOB: _T.job,
    LedgerGroup.EXPERIMENT: _T.experiment,
    LedgerGroup.USER: _T.person,
    **dict.fromkeys(DATED, literal("")),
    LedgerGroup.COMPUTE: _T.compute,
}


def unbooked(connection: Connection) -> list[str]:
    """Returns the jobs whose time isn't in the table, unfinished ones among them, oldest first."""
    chosen = select(jobs.c.name).where(jobs.c.number.not_in(select(_T.number))).order_by(jobs.c.number)
    return [*connection.scalars(chosen)]


def holders(connection: Connection) -> set[str]:
    """Returns the jobs that hold slots."""
    return set(connection.scalars(select(reservations.c.job).distinct()))


def book(connection: Connection, some: Sequence[BookedTimes]) -> None:
    """Writes the time of jobs that have ended, in place of what was written of them. Deleted jobs are left out."""
    columns = select(jobs.c.name, jobs.c.number, jobs.c.experiment, jobs.c.person)
    rows = {row.name: row for row in connection.execute(columns.where(jobs.c.name.in_([one.job for one in some])))}
    present = [one for one in some if one.job in rows]
    earlier = _T.number.in_([rows[one.job].number for one in present])
    day_sums.add(connection, [dict(row) for row in connection.execute(select(job_times).where(earlier)).mappings()], -1)
    connection.execute(delete(job_times).where(earlier))
    written = [
        {
            "number": job.number, "job": one.job, "compute": one.compute, "experiment": job.experiment,
            "person": job.person, "attempt": row.attempt, "since": row.since, "until": row.until, "slots": row.slots,
            "gpus": row.gpus, "busy": one.busy,
            **{f"{part}_us": length for part, length in zip(TIME_PARTS, row.lengths, strict=True)},
        }
        for one in present
        for job in [rows[one.job]]
        for row in one.rows or (TimeRow(0, 0, 0, 0, 0, (0,) * PARTS),)
    ]  # fmt: skip
    if written:
        connection.execute(insert(job_times), written)
        day_sums.add(connection, written, 1)


def sums(connection: Connection, span: Window, by: LedgerGroup, compute: str = "", largest: int | None = None) -> Sums:
    """Returns the sums of the rows that lie within one bucket of the window. compute: "" = of all.

    largest: of so many jobs alone.
    """
    days = day_sums.whole_days(span) if by in day_sums.KINDS else range(0)
    result: Sums = {}
    if days:
        _add_sums(result, _rows(connection, day_sums.query(span, by, compute)))
    # Rows of equal size are summed by the database: multiplying each of their parts would take it as long again.
    keys = _NAMES[by].label("name"), _T.compute, _bucket(span).label("bucket"), _T.slots, _T.gpus
    query = select(*keys, *(func.sum(one) for one in _LENGTHS), func.sum(_BUSY)).where(
        _is_within(span), *_of_compute(compute), *_of_largest(connection, span, largest), *_beside(days, span)
    )
    _add_sums(result, _rows(connection, query.group_by("name", _T.compute, "bucket", _T.slots, _T.gpus)))
    return result


def _add_sums(result: Sums, rows: Iterable[Sequence[Any]]) -> None:
    for name, compute, bucket, slots, gpus, *lengths, busy in rows:
        if not any(lengths):  # Those of a job that was booked otherwise later.
            continue
        amounts = result.setdefault((name, compute, int(bucket)), Amounts())
        amounts.busy_gpus += float(busy)
        for part, (length, is_held) in enumerate(zip(lengths, _IS_HELD, strict=True)):
            amounts.wall[part] += int(length)
            amounts.slots[part] += int(length) * slots * is_held
            amounts.gpus[part] += int(length) * gpus * is_held


def rows_across(
    connection: Connection, span: Window, by: LedgerGroup, compute: str = "", largest: int | None = None
) -> list[BookedRow]:
    """Returns the rows of which a part lies in the window, or that lie in several of its buckets."""
    where = _touches(span), *_of_compute(compute), *_of_largest(connection, span, largest)
    across = or_(_cross(span.since), _cross(span.until)) if day_sums.has_whole_days(span) else not_(_is_within(span))
    return _booked_rows(connection, _row_columns(by).where(*where, across))


def most_unused(connection: Connection, span: Window, compute: str, limit: int) -> list[BookedRow]:
    """Returns the rows in a window of the jobs that held the most without use in those rows; of so many jobs."""
    unused = func.sum(_HELD * _T.gpus - _BUSY).desc(), func.sum((_HELD - _WORK) * _T.slots).desc()
    where = _touches(span), *_of_compute(compute)
    first = select(_T.number).where(*where).group_by(_T.number).order_by(*unused).limit(limit)
    numbers = [*connection.scalars(first)]
    return _booked_rows(connection, _row_columns(LedgerGroup.JOB).where(_T.number.in_(numbers), *where))


def _row_columns(by: LedgerGroup) -> Select[*tuple[Any, ...]]:
    columns = _NAMES[by].label("name"), _T.compute, _T.busy, _T.attempt, _T.since, _T.until, _T.slots, _T.gpus
    return select(*columns, *_LENGTHS)


def _booked_rows(connection: Connection, query: Select[*tuple[Any, ...]]) -> list[BookedRow]:
    rows = [[*row] for row in _rows(connection, query)]
    return [
        BookedRow(name, compute, TimeRow(attempt, since, until, slots, gpus, tuple(lengths)), busy)
        for name, compute, busy, attempt, since, until, slots, gpus, *lengths in rows
    ]


def job_counts(connection: Connection, span: Window, by: LedgerGroup) -> tuple[dict[str, int], int]:
    """Returns how many of the jobs have time in the window, by name, and all together."""
    if by in DATED:
        return _dated_counts(connection, span)
    counted = select(_NAMES[by].label("name"), func.count(_T.number.distinct())).where(_touches(span)).group_by("name")
    counts = {str(row[0]): int(row[1]) for row in _rows(connection, counted)}
    return counts, sum(counts.values())


def _dated_counts(connection: Connection, span: Window) -> tuple[dict[str, int], int]:
    """Counts each job in every bucket from its first to its last: the time of a job has no gaps."""
    times = select(func.min(_T.since).label("since"), func.max(_T.until).label("until"))
    jobs = times.where(_touches(span)).group_by(_T.number).subquery()
    ends = (jobs.c.since - span.origin) // span.width, (jobs.c.until - 1 - span.origin) // span.width
    counts: dict[str, int] = {}
    total, buckets = 0, span.buckets
    pairs = select(ends[0].label("first"), ends[1].label("last"), func.count()).group_by("first", "last")
    for first, last, count in _rows(connection, pairs):
        total += count
        for bucket in range(max(first, buckets.start), min(last + 1, buckets.stop)):
            counts[str(bucket)] = counts.get(str(bucket), 0) + count
    return counts, total


def waits(connection: Connection, span: Window, compute: str) -> list[int]:
    """Returns how long each job was in queues on the days of the window. compute: "" = of any."""
    chosen = _touches(span), or_(_T.attempt == 0, _T.queue_us > 0), *_of_compute(compute)
    return [int(one) for one in connection.scalars(select(func.sum(_T.queue_us)).where(*chosen).group_by(_T.number))]


def _rows(connection: Connection, query: Select[*tuple[Any, ...]]) -> Iterable[Sequence[Any]]:
    return connection.execute(query)


def _of_largest(connection: Connection, span: Window, largest: int | None) -> list[ColumnElement[bool]]:
    """Returns the condition that a row is of one of the jobs that held the most on the days of the window."""
    if largest is None:
        return []
    order = func.sum(_HELD * _T.gpus).desc(), func.sum(_HELD * _T.slots).desc(), func.sum(_T.until - _T.since).desc()
    chosen = select(_T.number).where(_touches(span)).group_by(_T.number).order_by(*order).limit(largest)
    return [_T.number.in_([*connection.scalars(chosen)])]


def _of_compute(compute: str) -> list[ColumnElement[bool]]:
    return [_T.compute == compute] if compute else []


def _touches(span: Window) -> ColumnElement[bool]:
    return and_(_T.until > span.since, _T.since < span.until)


def _cross(at: int) -> ColumnElement[bool]:
    """Whether a row, which is of one day, lies across a time."""
    return and_(_T.until > at, _T.until < at + DAY_US, _T.since < at)


def _beside(days: range, span: Window) -> list[ColumnElement[bool]]:
    """Returns the condition that a row isn't of these days; as ranges of an index."""
    if not days:
        return []
    before = and_(_T.until > span.since, _T.until <= days.start * DAY_US)
    return [or_(before, and_(_T.until > days.stop * DAY_US, _T.until <= span.until))]


def _bucket(span: Window) -> ColumnElement[int]:
    """Returns the bucket that a row begins in."""
    return literal(span.buckets[0]) if len(span.buckets) == 1 else (_T.since - span.origin) // span.width


def _is_within(span: Window) -> ColumnElement[bool]:
    is_inside = and_(_T.since >= span.since, _T.until <= span.until, _T.until > _T.since)
    if day_sums.has_whole_days(span):
        return is_inside
    return and_(is_inside, _bucket(span) == (_T.until - 1 - span.origin) // span.width)

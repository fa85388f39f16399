"""The ledger of many jobs: where their wall time went, what they held meanwhile, and what that cost."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import groupby

from drumbeat.core.use_times import AFTER, SECOND_US, Amounts, Window, from_us, seconds_by_class, window
from drumbeat.model.api.ledger import LedgerGroup, LedgerRow, LedgerView
from drumbeat.model.api.use import Price
from drumbeat.server.jobs.time_book import Summary, TimeBook
from drumbeat.server.jobs.time_tables import DATED
from drumbeat.server.loop.loop import Loop

DEFAULT_AGE = timedelta(days=30)
"""Time before is left out, unless jobs are named or another time is given."""

UNKNOWN = "unknown"
"""The user of jobs that were submitted before servers knew users."""

_BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)
_WIDTHS = {LedgerGroup.DAY: timedelta(days=1), LedgerGroup.WEEK: timedelta(weeks=1)}
_HOUR_US = 3600 * SECOND_US


class Ledger:
    """Sums up where the wall time of jobs went, and what they held. Thread-safe.

    title: returns the current name of a job's experiment. prices: returns those of computes, by name.
    """

    def __init__(
        self, loop: Loop, book: TimeBook, title: Callable[[str], str], prices: Callable[[], Mapping[str, Price]]
    ) -> None:
        self._loop, self._book, self._title, self._prices = loop, book, title, prices

    def read(
        self,
        by: LedgerGroup,
        since: datetime | None,
        names: Sequence[str] = (),
        until: datetime | None = None,
        limit: int | None = None,
    ) -> LedgerView:
        """Returns the ledger of the named jobs and their children, or else of all jobs.

        since: time before is left out; None = 30 days ago. Ignored if names are given, as is until: time after is left
        out; None = now. limit: the most rows. Raises NotFoundError for a name that no job has.
        """
        for name in names:
            self._loop.record(name)
        now = self._loop.clock.now()
        end = now if names or until is None else min(until, now)
        start = _BEGINNING if names else since or now - DEFAULT_AGE
        span = window(start, end, _WIDTHS.get(by), from_monday=by is LedgerGroup.WEEK)
        largest = limit if by is LedgerGroup.JOB and not names else None
        times = self._book.summary(span, by, names, largest)
        whole = self._book.summary(span, LedgerGroup.COMPUTE) if largest else times
        prices = self._prices()
        rows = _sorted(_rows(times, by, span, prices, self._title), by)
        total = _row("", whole.total, whole.sums.items(), prices)
        currency = next((one.currency for one in prices.values()), "")
        return LedgerView(by, None if names else start, tuple(rows[:limit]), total, end, currency)


def _rows(
    times: Summary, by: LedgerGroup, span: Window, prices: Mapping[str, Price], title: Callable[[str], str]
) -> Iterable[LedgerRow]:
    titles = {name: title(name) for name in times.jobs} if by is LedgerGroup.EXPERIMENT else {}

    def name_of(name: str, bucket: int) -> str:
        if by in DATED:
            return f"{from_us(span.start(bucket)):%Y-%m-%d}"
        if by is LedgerGroup.USER:
            return name or UNKNOWN
        return titles.get(name, name)

    jobs: dict[str, int] = {}
    for key, count in times.jobs.items():
        name = name_of("", int(key)) if by in DATED else name_of(key, 0)
        jobs[name] = jobs.get(name, 0) + count
    sums = sorted(
        ((name_of(name, bucket), (name, compute, bucket), one) for (name, compute, bucket), one in times.sums.items()),
        key=lambda one: one[0],
    )
    for name, some in groupby(sums, key=lambda one: one[0]):
        yield _row(name, jobs.get(name, 0), ((key, one) for _, key, one in some), prices)


def _row(
    name: str, jobs: int, some: Iterable[tuple[tuple[str, str, int], Amounts]], prices: Mapping[str, Price]
) -> LedgerRow:
    sums, cost = Amounts(), 0.0
    for (_, compute, _), one in some:
        sums.add_all(one)
        if price := prices.get(compute):
            cost += (one.gpu_us * price.gpu_hour + one.slot_us * price.slot_hour) / _HOUR_US
    return LedgerRow(
        name,
        jobs,
        sums.wall_us / SECOND_US,
        seconds_by_class(sums.wall[:AFTER]),
        sums.slot_us / SECOND_US,
        sums.gpu_us / SECOND_US,
        seconds_by_class(sums.slots, is_held=True),
        seconds_by_class(sums.gpus, is_held=True),
        round(sums.busy_gpus / SECOND_US, 6),
        round(cost, 6) if prices else None,
    )


def _sorted(rows: Iterable[LedgerRow], by: LedgerGroup) -> list[LedgerRow]:
    """Sorts days and weeks from the newest, and other rows from those that held the most."""
    if by in DATED:
        return sorted(rows, key=lambda row: row.name, reverse=True)
    return sorted(rows, key=lambda row: (-row.gpu_s, -row.slot_s, -row.wall_s, row.name))

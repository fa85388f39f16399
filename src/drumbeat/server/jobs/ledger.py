"""The ledger of many jobs: sums their wall time from their events."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from types import MappingProxyType

from drumbeat.core import ledger_times
from drumbeat.core.ledger_times import Save, Stretch
from drumbeat.model.api.ledger import LedgerGroup, LedgerRow, LedgerView, TimeClass
from drumbeat.server.database.records import History
from drumbeat.server.loop.loop import Loop

DEFAULT_AGE = timedelta(days=30)
"""Jobs that ended earlier are left out, unless they are named or another time is given."""

UNKNOWN = "unknown"
"""The user of jobs that were submitted before servers knew users."""

Parts = list[tuple[str, list[Stretch]]]
"""The contributions of a job to a ledger: names of rows, and its stretches of wall time in each."""


class Ledger:
    """Sums up where the wall time of jobs went. Thread-safe.

    title: returns the current name of a job's experiment. saves: returns the checkpoints of jobs, by job.
    """

    def __init__(
        self, loop: Loop, title: Callable[[str], str], saves: Callable[[Sequence[str]], Mapping[str, list[Save]]]
    ) -> None:
        self._loop, self._title, self._saves = loop, title, saves

    def read(self, by: LedgerGroup, since: datetime | None, names: Sequence[str] = ()) -> LedgerView:
        """Returns the ledger of the named jobs and their children, or else of all jobs.

        since: leaves out jobs that ended earlier; None = 30 days ago. Ignored if names are given. Raises NotFoundError
        for a name that no job has.
        """
        for name in names:
            self._loop.record(name)
        now = self._loop.clock.now()
        oldest = None if names else since or now - DEFAULT_AGE
        histories = self._loop.store.histories(names, oldest)
        if by is LedgerGroup.EXPERIMENT:
            titles = {name: self._title(name) for name in {one.experiment for one in histories}}
            histories = [replace(one, experiment=titles[one.experiment]) for one in histories]
        saves = self._saves([one.job for one in histories])
        return summed(histories, by, now, oldest, saves)


def summed(
    histories: Iterable[History],
    by: LedgerGroup,
    now: datetime,
    since: datetime | None,
    saves: Mapping[str, list[Save]] = MappingProxyType({}),
) -> LedgerView:
    """Returns the ledger of these jobs without sweeps and pipelines. saves: checkpoints by job."""
    parts: dict[str, list[Stretch]] = {}
    jobs: dict[str, set[str]] = {}
    for history in histories:
        if not ledger_times.is_parent(history.events):
            for name, stretches in _PARTS[by](history, _stretches(history, now, saves)):
                parts.setdefault(name, []).extend(stretches)
                jobs.setdefault(name, set()).add(history.job)
    rows = [_row(name, len(jobs[name]), stretches) for name, stretches in parts.items()]
    total = _row("", len(set[str]().union(*jobs.values())), [one for some in parts.values() for one in some])
    return LedgerView(by, since, tuple(_sorted(rows, by)), total)


def _stretches(history: History, now: datetime, saves: Mapping[str, list[Save]]) -> list[Stretch]:
    return ledger_times.stretches(history.events, now, saves.get(history.job, ()))


def _sorted(rows: list[LedgerRow], by: LedgerGroup) -> list[LedgerRow]:
    """Sorts weeks from the newest, and other rows from the longest wall time."""
    if by is LedgerGroup.WEEK:
        return sorted(rows, key=lambda row: row.name, reverse=True)
    return sorted(rows, key=lambda row: (-row.wall_s, row.name))


def _row(name: str, jobs: int, stretches: list[Stretch]) -> LedgerRow:
    seconds: dict[TimeClass, float] = {
        time_class: length.total_seconds() for time_class, length in ledger_times.by_class(stretches).items()
    }
    return LedgerRow(name, jobs, sum(seconds.values()), seconds)


def _of_weeks(_history: History, stretches: list[Stretch]) -> Parts:
    return [(f"{monday:%Y-%m-%d}", some) for monday, some in ledger_times.in_weeks(stretches).items()]


_PARTS: dict[LedgerGroup, Callable[[History, list[Stretch]], Parts]] = {
    LedgerGroup.JOB: lambda history, stretches: [(history.job, stretches)],
    LedgerGroup.EXPERIMENT: lambda history, stretches: [(history.experiment, stretches)],
    LedgerGroup.USER: lambda history, stretches: [(history.user or UNKNOWN, stretches)],
    LedgerGroup.WEEK: _of_weeks,
}

"""What `ledger` prints."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from drumbeat.cli.terminal.formatting import say_duration
from drumbeat.cli.terminal.screen import cell, fitted
from drumbeat.protocol.api.ledger import LedgerGroup, LedgerRow, LedgerView, TimeClass

if TYPE_CHECKING:
    from rich.table import Table


def ledger_table(view: LedgerView, width: int) -> Table:
    """A row for each job, experiment, person or week, and their total; a column for each class that has any time."""
    shown = [one for one in TimeClass if view.total.seconds.get(one, 0.0) > 0]
    titles = [str(view.by), ">wall", *(f">{one}" for one in shown), "most of it"]
    rows = [_cells(row, shown) for row in view.rows]
    if len(rows) > 1:
        rows.append([cell("total", "bold"), *_cells(view.total, shown)[1:]])
    if view.by is not LedgerGroup.JOB:
        titles.insert(1, ">jobs")
        counts = [*(row.jobs for row in view.rows), view.total.jobs]
        for cells, count in zip(rows, counts, strict=False):
            cells.insert(1, count)
    return fitted(titles, rows, width, ("most of it",))


def _cells(row: LedgerRow, shown: list[TimeClass]) -> list[object]:
    lengths = [_say(row.seconds.get(one, 0.0)) for one in shown]
    most = max(shown, key=row.share, default=TimeClass.TRAIN)
    return [row.name, _say(row.wall_s), *lengths, f"{most} {row.share(most):.0%}"]


def _say(seconds: float) -> str:
    return say_duration(timedelta(seconds=seconds)) if seconds else ""

"""Makes tables and texts for rich: here alone its console is made, and untrusted text becomes cells.

rich is imported on first use: commands import this module at their top, and most print no table.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from drumbeat.cli.terminal.untrusted_text import make_safe
from drumbeat.model.states import State

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

SENTENCE, BETWEEN = 24, 3
"""The least columns for a readable sentence; the space between two columns of a table."""

PIPED_WIDTH = 160
"""Columns where the output isn't a terminal."""


def make_console() -> Console:
    """Returns a console on standard output. Colour and width follow the terminal, NO_COLOR and COLUMNS."""
    from rich.console import Console

    width = None if sys.stdout.isatty() or os.environ.get("COLUMNS") else PIPED_WIDTH
    return Console(width=width, highlight=False, markup=False, emoji=False)


def show(*parts: RenderableType) -> None:
    """Prints the parts one below the other, without the padding of tables."""
    from rich.text import Text

    console = make_console()
    with console.capture() as captured:
        for part in parts:
            console.print(part, soft_wrap=isinstance(part, Text))
    print("\n".join(line.rstrip(" ") for line in captured.get().splitlines()))


def cell(value: object, style: str = "") -> Text:
    """Returns any value as text that is safe for the terminal; None is empty."""
    from rich.text import Text

    return Text("" if value is None else "\n".join(make_safe(line) for line in str(value).split("\n")), style=style)


def indented(value: object) -> Padding:
    """Returns a cell that is indented by two columns in each of its lines."""
    from rich.padding import Padding

    return Padding(cell(value), (0, 0, 0, 2))


def make_table(*titles: str) -> Table:
    """Returns a table with these headings; one that begins with `>` is aligned right."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, header_style="bold", pad_edge=False, show_edge=False)
    for title in titles:
        is_right = title.startswith(">")
        table.add_column(title.removeprefix(">"), justify="right" if is_right else "left", overflow="fold")
    return table


def fill_table(table: Table, rows: Iterable[Iterable[object]]) -> Table:
    """Adds the rows to a table, and returns it."""
    from rich.text import Text

    for row in rows:
        table.add_row(*(value if isinstance(value, Text) else cell(value) for value in row))
    return table


def fitted(titles: Sequence[str], rows: Iterable[Sequence[object]], width: int, dropped: Sequence[str]) -> Table:
    """Returns a table with one line a row and the columns that fit.

    dropped: columns that may be left out, the first one first. The last column has sentences: it wants `SENTENCE`
    columns, and a sentence that is longer than the room for it ends in `…`.
    """
    from rich.cells import cell_len
    from rich.text import Text

    cells = [[value if isinstance(value, Text) else cell(value) for value in row] for row in rows]
    for row in cells:
        row[-1] = Text(" ".join(row[-1].plain.split()), style=row[-1].style)
    wanted = [
        max(map(cell_len, [title.removeprefix(">"), *(row[n].plain for row in cells)]))
        for n, title in enumerate(titles)
    ]
    wanted[-1] = min(wanted[-1], SENTENCE)
    kept = list(range(len(titles)))
    for title in dropped:
        if sum(wanted[n] + BETWEEN for n in kept) - BETWEEN > width:
            kept.remove(titles.index(title))
    room = width - sum(wanted[n] + BETWEEN for n in kept[:-1])
    if kept[-1] == len(titles) - 1:
        for row in cells:
            row[-1].truncate(max(room, 1), overflow="ellipsis")
    return fill_table(make_table(*(titles[n] for n in kept)), [[row[n] for n in kept] for row in cells])


def heading(title: str) -> Text:
    """Returns the heading of a part of a page."""
    from rich.text import Text

    return Text(f"\n{title}", style="bold")


def pairs(rows: Iterable[tuple[str, object]]) -> Table:
    """Returns names and values in two columns; empty values are left out."""
    from rich.table import Table

    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    return fill_table(table, [(name, value) for name, value in rows if value not in (None, "", ())])


STATE_STYLES: dict[str, str] = {
    State.COMPLETED: "green",
    State.FAILED: "red",
    State.CANCELED: "yellow",
    State.RUNNING: "cyan",
    State.STOPPING: "yellow",
}


def state_cell(state: str) -> Text:
    """Returns a state in its colour."""
    return cell(state, STATE_STYLES.get(state, ""))

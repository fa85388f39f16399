"""What was seen of each cell in its last run: kept as JSON beside the page, so that a partial run changes its part."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from tools.matrix.runs import Cell

Table = dict[str, dict[tuple[str, int], Cell]]
"""By row, then by engine and number of nodes."""


@dataclass(frozen=True)
class Seen:
    """A cell and its place, as a line of the file."""

    row: str
    engine: str
    nodes: int
    accuracy: float
    seconds: float
    trouble: str


def file_of(page: Path) -> Path:
    """The records of a page."""
    return page.with_suffix(".json")


def read_records(page: Path) -> Table:
    """All that was seen; empty when there is no file."""
    file = file_of(page)
    table: Table = {}
    for one in json.loads(file.read_text()) if file.exists() else ():
        seen = Seen(**one)
        table.setdefault(seen.row, {})[seen.engine, seen.nodes] = Cell(seen.accuracy, seen.seconds, seen.trouble)
    return table


def write_records(page: Path, table: Table) -> None:
    """One cell a line, so that changes can be read."""
    lines = [
        json.dumps(asdict(Seen(row, engine, nodes, round(cell.accuracy, 4), round(cell.seconds, 1), cell.trouble)))
        for row, cells in table.items()
        for (engine, nodes), cell in cells.items()
    ]
    file_of(page).write_text("[\n" + ",\n".join(lines) + "\n]\n")

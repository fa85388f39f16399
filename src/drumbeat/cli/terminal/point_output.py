"""Points of metrics for other programs, written as they come: there may be millions."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterable

from drumbeat.cli.terminal.untrusted_text import make_safe
from drumbeat.protocol.wire import to_wire

COLUMNS = ("name", "rank", "step", "value", "at")


def print_points(points: Iterable[dict[str, object]], *, is_csv: bool) -> None:
    """Prints points as CSV with a header, or as a JSON list with one point on a line.

    CSV leaves names as they are for a program, and spells out what they could do to a terminal.
    """
    if is_csv:
        show = make_safe if sys.stdout.isatty() else str
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(COLUMNS)
        rows = ([to_wire(point[column]) for column in COLUMNS] for point in points)
        writer.writerows([show(one) if isinstance(one, str) else one for one in row] for row in rows)
        return
    before = "["
    for point in points:
        print(f"{before}\n  {json.dumps(to_wire(point))}", end="")
        before = ","
    print("\n]" if before == "," else "[]")

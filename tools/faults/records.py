"""What is kept of each row and each curve, so that a run of some of them leaves the others on the page."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tools.faults.curves import Curve
from tools.faults.scene import Seen


@dataclass
class Played:
    """A row, and what was seen. load: of the machine, when it was played."""

    name: str
    ours: list[Seen] = field(default_factory=list[Seen])
    theirs: list[Seen] = field(default_factory=list[Seen])
    load: float = 0.0

    @property
    def verdict(self) -> str:
        """green, red or later."""
        if any(seen.is_right is False for seen in self.ours):
            return "red"
        return "later" if any(seen.is_right is None for seen in self.ours) else "green"


@dataclass
class Kept:
    """All that is kept. file: beside the page. rows: by name. curves: by fault and engine. incidents: their section."""

    file: Path
    rows: dict[str, Played] = field(default_factory=dict[str, Played])
    curves: dict[tuple[str, str], Curve] = field(default_factory=dict[tuple[str, str], Curve])
    incidents: str = ""

    def save(self) -> None:
        """Writes it."""
        known: dict[str, Any] = {
            "rows": [asdict(one) for one in self.rows.values()],
            "curves": [asdict(one) for one in self.curves.values()],
            "incidents": self.incidents,
        }
        self.file.write_text(json.dumps(known, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def load(file: Path) -> Kept:
    """Returns what is kept there."""
    kept = Kept(file)
    if file.exists():
        known = json.loads(file.read_text(encoding="utf-8"))
        for row in known["rows"]:
            kept.rows[row["name"]] = Played(row["name"], _seen(row["ours"]), _seen(row["theirs"]), row["load"])
        for one in known["curves"]:
            kept.curves[one["hit"], one["engine"]] = Curve(**one)
        kept.incidents = known["incidents"]
    return kept


def _seen(known: Sequence[dict[str, Any]]) -> list[Seen]:
    return [Seen(**one) for one in known]


def load_of_machine() -> float:
    """Returns its load average of the last minute."""
    return round(os.getloadavg()[0], 1)

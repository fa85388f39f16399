"""`python -m tools.durations [thorough] JUNIT…`: writes tests/durations.toml, the order of the lanes, from runs.

`.ci/run` leaves such a file in `$TESTS_KEPT/junit.xml`. Lanes that the files don't name keep the seconds they have.
`make thorough` has a table of its own, since other lanes are the longest there; its files come of
`OPTIONS=--junitxml=FILE`.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections import defaultdict
from pathlib import Path
from xml.etree import ElementTree as ET

PAGE = Path(__file__).parents[1] / "tests" / "durations.toml"
HEAD = """\
# Seconds of each lane of tests; for tests without a lane, of the longest one in the file. Written by
# `python -m tools.durations` from a run on a loaded machine or a quiet one: only their order counts.
# [thorough] is of `make thorough`, where a lane that isn't in it has its seconds of the first table.
"""
MIN_S = 2.0
"""Shorter lanes are left out: they fill the gaps at the end."""
_LANE = re.compile(r"@([\w-]+)$")


def main(words: list[str]) -> int:
    """Merges the runs into a table; a later file has the last word."""
    table, files = ("thorough", words[1:]) if words[:1] == ["thorough"] else ("seconds", words)
    known = tomllib.loads(PAGE.read_text(encoding="utf-8"))
    for file in files:
        known[table] |= seconds_by_lane(Path(file))
    PAGE.write_text(HEAD + "\n".join(_written(name, known[name]) for name in ("seconds", "thorough")), encoding="utf-8")
    return 0


def _written(table: str, seconds: dict[str, float]) -> str:
    rows = sorted(((lane, s) for lane, s in seconds.items() if lane and s >= MIN_S), key=lambda row: (-row[1], row[0]))
    return f"[{table}]\n" + "".join(f"{lane} = {round(s)}\n" for lane, s in rows)


def seconds_by_lane(file: Path) -> dict[str, float]:
    """Seconds of each lane that a JUnit file of pytest-xdist names, and of the longest test of each other file."""
    found: dict[str, float] = defaultdict(float)
    for case in ET.parse(file).iter("testcase"):  # noqa: S314 - pytest's own file
        name, seconds = case.get("name") or "", float(case.get("time") or 0)
        if lane := _LANE.search(name):
            found[lane[1]] += seconds
        else:
            stem = stem_of(case.get("classname") or "")
            found[stem] = max(found[stem], seconds)
    return dict(found)


def stem_of(classname: str) -> str:
    """`tests.unit.test_x.TestY` → `test_x`."""
    return next((part for part in classname.split(".") if part.startswith("test_")), "")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

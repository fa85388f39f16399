"""`python -m tools.durations JUNIT…`: writes tests/durations.toml, the order of the lanes, from runs of the suite.

`.ci/run` leaves such a file in `$TESTS_KEPT/junit.xml`. Lanes that the files don't name keep the seconds they have.
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
[seconds]
"""
MIN_S = 2.0
"""Shorter lanes are left out: they fill the gaps at the end."""
_LANE = re.compile(r"@([\w-]+)$")


def main(files: list[str]) -> int:
    """Merges the runs into the table; a later file has the last word."""
    known = tomllib.loads(PAGE.read_text(encoding="utf-8"))["seconds"]
    for file in files:
        known |= seconds_by_lane(Path(file))
    rows = sorted(((lane, s) for lane, s in known.items() if lane and s >= MIN_S), key=lambda row: (-row[1], row[0]))
    PAGE.write_text(HEAD + "".join(f"{lane} = {round(s)}\n" for lane, s in rows), encoding="utf-8")
    return 0


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

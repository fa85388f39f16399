"""The page of faults: a run of some rows leaves the others, and what isn't equal is said."""

from __future__ import annotations

from pathlib import Path

from tools.faults import records
from tools.faults.__main__ import publish
from tools.faults.curves import Curve
from tools.faults.fault_list import NETWORKED, ROWS
from tools.faults.records import Played
from tools.faults.scene import Seen
from tools.faults.targets import HITS


def test_a_row_that_is_played_again_replaces_itself_and_leaves_the_rest(tmp_path: Path):
    page = tmp_path / "faults.md"
    first, second = ROWS[0], NETWORKED[0]
    publish(page, Played(first.name, [Seen("it was told", 1.0)], [Seen("nothing")], 2.0))
    publish(page, Played(second.name, [Seen("it hung", None, is_right=False)], [], 3.0))
    publish(page, "\n## Who was the cause\n\nRank 1.\n")
    before = page.read_text(encoding="utf-8")
    assert f"| {second.name} | it hung | 1 |  | **red** | – |  | 3 |" in before
    publish(page, Played(second.name, [Seen("it went on", 2.0)], [], 4.0))
    after = page.read_text(encoding="utf-8")
    assert f"| {first.name} | it was told | 1 | 1.00 | **green** | nothing |  | 2 |" in after
    assert f"| {second.name} | it went on | 1 | 2.00 | **green** | – |  | 4 |" in after
    assert "it hung" not in after
    assert after.endswith("\n## Who was the cause\n\nRank 1.\n")


def test_curves_say_equal_with_the_step_or_what_differs(tmp_path: Path):
    page = tmp_path / "faults.md"
    hit = HITS[0].name
    publish(page, Curve(hit, "local", is_equal=True, said="", step=12, resumed=11, restarts=1, steps=34))
    publish(page, Curve(hit, "netlab", is_equal=False, said="loss of rank 2 differs from step 19 on"))
    line = next(one for one in page.read_text(encoding="utf-8").splitlines() if one.startswith(f"| {hit} | equal"))
    assert line == (
        f"| {hit} | equal (once, from step 11 of 34) | **not equal**: loss of rank 2 differs from step 19 on | "
        "not played yet |"
    )


def test_the_repository_s_page_is_what_is_kept_beside_it():
    kept = records.load(Path("docs/faults.json"))
    assert {*kept.rows} <= {row.name for row in ROWS}
    assert {*kept.curves} <= {(hit.name, engine) for hit in HITS for engine in hit.engines}

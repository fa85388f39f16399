"""Runs cases of the labelled set, and writes docs/hang-set.md and the facts for unit tests.

Every second case is kept for judging: nothing is changed because of its verdict. A run of some cases replaces what is
kept of these.
"""

from __future__ import annotations

import argparse
import os
import sys

from tools.hangs import records, scene
from tools.hangs.case import Case, judged
from tools.hangs.hung import HANGS
from tools.hangs.report import page
from tools.hangs.scene import Finding
from tools.hangs.working import WORKING


def main() -> int:
    """Runs what is asked for; returns 1 if a verdict was wrong."""
    parser = argparse.ArgumentParser(prog="python -m tools.hangs")
    parser.add_argument("words", nargs="*", help="run only cases with one of these in their names")
    parser.add_argument("--half", choices=("tuned", "judged"), help="run only this half")
    chosen = parser.parse_args()
    kept = records.load()
    is_right = True
    for case in selected(chosen.words, chosen.half):
        finding = _run(case)
        is_right &= finding.is_right
        kept[case.name] = records.record(finding)
        records.save(kept)
        records.PAGE.write_text(page(kept), encoding="utf-8")
    return int(not is_right)


def selected(words: list[str], half: str | None) -> list[Case]:
    """Returns the cases that this machine can run, of those that are chosen."""
    cases = [case for case in (*HANGS, *WORKING) if case.needs != "root" or os.geteuid() == 0]
    if words:
        cases = [case for case in cases if any(word in case.name for word in words)]
    kept = judged(HANGS) | judged(WORKING)
    return [case for case in cases if not half or (case.name in kept) == (half == "judged")]


def _run(case: Case) -> Finding:
    try:
        finding = scene.run(case, scene.find_program())
    except TimeoutError as error:
        finding = scene.failed(case, error)
    mark = "right" if finding.is_right else "WRONG"
    print(f"{mark} {case.name}: {finding.verdict.stillness} {finding.verdict.sentence}", flush=True)
    return finding


if __name__ == "__main__":
    sys.exit(main())

"""Runs the labelled set, prints what was wrong, and writes docs/hang-set.md and the facts for unit tests.

Half of the set was written down first and looked at only when it was judged: every second case.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from pathlib import Path

from drumbeat.protocol import wire
from tools.hangs import scene
from tools.hangs.case import Case
from tools.hangs.hung import HANGS
from tools.hangs.report import page
from tools.hangs.scene import Finding
from tools.hangs.working import WORKING

PAGE = Path("docs/hang-set.md")
RECORDED = Path("tests/unit/core/hang_facts.json")


def main() -> int:
    """Runs what is asked for; returns 1 if a verdict was wrong."""
    parser = argparse.ArgumentParser(prog="python -m tools.hangs")
    parser.add_argument("words", nargs="*", help="run only cases with one of these in their names, and write nothing")
    parser.add_argument("--half", choices=("tuned", "judged"), help="run only this half, and write nothing")
    chosen = parser.parse_args()
    findings = [_run(case) for case in selected(chosen.words, chosen.half)]
    wrong = [one for one in findings if not one.is_right]
    print(f"{len(findings) - len(wrong)} of {len(findings)} right")
    if not chosen.words and not chosen.half:
        PAGE.write_text(page(findings), encoding="utf-8")
        RECORDED.write_text(json.dumps([_recorded(one) for one in findings], indent=1) + "\n", encoding="utf-8")
    return int(bool(wrong))


def selected(words: list[str], half: str | None) -> list[Case]:
    """Returns the cases that this machine can run, of those that are chosen."""
    cases = [case for case in (*HANGS, *WORKING) if case.needs != "root" or os.geteuid() == 0]
    if words:
        cases = [case for case in cases if any(word in case.name for word in words)]
    judged = {case.name for part in (HANGS, WORKING) for case in part[1::2]}
    return [case for case in cases if not half or (case.name in judged) == (half == "judged")]


def _run(case: Case) -> Finding:
    try:
        finding = scene.run(case, scene.find_program())
    except TimeoutError as error:
        finding = scene.failed(case, error)
    mark = "right" if finding.is_right else "WRONG"
    print(f"{mark} {case.name}: {finding.verdict.stillness} {finding.verdict.sentence}", flush=True)
    return finding


def _recorded(finding: Finding) -> dict[str, object]:
    """Returns what a unit test judges again, without the paths of this machine."""
    text = json.dumps(wire.to_wire(finding.facts.answers))
    text = re.sub(r'/[^"]*?/site-packages/', "/env/lib/python3/site-packages/", text)
    text = re.sub(r'/[^"]*?/lib/python3[.]\d+/', "/usr/lib/python3/", text)
    text = re.sub(r'/[^"]*?/train[.]py', "/job/train.py", text)
    text = re.sub(r'"command": "[^"]*"', '"command": "python /job/train.py"', text)
    case, verdict = finding.case, finding.verdict
    said = {"stillness": verdict.stillness.value, "sentence": verdict.sentence, "rank": verdict.rank}
    return {"case": case.name, "ranks": case.ranks, "answers": json.loads(text), "verdict": said}


if __name__ == "__main__":
    sys.exit(main())

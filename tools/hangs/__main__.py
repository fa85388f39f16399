"""Runs cases of the labelled set, and writes docs/hang-set.md and the facts for unit tests.

Every second case is kept for judging: nothing is changed because of its verdict. A run of some cases replaces what is
kept of these.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from bench.start import describe_machine
from tools.hangs import on_gpu, records, scene
from tools.hangs.case import NEEDS_ROOT, Case, judged
from tools.hangs.hung import HANGS
from tools.hangs.report import gpu_page, page
from tools.hangs.scene import Finding
from tools.hangs.working import WORKING


def main() -> int:
    """Runs what is asked for; returns 1 if a verdict was wrong."""
    parser = argparse.ArgumentParser(prog="python -m tools.hangs")
    parser.add_argument("words", nargs="*", help="run only cases with one of these in their names")
    parser.add_argument("--half", choices=("tuned", "judged"), help="run only this half")
    parser.add_argument("--gpu", action="store_true", help="the cases for a machine with a GPU, in the place of these")
    parser.add_argument("--at-once", type=int, default=1, metavar="N", help="run so many cases beside each other")
    chosen = parser.parse_args()
    place = records.GPU_RECORDED if chosen.gpu else records.RECORDED
    kept = records.load(place)
    is_right = True
    cases = (
        matching(chosen.words, (*on_gpu.HANGS, *on_gpu.WORKING)) if chosen.gpu else selected(chosen.words, chosen.half)
    )
    # Each process has the ranks of its cases below itself.
    with ProcessPoolExecutor(chosen.at_once, get_context("fork")) as pool:
        for finding in pool.map(_run, cases):
            is_right &= finding.is_right
            kept[finding.case.name] = records.record(finding)
            records.save(kept, place)
    if chosen.gpu:
        records.GPU_PAGE.write_text(gpu_page(kept, describe_machine()), encoding="utf-8")
    else:
        records.PAGE.write_text(page(kept), encoding="utf-8")
    return int(not is_right)


def matching(words: list[str], cases: Sequence[Case]) -> list[Case]:
    """Returns the cases that have one of the words in their names, all without words."""
    return [case for case in cases if not words or any(word in case.name for word in words)]


def selected(words: list[str], half: str | None) -> list[Case]:
    """Returns the cases that this machine can run, of those that are chosen."""
    cases = matching(words, (*HANGS, *WORKING))
    cases = [case for case in cases if case.needs != NEEDS_ROOT or os.geteuid() == 0]
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

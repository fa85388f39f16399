"""Samples trainings on a GPU as a server does: `python -m tools.hangs.samples` keeps what each rank did for unit tests.

Each training goes on and on; a slow rank is to be named in some of them, and nobody in the others.
"""

from __future__ import annotations

import json
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from drumbeat.core.diagnosis.hangs.stragglers import WaitRecord
from drumbeat.model import wire
from drumbeat.node.stacks.rank_looks import RankLooks
from drumbeat.server.nodes.hang_watch import SAMPLED_S
from drumbeat.server.nodes.stacks import JobFacts
from tools.hangs import scene
from tools.hangs.on_gpu import TRAININGS

RECORDED = Path("tests/unit/core/straggler_series_gpu.json")
LOOKS, PAUSE_S = 12, 0.3


def sample(name: str) -> dict[str, Any]:
    """Returns the looks at one training, and what they say in the end."""
    record, series = WaitRecord(), list[Any]()
    with scene.started(TRAININGS[name]) as ranks:
        ranks.wait_until_silent()
        looks = RankLooks(os.getpid(), {rank: str(log) for rank, log in ranks.logs.items()}, scene.find_program())
        for _ in range(LOOKS):
            phases = JobFacts({0: looks.sample(SAMPLED_S)}).phases
            record.take(phases)
            series.append([wire.to_wire(one) for one in phases])
            time.sleep(PAUSE_S)
    verdict = record.slow()
    return {"case": name, "sentence": verdict.sentence if verdict else "", "looks": series}


def _sample(name: str) -> dict[str, Any]:
    """Returns the same, {} = the training didn't begin."""
    try:
        return sample(name)
    except TimeoutError as error:
        print(f"{name}: it did not begin: {error}", flush=True)
        return {}


def main() -> None:
    """Samples those that are named, or all, three beside each other."""
    names = [name for name in TRAININGS if not sys.argv[1:] or any(word in name for word in sys.argv[1:])]
    kept = {one["case"]: one for one in json.loads(RECORDED.read_text())} if RECORDED.exists() else {}
    with ProcessPoolExecutor(3, get_context("fork")) as pool:
        for one in pool.map(_sample, names):
            if not one:
                continue
            kept[one["case"]] = one
            print(f"{one['case']}: {one['sentence'] or 'nobody'}", flush=True)
            RECORDED.write_text(
                json.dumps([*kept.values()], separators=(",", ":")).replace('{"case"', '\n{"case"') + "\n"
            )


if __name__ == "__main__":
    main()

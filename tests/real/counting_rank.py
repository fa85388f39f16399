"""Adds up random numbers, with a checkpoint every third step; needs no torch. Tests take parts of it away."""

import json
import os
import random
import time
from pathlib import Path

import drumbeat

STEPS = int(os.environ.get("STEPS", "30"))
RANK = int(os.environ["RANK"])
PLACE = Path(os.environ["DRUMBEAT_CHECKPOINT_DIR"]) / f"rank-{RANK}.json"


def save(step, total):
    part = PLACE.with_suffix(".part")
    part.write_text(json.dumps({"step": step, "total": total, "random": random.getstate()}))
    part.replace(PLACE)


def load():
    if not PLACE.exists():
        return 0, 0.0
    state = json.loads(PLACE.read_text())
    version, numbers, gauss = state["random"]
    random.setstate((version, tuple(numbers), gauss))
    return state["step"], state["total"]


def main():
    random.seed(RANK)
    step, total = load()
    while step < STEPS:
        step, total = step + 1, total + random.random()
        time.sleep(0.05)
        drumbeat.log(total=total, step=step)
        if step % 3 == 0:
            save(step, total)
    if RANK == 0:
        result = {"total": total, "finished_time": time.time()}
        Path(os.environ["DRUMBEAT_OUTPUT_DIR"], "result.json").write_text(json.dumps(result))


main()

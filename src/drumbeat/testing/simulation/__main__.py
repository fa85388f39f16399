"""Runs schedules by their seeds, and shows a failing one in its shortest form."""

from __future__ import annotations

import argparse
import logging
import sys
import time
from concurrent.futures import ProcessPoolExecutor

from drumbeat.testing.simulation.actions import schedule
from drumbeat.testing.simulation.shrink import failure, shrink

BATCH = 250


def failing(seeds: range) -> tuple[int, str] | None:
    """The first of the seeds that fails, with what it says."""
    logging.disable()  # The loop's own log would be all that one sees.
    for seed in seeds:
        said = failure(schedule(seed))
        if said:
            return seed, said
    return None


def run_all(first: int, count: int, processes: int) -> tuple[int, str] | None:
    """The first failure among `count` seeds from `first` on."""
    batches = [range(n, min(n + BATCH, first + count)) for n in range(first, first + count, BATCH)]
    with ProcessPoolExecutor(processes) as pool:
        for found in pool.map(failing, batches):
            if found:
                pool.shutdown(cancel_futures=True)
                return found
    return None


def show(seed: int) -> int:
    """Prints a seed's schedule, shortened if it fails; the exit code says whether it does."""
    actions = schedule(seed)
    said = failure(actions)
    for action in shrink(actions) if said else actions:
        print(f"  {action.what} {action.a} {action.b}")  # noqa: T201 (a program's output)
    print(f"seed {seed}: {said or 'holds'}")  # noqa: T201
    return 1 if said else 0


def main() -> int:
    """0 = every invariant held."""
    parser = argparse.ArgumentParser(prog="python -m drumbeat.testing.simulation")
    parser.add_argument("--seeds", type=int, default=1000, help="how many schedules")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--seed", type=int, help="one schedule, printed")
    given = parser.parse_args()
    if given.seed is not None:
        return show(given.seed)
    begin = time.monotonic()
    found = run_all(given.first, given.seeds, given.processes)
    if found:
        print(f"seed {found[0]}: {found[1]}; its shortest form:")  # noqa: T201
        return show(found[0])
    print(f"{given.seeds} schedules from seed {given.first} held in {time.monotonic() - begin:.0f} s")  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main())

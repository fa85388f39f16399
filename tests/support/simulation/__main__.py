"""Runs schedules by their seeds, and shows a failing one in its shortest form."""

from __future__ import annotations

import argparse
import logging
import sys
import tempfile
import time
from collections.abc import Generator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tests.support.simulation.action import Action
from tests.support.simulation.backing import MemoryBacking, in_database
from tests.support.simulation.schedules import schedule, schedule_with_conditions, schedule_with_hangs
from tests.support.simulation.shrink import Setup, failure, shrink

BATCH = 250
SCHEDULES = {"plain": schedule, "hangs": schedule_with_hangs, "conditions": schedule_with_conditions}


@dataclass(frozen=True)
class Kind:
    """What to simulate, as it can be sent to another process. store: `memory`, `sqlite` (a file), or a URL."""

    servers: int
    store: str
    schedules: str = "plain"

    def schedule(self, seed: int) -> list[Action]:
        """The actions of a seed."""
        return SCHEDULES[self.schedules](seed, self.servers)

    @contextmanager
    def setup(self) -> Generator[Setup]:
        """How each run is set up; a file of SQLite's is gone afterwards."""
        with tempfile.TemporaryDirectory(prefix="drumbeat-simulation-") as folder:
            place = Path(folder) / "drumbeat.db" if self.store == "sqlite" else self.store
            yield Setup(self.servers, MemoryBacking if place == "memory" else in_database(place))


def failing(kind: Kind, seeds: range) -> tuple[int, str] | None:
    """The first of the seeds that fails, with what it says."""
    logging.disable()  # The loop's own log would be all that one sees.
    with kind.setup() as setup:
        for seed in seeds:
            said = failure(kind.schedule(seed), setup)
            if said:
                return seed, said
    return None


def run_all(kind: Kind, first: int, count: int, processes: int) -> tuple[int, str] | None:
    """The first failure among `count` seeds from `first` on."""
    size = BATCH if kind.store == "memory" else max(1, count // processes)
    batches = [range(n, min(n + size, first + count)) for n in range(first, first + count, size)]
    with ProcessPoolExecutor(processes) as pool:
        for found in pool.map(partial(failing, kind), batches):
            if found:
                pool.shutdown(cancel_futures=True)
                return found
    return None


def show(kind: Kind, seed: int) -> int:
    """Prints a seed's schedule, shortened if it fails; the exit code says whether it does."""
    logging.disable()
    actions = kind.schedule(seed)
    with kind.setup() as setup:
        said = failure(actions, setup)
        shown = shrink(actions, setup) if said else actions
    for action in shown:
        print(f"  {action.what} {action.a} {action.b}")  # noqa: T201 (a program's output)
    print(f"seed {seed}: {said or 'holds'}")  # noqa: T201
    return 1 if said else 0


def main() -> int:
    """0 = every invariant held."""
    parser = argparse.ArgumentParser(prog="python -m tests.support.simulation")
    parser.add_argument("--seeds", type=int, default=1000, help="how many schedules")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--seed", type=int, help="one schedule, printed")
    parser.add_argument("--servers", type=int, default=1, help="how many share the store")
    parser.add_argument("--store", default="memory", help="memory, sqlite (a file), or the URL of an empty database")
    for name, what in (("hangs", "looks at silent ranks"), ("conditions", "values that meet conditions")):
        parser.add_argument(
            f"--{name}", dest="schedules", action="store_const", const=name, default="plain", help=f"with {what}"
        )
    given = parser.parse_args()
    kind = Kind(given.servers, given.store, given.schedules)
    if given.seed is not None:
        return show(kind, given.seed)
    begin = time.monotonic()
    # A database is one: its schedules are run one after the other.
    processes = given.processes if given.store in ("memory", "sqlite") else 1
    found = run_all(kind, given.first, given.seeds, processes)
    if found:
        print(f"seed {found[0]}: {found[1]}; its shortest form:")  # noqa: T201
        return show(kind, found[0])
    print(f"{given.seeds} schedules from seed {given.first} held in {time.monotonic() - begin:.0f} s")  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main())

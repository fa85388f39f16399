"""`python -m tools.stalled_processes PID`: lets what a run of the tests starts stand still for moments (root).

A loaded machine does this to every process, most seldom where it hurts. A stalled process is frozen as its machine
might freeze it (a freezer of control groups, version 1: no signal, nothing that its parent sees), now one that has just
begun, now one that has been there for long, now a single thread. Whatever a test or drumbeat takes to happen in an
order or in a time that nobody promised fails sooner so. Ends with the process PID.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import psutil

FREEZERS = Path("/sys/fs/cgroup/freezer")
MARK = "TESTS_STALLED"
"""In the environment of what may be stalled, and so of what that starts."""
YOUNG_S = 1.0
"""For so long a process has just begun."""
SHORTEST_S, LONGEST_S = 0.05, 2.0
AT_A_TIME = 3
EVERY_S = 0.05


class Freezer:
    """A control group with one process, or one of its threads, in it. Raises OSError."""

    def __init__(self, name: str) -> None:
        self._there = FREEZERS / name
        self._there.mkdir(exist_ok=True)

    def freeze(self, number: int, *, is_thread: bool) -> None:
        (self._there / ("tasks" if is_thread else "cgroup.procs")).write_text(str(number))
        (self._there / "freezer.state").write_text("FROZEN")

    def thaw(self) -> None:
        """Lets it go on, with what it started in the last moment."""
        (self._there / "freezer.state").write_text("THAWED")
        while left := (self._there / "tasks").read_text().split():
            for number in left:
                with contextlib.suppress(OSError):  # It has ended.
                    (FREEZERS / "tasks").write_text(number)

    def close(self) -> None:
        self.thaw()
        with contextlib.suppress(OSError):
            self._there.rmdir()


@dataclass
class Stall:
    """What stands still, and until when (monotonic clock)."""

    freezer: Freezer
    until: float


def stall(run: int, seed: int) -> int:
    """Until the process `run` has ended; gives how many times something stood still."""
    chance, marked = random.Random(seed), Marked()
    idle = [Freezer(f"stalled-{os.getpid()}-{n}") for n in range(AT_A_TIME)]
    freezers, stalls, count = list(idle), list[Stall](), 0
    try:
        while psutil.pid_exists(run):
            for one in [one for one in stalls if one.until < time.monotonic()]:
                one.freezer.thaw()
                stalls.remove(one)
                idle.append(one.freezer)
            there = [process for process in marked.processes() if process.pid != run]  # It would be all that is left.
            if idle and (chosen := _choose(chance, there)):
                with contextlib.suppress(OSError, psutil.Error):
                    _freeze(chosen, idle[-1], chance)
                    length = SHORTEST_S * (LONGEST_S / SHORTEST_S) ** chance.random()
                    stalls.append(Stall(idle.pop(), time.monotonic() + length))
                    count += 1
            time.sleep(EVERY_S)
    finally:
        for freezer in freezers:
            freezer.close()
    return count


class Marked:
    """The processes that may be stalled. An environment is read as long as its process is young, and then no more."""

    def __init__(self) -> None:
        self._old: dict[psutil.Process, bool] = {}

    def processes(self) -> list[psutil.Process]:
        there = list(psutil.process_iter())
        self._old = {process: self._old[process] for process in there if process in self._old}
        return [process for process in there if self._is_marked(process)]

    def _is_marked(self, process: psutil.Process) -> bool:
        if process not in self._old:
            is_marked = _has_mark(process)
            if not _is_young(process):
                self._old[process] = is_marked
            return is_marked
        return self._old[process]


def _has_mark(process: psutil.Process) -> bool:
    try:
        return MARK in process.environ()
    except psutil.Error:
        return False


def _is_young(process: psutil.Process) -> bool:
    return time.time() - process.create_time() < YOUNG_S


def _choose(chance: random.Random, there: list[psutil.Process]) -> psutil.Process | None:
    """One of the processes: each kind as likely as any other, half of the time one that has just begun."""
    young = [process for process in there if _is_young(process)]
    kinds: dict[str, list[psutil.Process]] = {}
    for process in young if young and chance.random() < 0.5 else there:
        with contextlib.suppress(psutil.Error):
            kinds.setdefault(_kind(process), []).append(process)
    return chance.choice(kinds[chance.choice(sorted(kinds))]) if kinds else None


def _kind(process: psutil.Process) -> str:
    """Which program it is; of a Python, what it runs."""
    return " ".join([process.name(), *(word for word in process.cmdline()[1:4] if "/" not in word)])[:80]


def _freeze(process: psutil.Process, freezer: Freezer, chance: random.Random) -> None:
    threads = process.threads()
    if len(threads) > 1 and chance.random() < 0.3:
        freezer.freeze(chance.choice(threads).id, is_thread=True)
    else:
        freezer.freeze(process.pid, is_thread=False)


def main() -> int:
    """0; 1 = this machine has no such freezer, or none for this user."""
    options = argparse.ArgumentParser(prog="python -m tools.stalled_processes")
    options.add_argument("run", type=int, metavar="PID")
    options.add_argument("--seed", type=int, default=None)
    given = options.parse_args()
    if not os.access(FREEZERS / "tasks", os.W_OK):
        print(f"stalls: {FREEZERS} isn't there, or isn't this user's to write", file=sys.stderr)
        return 1
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # Nothing is left frozen.
    seed = random.randrange(1 << 32) if given.seed is None else given.seed
    print(f"stalls: {stall(given.run, seed)} (seed {seed})", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

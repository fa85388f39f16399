"""Faults at random instants with real processes, disks and links: `python -m tools.chaos [--seeds 60] [--seed N]`.

One line for each seed; it goes on after a failure. Exit code 1 when one was red. --engine netlab or slurm: the same
faults to jobs on nodes of their own, one after the other, and nodes that are switched off (root).
"""

from __future__ import annotations

import argparse
import itertools
import os
import sys
import threading
import time
import traceback
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from drumbeat.engines.netlab.lab import require_tools
from drumbeat.model.errors import EngineError
from tests.chaos.instants import ENGINES, Instant, draw
from tests.chaos.mortal import Mortal
from tests.chaos.playing import Play, story
from tests.chaos.striking import Clustered, Networked, a_small_house
from tests.real.house import a_house
from tests.real.places import netlab, slurm
from tools import slurmlab
from tools.faults.scene import make_folder
from tools.slurmlab import SlurmLab

AT_ONCE = 4
"""Houses beside each other: much of a seed is waiting."""
LINK = "link cut"


@dataclass
class Stage:
    """Houses for seeds, each used by one seed at a time; one that something went wrong in isn't used again."""

    folder: Path
    stack: ExitStack
    engine: str = "local"
    _free: list[Mortal] = field(default_factory=list[Mortal])
    _lab: list[Networked] = field(default_factory=list[Networked])
    _numbers: itertools.count[int] = field(default_factory=itertools.count)
    _alone: threading.Lock = field(default_factory=threading.Lock)
    in_lab: threading.Lock = field(default_factory=threading.Lock)

    def play(self, instant: Instant) -> Play:
        """Raises whatever went wrong, with the story in its notes."""
        if instant.fault == "disk full":
            with a_small_house(self._new_folder()) as house:
                return run(Play(Mortal(house), instant))
        if self._is_in_lab(instant):
            with self.in_lab:
                return self._kept(self._lab, instant)
        return self._kept(self._free, instant)

    def _is_in_lab(self, instant: Instant) -> bool:
        return self.engine != "local" or instant.fault == LINK

    def _kept(self, houses: list[Mortal] | list[Networked], instant: Instant) -> Play:
        with self._alone:
            mortal = houses.pop() if houses else self._new(instant)
        play = run(Play(mortal, instant))
        with self._alone:
            houses.append(mortal)  # type: ignore[arg-type] # It came from there, or from `_new`.
        return play

    def _new(self, instant: Instant) -> Mortal:
        if self.engine == "slurm":
            clusters: list[SlurmLab] = []
            place = self.stack.enter_context(slurm(self._new_folder(), clusters.append))
            return Clustered(place, clusters[0])
        if self._is_in_lab(instant):
            return Networked(self.stack.enter_context(netlab(self._new_folder())))
        return Mortal(self.stack.enter_context(a_house(self._new_folder())))

    def _new_folder(self) -> Path:
        path = self.folder / f"house{next(self._numbers)}"
        path.mkdir()
        return path


def run(play: Play) -> Play:
    """Raises whatever went wrong, with the story in its notes."""
    try:
        play.run()
    except Exception as error:
        error.add_note(f"struck in {play.struck_in or 'no state yet'}, hit: {', '.join(play.hit) or 'nobody'}")
        error.add_note(story(play))
        raise
    return play


def lacks(instant: Instant, engine: str = "local") -> str:
    """Why it can't be played here, "" = it can."""
    if engine == "slurm":
        return slurmlab.missing()
    if instant.fault == "disk full" and os.geteuid() != 0:
        return "needs root, to mount a small disk"
    if instant.fault == LINK or engine == "netlab":
        try:
            require_tools()
        except EngineError as error:
            return str(error)
    return ""


def tell(stage: Stage, instant: Instant) -> str:
    """Plays it and prints its line; `right`, `red`, `not tried`, or `nobody hit`."""
    begun, result, told = time.monotonic(), "right", ""
    if why := lacks(instant, stage.engine):
        result, told = "not tried", why
    else:
        try:
            play = stage.play(instant)
            told = f"struck in {play.struck_in}"
            result = "right" if play.hit else "nobody hit"
        except Exception:  # noqa: BLE001 (the next seed is played all the same)
            result, told = "red", traceback.format_exc()
    line = f"seed {instant.seed:<4} {instant.what:38} {instant.when:34} {result:10} {time.monotonic() - begun:5.1f} s"
    print(f"{line}  {told}", flush=True)
    return result


def main(arguments: Sequence[str] | None = None) -> int:
    """Plays them all; 1 when one was red."""
    parser = argparse.ArgumentParser(prog="python -m tools.chaos", description=__doc__)
    parser.add_argument("--seeds", type=int, default=60, help="how many, from --first on")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", type=int, nargs="+", help="these alone")
    parser.add_argument("--at-once", type=int, default=AT_ONCE)
    parser.add_argument("--engine", choices=ENGINES, default="local")
    given = parser.parse_args(arguments)
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    os.environ.setdefault("DRUMBEAT_SPARE_S", "0")  # What a job has prepared ends with it: nothing may be left.
    seeds = range(given.first, given.first + given.seeds) if given.seed is None else given.seed
    # The longest first: at the end nobody waits for one alone.
    drawn = sorted((draw(seed, given.engine) for seed in seeds), key=lambda one: -one.lasts_s)
    begun = time.monotonic()
    with make_folder() as folder, ExitStack() as stack, ThreadPoolExecutor(given.at_once) as pool:
        stage = Stage(folder, stack, given.engine)
        results = dict(zip(drawn, pool.map(partial(tell, stage), drawn), strict=True))
    return close(results, time.monotonic() - begun, given.engine)


def close(results: dict[Instant, str], seconds: float, engine: str) -> int:
    """The last lines: how many of each kind of fault, and how a red one is seen again."""
    for fault in sorted({one.fault for one in results}):
        count = Counter(result for one, result in results.items() if one.fault == fault)
        print(f"{fault:10} {', '.join(f'{n} {result}' for result, n in sorted(count.items()))}")
    red = sorted(one.seed for one, result in results.items() if result == "red")
    print(f"{len(results)} seeds in {seconds / 60:.1f} minutes, {len(red)} red")
    for seed in red:
        print(f"make chaos ENGINE={engine} SEED={seed}")
    return int(bool(red))


if __name__ == "__main__":
    sys.exit(main())

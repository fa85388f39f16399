"""Faults of jobs over several nodes with addresses of their own, and torchrun on the same nodes. netlab, so root."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from drumbeat.engines.netlab.lab import require_tools
from tests.real.places import Place, netlab
from tools.faults.scene import Missed, Play, Scene, until

WATCH_S = 90.0
"""How long torchrun is watched."""
START_S = 300.0
"""The longest that a start may take, on a machine that is busy."""
PORT = 29_400


@contextlib.contextmanager
def lab_of(scene: Scene) -> Generator[Place]:
    """Yields a lab of three nodes that nothing else uses, with a server."""
    require_tools()
    with netlab(scene.new_folder()) as place:
        yield place


def play_on(place: Place, scene: Scene, script: str, nodes: int = 2) -> Play:
    """Returns a play with a rank on each of so many nodes."""
    keys = {
        "compute": place.compute,
        "resources": f"{{instance_count: {nodes}}}",
        "distribution": "{type: pytorch, process_count_per_instance: 1}",
    }
    return Play(scene, script, ranks=nodes, house=place.house, keys=keys)


def machine_of(place: Place, job: str, node: int = 1) -> str:
    """Returns the machine of a node of a job."""
    return place.house.client.get(job).nodes[node].machine


def sentence_of(place: Place, job: str, words: str) -> str:
    """Returns the last sentence of a job's story with these words, "" = none."""
    story = [line.sentence for line in place.house.client.story(job)]
    return ([sentence for sentence in story if words in sentence] or [""])[-1]


@dataclass
class Torchruns:
    """A torchrun on each of some nodes."""

    play: Play
    nodes: Sequence[str]
    files: Mapping[str, Path]
    processes: Mapping[str, subprocess.Popen[bytes]]

    def said(self) -> str:
        """Returns all that they and their ranks have printed."""
        return "".join(file.read_text(errors="replace") for file in self.files.values())

    def has_restarted(self, ranks: int = 1) -> bool:
        """Whether so many ranks have come to their first line again."""
        return len(list(self.play.marks.glob("start.*.1"))) >= ranks

    def exit_codes(self) -> list[int]:
        """Returns those of the ones that have ended, in order."""
        codes = (process.poll() for process in self.processes.values())
        return sorted(code for code in codes if code is not None)

    def have_ended(self) -> bool:
        """Whether none runs any more."""
        return all(process.poll() is not None for process in self.processes.values())

    def watch(self, is_over: Callable[[], bool], within_s: float = WATCH_S) -> float | None:
        """Returns after how many seconds something was so, None = not within the time."""
        try:
            return until(is_over, "it", within_s)
        except Missed:
            return None


@contextlib.contextmanager
def torchruns(
    place: Place, play: Play, nodes: int = 2, fewest: int = 1, environment: Mapping[str, str] | None = None
) -> Generator[Torchruns]:
    """Yields torchrun on so many nodes of the lab, each with a rank; they end with the lab."""
    until(lambda: all(place.lab.pid_of(node) for node in place.nodes), "the nodes")
    names = place.nodes[:nodes]
    files = {node: play.folder / f"torchrun.{node}.txt" for node in names}
    head = place.lab.blueprint()["nodes"][0]["address"]
    words = [
        str(Path(sys.executable).with_name("torchrun")), f"--nnodes={fewest}:{nodes}", "--nproc-per-node=1",
        "--max-restarts=3", "--rdzv-backend=c10d", f"--rdzv-endpoint={head}:{PORT}", "--rdzv-id=fault",
        str(play.folder / "code" / "fault.py"),
    ]  # fmt: skip
    with contextlib.ExitStack() as stack:
        started: dict[str, subprocess.Popen[bytes]] = {}
        for node in names:
            out = stack.enter_context(files[node].open("wb"))
            started[node] = subprocess.Popen(
                place.lab.inside(node, words), stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                env={**os.environ, "MARKS": str(play.marks), **(environment or {})},
            )  # fmt: skip
        try:
            yield Torchruns(play, names, files, started)
        finally:
            for process in started.values():
                process.kill()
                process.wait()


def steps_after(play: Play, rank: int, since: float) -> bool:
    """Whether a rank has done a step after that time, by its file of steps."""
    file = play.marks / f"step.{rank}"
    return file.exists() and file.stat().st_mtime > since


def await_steps(play: Play) -> None:
    """Waits until every rank has done some steps."""
    ranks = range(play.ranks)
    until(lambda: all((play.marks / f"step.{rank}").exists() for rank in ranks), "the first steps", START_S)

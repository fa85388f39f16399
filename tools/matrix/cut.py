"""`python -m tools.matrix.cut [--seconds 60] [--engines netlab,ssh,slurm]`: a link is cut while the recipe trains.

Each engine trains twice on two of three nodes: with `lost_after_s` beyond the cut, and within it. Exit code 1 when a
job does not end well.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from drumbeat import Client
from drumbeat.engines.netlab.lab import Lab
from drumbeat.protocol.api.jobs import JobView
from tools.matrix.place import Place, place_on
from tools.matrix.row import ENOUGH
from tools.matrix.rows import ROWS
from tools.matrix.runs import Material, read_accuracy

PATIENCE_S = 400
STAYS_S, MOVES_S = 600, 20
"""`lost_after_s` of a job that waits for its node, and of one that doesn't."""


@dataclass(frozen=True)
class Cut:
    """What became of a job. accuracy: 0.0 = it didn't end well."""

    job: JobView
    accuracy: float

    def say(self) -> str:
        """In a line."""
        how = f"{self.job.state}, attempt {self.job.attempt}, round {self.job.round}"
        return f"{how}, {self.accuracy:.1%}" if self.accuracy else f"{how}: {self.job.sentence}"


def main() -> int:
    """Prints a line for each run."""
    options = argparse.ArgumentParser(prog="python -m tools.matrix.cut")
    options.add_argument("--seconds", type=float, default=60.0)
    options.add_argument("--engines", default="netlab,ssh,slurm")
    given = options.parse_args()
    bad = 0
    for engine in given.engines.split(","):
        with tempfile.TemporaryDirectory(prefix="drumbeat-cut-") as folder, place_on(engine, Path(folder)) as there:
            lab = lab_of(engine, Path(folder))
            for lost_after_s in (STAYS_S, MOVES_S):
                seen = run(there, lab, lost_after_s, given.seconds)
                print(f"{engine}, cut for {given.seconds:g} s, lost_after_s {lost_after_s}: {seen.say()}", flush=True)
                bad += seen.accuracy < ENOUGH
    return int(bool(bad))


def lab_of(engine: str, folder: Path) -> Lab:
    """The lab that the engine's nodes are on."""
    if engine == "netlab":
        return Lab(folder / "home" / "labs" / "demo-netlab", "demo-netlab", 3)
    return Lab(folder / "lab", "host", 3) if engine == "ssh" else Lab(folder / "slurm" / "lab", "n", 4)


def run(there: Place, lab: Lab, lost_after_s: int, seconds: float) -> Cut:
    """Trains on two nodes, and cuts the second one's link after the first epoch."""
    row = ROWS["pytorch"]
    job = row.job(Material(there.folder / f"lost_after_{lost_after_s}").of(row), there.compute, 2)
    job["drumbeat"] = {"max_retries": 0, "lost_after_s": lost_after_s}
    name = there.client.submit(job).name
    _until(lambda: "epoch 1/" in "".join(piece.text for piece in there.client.logs(name)))
    host = there.client.get(name).nodes[1].host
    lab.set_link(host, is_up=False)
    time.sleep(seconds)
    lab.set_link(host, is_up=True)
    ended = there.client.wait(name, PATIENCE_S) or there.client.get(name)
    return Cut(ended, _accuracy(there.client, ended, there.folder / "results"))


def _accuracy(client: Client, ended: JobView, results: Path) -> float:
    if ended.state == "completed":
        return read_accuracy(client, ended.name, results)
    if ended.state not in ("failed", "canceled"):
        client.cancel(ended.name, discard=True)
    return 0.0


def _until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        if time.monotonic() > deadline:
            raise TimeoutError("the first epoch never came")
        time.sleep(0.2)


if __name__ == "__main__":
    sys.exit(main())

"""`python -m tools.matrix.cut [--seconds 60] [--engines netlab,ssh,…]`: a link is cut while the recipe trains.

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
from drumbeat.model.api.jobs import JobView
from tools.matrix.place import Place, place_on
from tools.matrix.row import ENOUGH
from tools.matrix.rows import ROWS
from tools.matrix.runs import Material, read_accuracy
from tools.raylab import environment
from tools.raylab.lab import RayLab

PATIENCE_S = 400
STAYS_S, MOVES_S = 600, 20
"""`lost_after_s` of a job that waits for its node, and of one that doesn't."""
LABS: dict[str, tuple[str, str, int]] = {
    "netlab": ("home/labs/demo-netlab", "demo-netlab", 3),
    "ssh": ("lab", "host", 3),
    "slurm": ("slurm/lab", "n", 4),
    "kubernetes": ("kubernetes/lab", "n", 3),
    "ray": ("ray/lab", "n", 4),
}
"""By engine, the folder, name and size of the lab that its nodes are on."""


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
    options.add_argument("--engines", default=",".join(LABS))
    given = options.parse_args()
    bad = 0
    for engine in given.engines.split(","):
        with tempfile.TemporaryDirectory(prefix="drumbeat-cut-") as folder, place_on(engine, Path(folder)) as there:
            below, name, nodes = LABS[engine]
            lab = Lab(Path(folder) / below, name, nodes)
            for lost_after_s in (STAYS_S, MOVES_S):
                seen = run(there, lab, lost_after_s, given.seconds)
                if engine == "ray":
                    _mend(lab)
                print(f"{engine}, cut for {given.seconds:g} s, lost_after_s {lost_after_s}: {seen.say()}", flush=True)
                bad += seen.accuracy < ENOUGH
    return int(bool(bad))


def run(there: Place, lab: Lab, lost_after_s: int, seconds: float) -> Cut:
    """Trains on two nodes, and cuts the second one's link after the first epoch."""
    row = ROWS["pytorch"]
    job = row.job(Material(there.folder / f"lost_after_{lost_after_s}").of(row), there.compute, 2)
    job["drumbeat"] = {"max_retries": 0, "lost_after_s": lost_after_s}
    name = there.client.submit(job).name
    _until(lambda: "epoch 1/" in "".join(piece.text for piece in there.client.logs(name)))
    _until(lambda: bool(_machine(there, lab, name)))
    machine = _machine(there, lab, name)
    lab.set_link(machine, is_up=False)
    time.sleep(seconds)
    lab.set_link(machine, is_up=True)
    ended = there.client.wait(name, PATIENCE_S) or there.client.get(name)
    return Cut(ended, _accuracy(there.client, ended, there.folder / "results"))


def _machine(there: Place, lab: Lab, job: str) -> str:
    """The one to cut off, "" = it isn't known yet; on Kubernetes not the first, which has the API server."""
    names = [one["name"] for one in lab.blueprint()["nodes"]]
    host = there.client.get(job).nodes[1].host
    if host in names:
        return host
    machines = {one.name: one.why for one in there.client.compute(there.compute).machines}
    return next((name for name in names[1:] if f"of job {job}" in machines.get(name, "")), "")


def _mend(lab: Lab) -> None:
    """Starts Ray again on a machine that it has given up: its raylet ends when it learns of that."""
    folder = lab.folder.parent
    RayLab(lab, folder, environment.PYTHON, head_cpus=0, token=(folder / "token").read_text()).mend()


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
            raise TimeoutError("the job did not come as far as its first epoch")
        time.sleep(0.2)


if __name__ == "__main__":
    sys.exit(main())

"""One cell: a job of a launcher on a compute, to its end."""

from __future__ import annotations

import json
import shutil
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from drumbeat import Client

REPOSITORY = Path(__file__).parents[2]
RECIPE = REPOSITORY / "recipes" / "fashion_mnist"
RANKS_PER_NODE = 2
TRAIN = "train.py --data ${{inputs.data}} --epochs 4 --batch-size 48 --seed 42 --model-dir ${{outputs.model}}"
"""The recipe's own script; 48 splits evenly over 2, 4 and 6 ranks."""
PATIENCE_S = 300
ENOUGH = 0.9
"""Accuracy on held-out digits that an untrained model is far from (0.1)."""


@dataclass(frozen=True)
class Launcher:
    """How the processes come up. per_node: processes that drumbeat starts on a node."""

    name: str
    distribution: str
    per_node: int
    command: str

    def job(self, compute: str, nodes: int, code: Path, data: Path) -> dict[str, Any]:
        """The job, as a file would say it."""
        return {
            "command": self.command,
            "code": str(code),
            "compute": compute,
            "inputs": {"data": {"type": "uri_folder", "path": str(data)}},
            "outputs": {"model": {"type": "uri_folder"}},
            "distribution": {"type": self.distribution, "process_count_per_instance": self.per_node},
            "resources": {"instance_count": nodes},
            "drumbeat": {"max_retries": 0},
        }


LAUNCHERS = {
    one.name: one
    for one in (
        Launcher("pytorch", "pytorch", RANKS_PER_NODE, f"python {TRAIN}"),
        Launcher("mpi per process", "mpi", RANKS_PER_NODE, f"python adapt.py {TRAIN}"),
        Launcher("mpi per node", "mpi", 1, f"python per_node.py {RANKS_PER_NODE} {TRAIN}"),
    )
}


@dataclass(frozen=True)
class Cell:
    """What came of a run. trouble: "" = it trained."""

    accuracy: float = 0.0
    seconds: float = 0.0
    trouble: str = ""


def code_folder(folder: Path) -> Path:
    """The recipe with what MPI's ranks need beside it."""
    code = folder / "code"
    shutil.copytree(RECIPE, code, ignore=shutil.ignore_patterns("__pycache__", "*.yml", "*.md", "data"))
    shutil.copytree(Path(__file__).parent / "job", code, dirs_exist_ok=True)
    return code


def run(client: Client, job: dict[str, Any], results: Path) -> Cell:
    """Trains, and reads the accuracy that the job itself wrote."""
    began = time.monotonic()
    name = client.submit(job).name
    ended = client.wait(name, PATIENCE_S)
    if ended is None:
        stuck = client.get(name)
        client.cancel(name, discard=True)
        return Cell(trouble=f"{stuck.state} after {PATIENCE_S} s: {stuck.sentence}")
    if ended.state != "completed":
        return Cell(trouble=f"{ended.state}: {ended.sentence}")
    seconds = time.monotonic() - began
    accuracy = read_accuracy(client, name, results)
    return Cell(accuracy, seconds, "" if accuracy >= ENOUGH else f"accuracy {accuracy:.1%}")


def read_accuracy(client: Client, name: str, results: Path) -> float:
    """On held-out digits, as the job itself wrote it."""
    client.download(name, results / name, under="outputs/model/metrics.json")
    return json.loads(next((results / name).rglob("metrics.json")).read_text())["test"]["accuracy"]

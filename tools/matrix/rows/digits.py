"""The main job's own script (`recipes/fashion_mnist`) under PyTorch and MPI."""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools import debian_packages
from tools.matrix.row import RECIPES, Row

RECIPE = RECIPES / "fashion_mnist"
RANKS_PER_NODE = 2
TRAIN = "train.py --data ${{inputs.data}} --epochs 4 --batch-size 48 --seed 42 --model-dir ${{outputs.model}}"
"""48 splits evenly over 2, 4 and 6 ranks."""


@dataclass(frozen=True)
class Material:
    """Code and data."""

    code: Path
    data: Path


def prepare(folder: Path) -> Material:
    """The recipe with what MPI's ranks need beside it, and scikit-learn's digits."""
    made = Material(folder / "code", folder / "digits")
    shutil.copytree(RECIPE, made.code, ignore=shutil.ignore_patterns("__pycache__", "*.yml", "*.md", "data"))
    shutil.copytree(Path(__file__).parent / "job", made.code, dirs_exist_ok=True)
    subprocess.run([sys.executable, RECIPE / "make_digits.py", made.data], check=True, stdout=subprocess.DEVNULL)
    return made


@dataclass(frozen=True)
class Launcher:
    """per_node: processes that drumbeat starts on a node."""

    distribution: str
    per_node: int
    command: str

    def job(self, made: Material, compute: str, nodes: int) -> dict[str, Any]:
        """The job, as a file would say it."""
        return {
            "command": self.command,
            "code": str(made.code),
            "compute": compute,
            "inputs": {"data": {"type": "uri_folder", "path": str(made.data)}},
            "outputs": {"model": {"type": "uri_folder"}},
            "distribution": {"type": self.distribution, "process_count_per_instance": self.per_node},
            "resources": {"instance_count": nodes},
            "drumbeat": {"max_retries": 0},
        }


def without_mpirun() -> str:
    """What is missing for MPI, once it was tried to be installed."""
    if shutil.which("mpirun") is None:
        debian_packages.install("openmpi-bin")
    return "" if shutil.which("mpirun") else "needs an MPI: apt-get install openmpi-bin"


BY_TORCH = Launcher("pytorch", RANKS_PER_NODE, f"python {TRAIN}")
BY_MPI = Launcher("mpi", RANKS_PER_NODE, f"python adapt.py {TRAIN}")
BY_NODE = Launcher("mpi", 1, f"python per_node.py {RANKS_PER_NODE} {TRAIN}")

ROWS = (
    Row("pytorch", prepare, BY_TORCH.job),
    Row("mpi per process", prepare, BY_MPI.job, without_mpirun),
    Row("mpi per node", prepare, BY_NODE.job, without_mpirun),
)

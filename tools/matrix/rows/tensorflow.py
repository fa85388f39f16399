"""`recipes/mnist_tensorflow` by TensorFlow's two strategies: workers in step, or with a parameter server."""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools import curated_environments
from tools.matrix.row import RECIPES, Row
from tools.matrix.rows.digits import RECIPE, Material

TENSORFLOW = RECIPES / "mnist_tensorflow"
SIZES = (1, 2)
ENVIRONMENT = "tensorflow"
OPTIONS = "--data ${{inputs.data}} --steps 300 --model-dir ${{outputs.model}}"


def prepare(folder: Path) -> Material:
    """The recipe, and scikit-learn's digits."""
    made = Material(folder / "code", folder / "digits")
    shutil.copytree(TENSORFLOW, made.code, ignore=shutil.ignore_patterns("__pycache__", "*.yml", "*.md", "data"))
    subprocess.run([sys.executable, RECIPE / "make_digits.py", made.data], check=True, stdout=subprocess.DEVNULL)
    return made


@dataclass(frozen=True)
class Strategy:
    """The recipe's script for it, and how many parameter servers its two workers have."""

    script: str
    servers: int

    def job(self, made: Material, compute: str, nodes: int) -> dict[str, Any]:
        """The job, as a file would say it."""
        tasks = {"type": "tensorflow", "worker_count": 2, "parameter_server_count": self.servers}
        return {
            "command": f"{curated_environments.folder(ENVIRONMENT)}/bin/python {self.script} {OPTIONS}",
            "code": str(made.code),
            "compute": compute,
            "inputs": {"data": {"type": "uri_folder", "path": str(made.data)}},
            "outputs": {"model": {"type": "uri_folder"}},
            "distribution": tasks,
            "resources": {"instance_count": nodes},
            "drumbeat": {"max_retries": 0},
        }


def missing() -> str:
    """Why drumbeat's environment can't be had, "" = it is there."""
    try:
        curated_environments.folder(ENVIRONMENT)
    except LookupError as error:
        return str(error)
    return ""


ROWS = (
    Row("tensorflow MultiWorkerMirrored", prepare, Strategy("fit.py", 0).job, missing, SIZES),
    Row("tensorflow ParameterServer", prepare, Strategy("loop.py", 1).job, missing, SIZES),
)

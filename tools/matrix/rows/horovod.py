"""Horovod by the recipe's own script: its MPI controller, its Gloo controller without any MPI, and its own launcher."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from tools import curated_environments
from tools.matrix.row import RECIPES, Row
from tools.matrix.rows.digits import RANKS_PER_NODE, Material

RECIPE = RECIPES / "horovod_mnist"
DIGITS = RECIPES / "fashion_mnist" / "make_digits.py"
SIZES = (1, 2)
OPTIONS = "--data ${{inputs.data}} --epochs 6 --batch-size 32 --base-lr 0.02 --model-dir ${{outputs.model}}"


def prepare(folder: Path) -> Material:
    """The recipe, and digits."""
    made = Material(folder / "code", folder / "digits")
    shutil.copytree(RECIPE, made.code, ignore=shutil.ignore_patterns("__pycache__", "*.yml", "*.md", "data"))
    subprocess.run([sys.executable, DIGITS, made.data], check=True, stdout=subprocess.DEVNULL)
    return made


def by_mpi(made: Material, compute: str, nodes: int) -> dict[str, Any]:
    """Ranks of MPI's."""
    return _job(made, compute, nodes, "mpi", {})


def by_gloo(made: Material, compute: str, nodes: int) -> dict[str, Any]:
    """Ranks that drumbeat tells what `horovodrun --gloo` would."""
    return _job(made, compute, nodes, "pytorch", {"HOROVOD_CONTROLLER": "gloo"})


def by_itself(made: Material, compute: str, nodes: int) -> dict[str, Any]:
    """The launcher `horovodrun` on node 0, which starts ranks on the hosts that drumbeat has listed."""
    job = _job(made, compute, nodes, "pytorch", {})
    programs = f"export PATH={curated_environments.folder('horovod')}/bin:$PATH"
    command = f"{programs}; {horovodrun(RANKS_PER_NODE * nodes)} {job['command']}"
    return {**job, "command": command, "distribution": {"type": "pytorch"}}


def horovodrun(count: int) -> str:
    """What stands before a command that is to run so many times, on node 0 alone."""
    hosts = f"-H $(sed 's/ .*/:{RANKS_PER_NODE}/' $DLTS_HOSTFILE | paste -sd ,)"
    options = f"--gloo -np {count} {hosts} --network-interfaces ${{GLOO_SOCKET_IFNAME:-lo}}"
    return f"[ $NODE_RANK != 0 ] || OMP_NUM_THREADS=1 horovodrun {options}"


def _job(made: Material, compute: str, nodes: int, launcher: str, variables: dict[str, str]) -> dict[str, Any]:
    # Its folder is named, for hosts and clusters have other caches and would build it again.
    there = curated_environments.folder("horovod")
    return {
        "command": f"{there}/bin/python train.py {OPTIONS}",
        "code": str(made.code),
        "compute": compute,
        "inputs": {"data": {"type": "uri_folder", "path": str(made.data)}},
        "outputs": {"model": {"type": "uri_folder"}},
        "environment_variables": {"PATH": f"{there}/bin:/usr/local/bin:/usr/bin:/bin", **variables},
        "distribution": {"type": launcher, "process_count_per_instance": RANKS_PER_NODE},
        "resources": {"instance_count": nodes},
        "drumbeat": {"max_retries": 0},
    }


ROWS = (
    Row("horovod by mpi", prepare, by_mpi, curated_environments.without_compiler, SIZES),
    Row("horovod by gloo", prepare, by_gloo, curated_environments.without_compiler, SIZES),
    Row("horovodrun", prepare, by_itself, curated_environments.without_compiler, SIZES),
)

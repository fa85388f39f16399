"""DeepSpeed in its three ways, by the recipe's own script: ranks of drumbeat's, of MPI's, and of its own launcher."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from tools import deepspeed_environment
from tools.matrix.row import RECIPES, Row
from tools.matrix.rows.digits import RANKS_PER_NODE, Material, without_mpirun
from tools.matrix.rows.launchers import SIZES, job

RECIPE = RECIPES / "cifar10_deepspeed"
TRAIN = "train.py --data ${{inputs.data}} --epochs 3 --model-dir ${{outputs.model}} --deepspeed_config ds_config.json"


def prepare(folder: Path) -> Material:
    """The recipe, and coloured digits."""
    made = Material(folder / "code", folder / "images")
    shutil.copytree(RECIPE, made.code, ignore=shutil.ignore_patterns("__pycache__", "*.yml", "*.md", "data"))
    shutil.copy(Path(__file__).parent / "job" / "world.py", made.code)
    subprocess.run([sys.executable, RECIPE / "make_images.py", made.data], check=True, stdout=subprocess.DEVNULL)
    return made


def by_pytorch(made: Material, compute: str, nodes: int) -> dict[str, Any]:
    """ZeRO 3: weights, gradients and the optimizer's state are divided over drumbeat's ranks."""
    return job(made, compute, nodes, f"python {TRAIN} --stage 3", per_node=RANKS_PER_NODE)


def by_mpi(made: Material, compute: str, nodes: int) -> dict[str, Any]:
    """ZeRO 1, under mpirun."""
    made_job = job(made, compute, nodes, f"python {TRAIN} --stage 1", per_node=RANKS_PER_NODE)
    return made_job | {"distribution": {"type": "mpi", "process_count_per_instance": RANKS_PER_NODE}}


def by_itself(made: Material, compute: str, nodes: int) -> dict[str, Any]:
    """ZeRO 2, and its own launcher on node 0, which starts ranks on the hosts that drumbeat has listed."""
    command = (
        f"if [ $NODE_RANK = 0 ]; then deepspeed --hostfile $DLTS_HOSTFILE --num_gpus {RANKS_PER_NODE} "
        f"--master_addr $MASTER_ADDR --master_port $MASTER_PORT {TRAIN}; fi"
    )
    return job(made, compute, nodes, command)


def without_mpi() -> str:
    """What is missing for `by_mpi`."""
    return deepspeed_environment.missing() or without_mpirun()


ROWS = (
    Row("deepspeed by pytorch", prepare, by_pytorch, deepspeed_environment.missing, SIZES),
    Row("deepspeed by mpi", prepare, by_mpi, without_mpi, SIZES),
    Row("deepspeed by itself", prepare, by_itself, deepspeed_environment.missing, SIZES),
)

"""The main job's data under launchers of other makers: torchrun, accelerate launch, and Lightning's Trainer."""

from __future__ import annotations

from typing import Any

from tools import deepspeed_environment
from tools.matrix.row import Row
from tools.matrix.rows.digits import RANKS_PER_NODE, TRAIN, Material, prepare

SIZES = (1, 2)
OPTIONS = f"{TRAIN.removeprefix('train.py ')} --epochs 12"
"""Longer than the recipe, whose own loop gets more out of an epoch."""
CHECK = "python world.py {world} ${{{{outputs.model}}}}"
"""Fails where fewer ranks have trained than were meant."""


def job(made: Material, compute: str, nodes: int, command: str, *, per_node: int = 1) -> dict[str, Any]:
    """The job, as a file would say it. per_node: processes that drumbeat starts on a node."""
    return {
        "command": f"{deepspeed_environment.shell()}; {command} && {CHECK.format(world=nodes * RANKS_PER_NODE)}",
        "code": str(made.code),
        "compute": compute,
        "inputs": {"data": {"type": "uri_folder", "path": str(made.data)}},
        "outputs": {"model": {"type": "uri_folder"}},
        "environment_variables": deepspeed_environment.variables(),
        "distribution": {"type": "pytorch", "process_count_per_instance": per_node},
        "resources": {"instance_count": nodes},
        "drumbeat": {"max_retries": 0},
    }


def torchrun(made: Material, compute: str, nodes: int) -> dict[str, Any]:
    """On each node, over all nodes."""
    command = (
        f"torchrun --nnodes {nodes} --node_rank $NODE_RANK --nproc_per_node {RANKS_PER_NODE} "
        f"--master_addr $MASTER_ADDR --master_port $MASTER_PORT {TRAIN}"
    )
    return job(made, compute, nodes, command)


def accelerate(made: Material, compute: str, nodes: int) -> dict[str, Any]:
    """`--multi_gpu` is what makes it start several processes, also where there is no GPU."""
    command = (
        f"accelerate launch --multi_gpu --num_machines {nodes} --machine_rank $NODE_RANK "
        f"--num_processes {nodes * RANKS_PER_NODE} --main_process_ip $MASTER_ADDR --main_process_port $MASTER_PORT "
        f"--mixed_precision no --dynamo_backend no on_accelerate.py {OPTIONS}"
    )
    return job(made, compute, nodes, command)


def lightning(made: Material, compute: str, nodes: int) -> dict[str, Any]:
    """Lightning finds drumbeat's ranks by their variables."""
    command = f"python on_lightning.py {nodes} {OPTIONS}"
    return job(made, compute, nodes, command, per_node=RANKS_PER_NODE)


ROWS = (
    Row("torchrun", prepare, torchrun, deepspeed_environment.missing, SIZES),
    Row("accelerate", prepare, accelerate, deepspeed_environment.missing, SIZES),
    Row("lightning", prepare, lightning, deepspeed_environment.missing, SIZES),
)

"""The job that does nothing but the pre-flight of a compute's nodes."""

from __future__ import annotations

from drumbeat.protocol.api.computes import ComputeView
from drumbeat.protocol.errors import RefusedError
from drumbeat.protocol.plurals import counted

MAX_NODES = 16
"""How many nodes are checked where no number is given."""


def check_job(compute: ComputeView, nodes: int | None) -> dict[str, object]:
    """Returns the job for a compute. nodes: how many, None = all machines, at most `MAX_NODES`. Raises RefusedError.

    Machines that are kept for jobs with GPUs aren't among them: the job asks for none.
    """
    machines = compute.machines_for_all
    count = nodes or min(len(machines), MAX_NODES)
    if count < 2:
        what = f"a pre-flight is between nodes, and compute {compute.name} has {counted(len(machines), 'machine')}"
        if len(machines) < len(compute.machines):
            what += " for jobs without GPUs"
        if nodes is not None:
            what = f"a pre-flight is between nodes, and {nodes} is too few"
        raise RefusedError(what, where="--nodes", fix="Give at least 2: several nodes of a job may share a machine.")
    return {
        "command": "true",
        "compute": compute.name,
        "display_name": f"check of {compute.name}",
        "experiment_name": "checks",
        "resources": {"instance_count": count},
        "drumbeat": {
            "environment": "current",
            "preflight": True,
            "max_retries": 0,
            "system_metrics": False,
            "warm_start": False,
        },
    }

"""The main job's own script under Ray: its ranks are actors, two on each node of a cluster of the job's own."""

from __future__ import annotations

from typing import Any

from tools import ray_environment
from tools.matrix.row import Row
from tools.matrix.rows.digits import RANKS_PER_NODE, TRAIN, Material, prepare


def job(made: Material, compute: str, nodes: int) -> dict[str, Any]:
    """The job, as a file would say it."""
    there = ray_environment.provide()
    if isinstance(there, str):
        raise RuntimeError(there)  # noqa: TRY004 (it is a sentence, not a wrong type)
    return {
        "command": f"{there.python} on_ray.py {RANKS_PER_NODE} {TRAIN}",
        "code": str(made.code),
        "compute": compute,
        "inputs": {"data": {"type": "uri_folder", "path": str(made.data)}},
        "outputs": {"model": {"type": "uri_folder"}},
        "environment_variables": {"PATH": there.path},
        "distribution": {"type": "ray"},
        "resources": {"instance_count": nodes},
        "drumbeat": {"max_retries": 0},
    }


ROWS = (Row("ray", prepare, job, ray_environment.missing, (1, 2)),)
"""One row."""

"""A mesh: the ranks of a job as a grid with named dimensions, of which the last one counts fastest.

The order is that of torch's `init_device_mesh`, so a script that makes its DeviceMesh from `DRUMBEAT_MESH` has each
rank at the coordinates that `drumbeat plan` prints.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

VARIABLE = "DRUMBEAT_MESH"
"""The sizes by dimension as JSON, outermost first: `{"pp": 2, "dp": 2}`. `DRUMBEAT_MESH_PP` is the rank's own index."""

_WORDS = {
    "pp": ("pipeline stage", "stage"),
    "dp": ("data shard", "shard"),
    "tp": ("tensor shard", "tensor shard"),
    "fsdp": ("parameter shard", "parameter shard"),
    "dp_shard": ("parameter shard", "parameter shard"),
    "dp_replicate": ("replica", "replica"),
    "cp": ("sequence shard", "sequence shard"),
    "ep": ("expert group", "expert group"),
}
"""What one index of a usual dimension is called in a summary, and beside a rank."""


def coordinates(mesh: Mapping[str, int], rank: int) -> dict[str, int]:
    """The rank's index in each dimension."""
    indices: dict[str, int] = {}
    for name, size in reversed([*mesh.items()]):
        rank, indices[name] = divmod(rank, size)
    return {name: indices[name] for name in mesh}


def variables(mesh: Mapping[str, int], rank: int) -> dict[str, str]:
    """The environment of a rank; empty without a mesh."""
    if not mesh:
        return {}
    own = {f"{VARIABLE}_{name.upper()}": str(index) for name, index in coordinates(mesh, rank).items()}
    return {VARIABLE: json.dumps(dict(mesh)), **own}


def format_mesh(mesh: Mapping[str, int]) -> str:
    """`2 pipeline stages (pp) × 2 data shards (dp)`; empty without a mesh."""
    return " × ".join(_format_dimension(name, size) for name, size in mesh.items())


def format_place(mesh: Mapping[str, int], rank: int) -> str:
    """`stage 0, shard 1`."""
    return ", ".join(f"{_WORDS.get(name, ('', name))[1]} {index}" for name, index in coordinates(mesh, rank).items())


def _format_dimension(name: str, size: int) -> str:
    if name not in _WORDS:
        return f"{size} {name}"
    return f"{size} {_WORDS[name][0]}{'' if size == 1 else 's'} ({name})"

"""The part of the data that a rank reads: its index among the data shards, and their number.

Each rank is its own shard unless the job has a mesh. Ranks that differ only in a dimension that divides the model
(pipeline stages, for example) read the same samples.
"""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Mapping, Sequence
from itertools import cycle, islice
from typing import TypeVar

from drumbeat.model import mesh
from drumbeat.model.errors import RefusedError
from drumbeat.train.launchers import read_identity
from drumbeat.train.rank_group import check_ranks_have_met

# `shard` divides the samples of an epoch among the ranks of a fast.ai learner. Pure.
#
# A `ResumableLoader` divides its batches by itself, in `resumable_loader.py`.

Sample = TypeVar("Sample")


def shard(samples: Sequence[Sample], rank: int, world_size: int, *, is_even: bool) -> list[Sample]:
    """Returns every `world_size`-th sample from `rank` on, so that batch k of all ranks is batch k of one process.

    is_even: whether all ranks get the same number, for which some of the first samples are repeated at the end.
    Training needs it, because the ranks wait for one another in each step; with uneven shards each sample comes exactly
    once.
    """
    if is_even and samples:
        missing = -len(samples) % world_size
        samples = [*samples, *islice(cycle(samples), missing)]
    return list(samples[rank::world_size])


DATA_DIMENSIONS = ("dp", "fsdp", "dp_shard", "dp_replicate")
"""Dimensions of a mesh whose ranks read different samples."""
MODEL_DIMENSIONS = ("pp", "tp", "cp")
"""Dimensions whose ranks read the same samples. Expert groups (`ep`) do either, depending on the model's code."""


def ranks_that_met() -> tuple[int, int] | None:
    """Returns this process's rank in torch's process group and the group's size, None = there is no group."""
    dist = sys.modules.get("torch.distributed")  # Without torch, as with TensorFlow, it isn't imported for this.
    if dist is None or not dist.is_available() or not dist.is_initialized():
        return None
    return dist.get_rank(), dist.get_world_size()


def ranks_of_training() -> tuple[int, int]:
    """Returns rank and number of ranks by the process group or, without one, by the launcher."""
    if met := ranks_that_met():
        return met
    identity = read_identity(os.environ)
    return identity.rank, identity.world_size


def own_shard(where: str) -> tuple[int, int]:
    """Returns index and number of the data shards for this rank of torch's process group.

    Raises RefusedError if a launcher started several ranks and there is no group, or as `shard_in_mesh` does.
    """
    check_ranks_have_met(where, "Call train.init() first, or give shard=(index, count).")
    return shard_in_mesh(*ranks_of_training(), os.environ, where)


def shard_in_mesh(rank: int, world_size: int, variables: Mapping[str, str], where: str) -> tuple[int, int]:
    """Returns index and number of the data shards for a rank in the mesh of its job; without a mesh, each rank is a
    shard.

    Raises RefusedError if the mesh has another number of ranks, or if it is unclear which ranks along a dimension read
    the same samples.
    """
    sizes: dict[str, int] = json.loads(variables.get(mesh.VARIABLE) or "{}")
    if not sizes:
        return rank, world_size
    fix = "Give the data shards explicitly: shard=(index, count) for ResumableLoader, shards=count for scaled."
    if math.prod(sizes.values()) != world_size:
        ranks = "1 rank is" if world_size == 1 else f"{world_size} ranks are"
        what = f"the job's mesh is {mesh.format_mesh(sizes)}, but {ranks} running"
        raise RefusedError(what, where=where, fix=fix)
    dimensions = {*DATA_DIMENSIONS, *MODEL_DIMENSIONS}
    if unknown := [name for name, size in sizes.items() if size > 1 and name not in dimensions]:
        what = f"it is unclear whether the ranks along {unknown[0]!r} of the job's mesh read the same samples"
        raise RefusedError(what, where=where, fix=fix)
    index, count = 0, 1
    for name, place in mesh.coordinates(sizes, rank).items():
        if name in DATA_DIMENSIONS:
            index, count = index * sizes[name] + place, count * sizes[name]
    return index, count

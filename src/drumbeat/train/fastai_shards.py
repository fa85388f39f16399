"""`shard` divides the samples of an epoch among the ranks of a fast.ai learner. Pure.

A `ResumableLoader` divides its batches by itself, in `resumable_loader.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle, islice
from typing import TypeVar

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

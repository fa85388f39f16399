"""A group of ranks for agreements; a single process is a group, too.

The group uses Gloo whatever carries the gradients, so that a background thread may use it while training continues.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Sequence
from typing import Any

from drumbeat.model.errors import RefusedError
from drumbeat.train import process_group
from drumbeat.train.launchers import read_identity

_FIX = "Call train.init() first. A process that trains alone has RANK=0 and WORLD_SIZE=1 in its environment."


def check_ranks_have_met(where: str, fix: str = _FIX) -> None:
    """Refuses to treat this process as the only one if its launcher has started several that share no group yet.

    where: the caller's name for the error. fix: the advice. Raises RefusedError for a launcher's incomplete variables,
    too.
    """
    dist = _distributed()
    if dist.is_available() and dist.is_initialized():
        return
    identity = read_identity(os.environ)
    if identity.world_size > 1:
        what = f"{identity.world_size} ranks were started (by {identity.launcher}), but they haven't met"
        raise RefusedError(what, where=where, fix=fix)


class RankGroup:
    """Some ranks of the training, in order. Creating one is collective over all ranks, members or not."""

    def __init__(self, ranks: Sequence[int] | None = None) -> None:
        dist = _distributed()
        self.is_distributed = dist.is_available() and dist.is_initialized()
        # A group's timeout is the library's default unless it is given, whatever the first group's is.
        timeout = process_group.current_timeout()
        self.group: Any = dist.new_group(ranks, timeout, backend="gloo") if self.is_distributed else None
        self.ranks = list(ranks) if ranks is not None else list(range(dist.get_world_size() if self.group else 1))
        own = dist.get_rank() if self.is_distributed else 0
        self.index = self.ranks.index(own) if own in self.ranks else -1
        """The index of this rank in the group, -1 = it isn't a member."""

    @property
    def size(self) -> int:
        """The number of ranks."""
        return len(self.ranks)

    @property
    def is_leader(self) -> bool:
        """Whether this is the group's first rank, which writes common files."""
        return self.index == 0

    def gather(self, value: Any) -> list[Any]:
        """Returns the value of each rank, in order, on all of them. Values are pickled."""
        if not self.is_distributed:
            return [value]
        values: list[Any] = [None] * self.size
        _distributed().all_gather_object(values, value, group=self.group)
        return values

    def broadcast(self, value: Any, source: int = 0) -> Any:
        """Returns the value of the rank at this index of the group. Values are pickled."""
        if not self.is_distributed:
            return value
        box = [value]
        _distributed().broadcast_object_list(box, src=self.ranks[source], group=self.group)
        return box[0]

    def any(self, *flags: bool) -> tuple[bool, ...]:
        """Returns for each flag whether a rank has set it: one small all-reduce."""
        if not self.is_distributed:
            return flags
        import torch

        dist, votes = _distributed(), torch.tensor(flags, dtype=torch.uint8)
        dist.all_reduce(votes, op=dist.ReduceOp.MAX, group=self.group)
        return tuple(bool(vote) for vote in votes)


def _distributed() -> Any:
    """Returns torch's module, whose types are open."""
    return importlib.import_module("torch.distributed")

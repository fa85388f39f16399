"""Detects whether the ranks of a training have one model, or parts of it, such as stages of a pipeline.

A checkpoint has one tensor for each name. Parts are distinguished by the names of their tensors, or by the stage that
`Checkpoints` gets.
"""

from __future__ import annotations

import dataclasses
import hashlib
import sys
import zlib
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from drumbeat.model.errors import RefusedError
from drumbeat.train.rank_group import RankGroup

if TYPE_CHECKING:
    from torch import nn

_MAX_COMPARED = 16_384
"""How many numbers of each weight are compared."""
_FIX = "Give each stage of a pipeline its number: train.Checkpoints(…, stage=0) on the ranks of the first, and so on."


@dataclasses.dataclass(frozen=True)
class WeightsOfRank:
    """The summary of a rank's weights for the other ranks. Ranks with the same `place` should
    have the same `content`.
    """

    place: str
    """A hash of stage, names, sizes, and shards."""
    content: int
    """A checksum of the first numbers of each weight."""
    is_divided: bool
    """Whether torch allows other weights outside of this rank's group: shards, or DDP within a group."""


def tensor_shapes(root: Iterable[str], tensors: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    """Returns the sizes of a model's tensors by name. root: the prefix of a rank's tensors."""
    return {".".join((*root, name)): tuple(getattr(tensor, "shape", ())) for name, tensor in tensors.items()}


def have_one_model(ranks: RankGroup, shapes: Mapping[str, tuple[int, ...]]) -> bool:
    """Returns whether all ranks have tensors of the same names and sizes."""
    return len({*ranks.gather(_digest(sorted(shapes.items())))}) == 1


def check_names_of_parts(ranks: RankGroup, shapes: Mapping[str, tuple[int, ...]], where: str) -> None:
    """Raises RefusedError if ranks have different models, and a name is in two of them."""
    digests: list[str] = ranks.gather(_digest(sorted(shapes.items())))
    is_first_of_part = digests.index(digests[ranks.index]) == ranks.index
    owners = dict[str, int]()
    for rank, part in zip(ranks.ranks, ranks.gather(shapes if is_first_of_part else {}), strict=True):
        for name in part:
            if name in owners:
                what = f"ranks {owners[name]} and {rank} have different models, and both have a tensor `{name}`"
                raise RefusedError(what, where=where, fix=_FIX)
            owners[name] = rank


def weights_of_rank(model: nn.Module, root: Iterable[str], tensors: Mapping[str, Any]) -> WeightsOfRank:
    """Returns the summary of this rank's weights. tensors: of the model, as in the checkpoint."""
    addresses = {_own(parameter).data_ptr() for parameter in model.parameters()}
    plain = {name: one for name, one in tensors.items() if hasattr(one, "to_local") or type(one).__name__ == "Tensor"}
    weights = {name: one for name, one in plain.items() if _own(one).data_ptr() in addresses}
    places = [(name, tuple(one.shape), _coordinate(one)) for name, one in sorted(weights.items())]
    content = 0
    for _, one in sorted(weights.items()):
        content = zlib.crc32(_first_bytes(_own(one)), content)
    is_divided = _is_ddp(model) or any(hasattr(one, "device_mesh") for one in weights.values())
    return WeightsOfRank(_digest([*root, places]), content, is_divided)


def find_unequal_weights(ranks: RankGroup, own: WeightsOfRank, where: str) -> str:
    """Checks whether ranks with the same names have the same weights. Returns a line for the log if they don't.

    Raises RefusedError if they are then stages of a pipeline.
    """
    first = dict[str, tuple[int, WeightsOfRank]]()
    for rank, one in zip(ranks.ranks, ranks.gather(own), strict=True):
        other, earlier = first.setdefault(one.place, (rank, one))
        if earlier.content == one.content:
            continue
        what = f"ranks {other} and {rank} have different weights under the same names"
        if one.is_divided or "torch.distributed.pipelining.stage" in sys.modules:
            raise RefusedError(what, where=where, fix=_FIX)
        return f"checkpoint: {what}, and rank {other}'s are saved, as when ranks train alone for some steps. {_FIX}"
    return ""


def is_wrapped_for_all(model: nn.Module, ranks: RankGroup) -> bool:
    """Whether DistributedDataParallel keeps the weights of all ranks equal."""
    import torch.distributed as dist

    return _is_ddp(model) and len(dist.get_process_group_ranks(_as_written(model).process_group)) == ranks.size


def _is_ddp(model: nn.Module) -> bool:
    from torch.nn.parallel import DistributedDataParallel

    return isinstance(_as_written(model), DistributedDataParallel)


def _as_written(model: nn.Module) -> Any:
    """Returns the original of a compiled model."""
    return getattr(model, "_orig_mod", model)


def _own(tensor: Any) -> Any:
    """Returns this rank's shard of a tensor."""
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor


def _coordinate(tensor: Any) -> Any:
    """Returns the position of this rank's shard of a tensor."""
    return tensor.device_mesh.get_coordinate() if hasattr(tensor, "device_mesh") else None


def _first_bytes(tensor: Any) -> bytes:
    import torch

    numbers = tensor.detach().flatten()[:_MAX_COMPARED].contiguous().cpu()
    return numbers.view(torch.uint8).numpy().tobytes() if numbers.numel() else b""


def _digest(value: Any) -> str:
    return hashlib.sha256(repr(value).encode()).hexdigest()

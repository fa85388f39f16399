"""Gradients in fewer bytes: torch's own hooks of DistributedDataParallel, by name, on any backend."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from drumbeat.model.errors import RefusedError

if TYPE_CHECKING:
    from torch.nn.parallel import DistributedDataParallel

_HOOKS = "torch.distributed.algorithms.ddp_comm_hooks"
KINDS = ("fp16", "bf16", "powersgd")


def compress(model: DistributedDataParallel, kind: str, *, rank: int = 4, begin: int = 10) -> None:
    """Makes the model send its gradients as `fp16`, `bf16` (half the bytes) or `powersgd` (two thin matrices for each).

    rank: columns of PowerSGD's matrices. begin: steps before which PowerSGD sends whole gradients, at least 2; what a
    step omits is added to the next (Vogels et al. 2019, arXiv:1905.13727). Raises RefusedError for another kind.
    """
    if kind not in KINDS:
        what = f"gradients can't be compressed as {kind!r}; available: {', '.join(KINDS)}"
        raise RefusedError(what, where="train.compress", fix="Choose one of them.")
    hooks: Any = importlib.import_module(f"{_HOOKS}.default_hooks")
    low_rank: Any = _low_rank()
    wrapped: Any = model  # torch leaves the types of hooks open.
    if kind == "fp16":
        wrapped.register_comm_hook(None, hooks.fp16_compress_hook)
    elif kind == "bf16":
        wrapped.register_comm_hook(None, _half)
    else:
        state = low_rank.PowerSGDState(None, matrix_approximation_rank=rank, start_powerSGD_iter=begin)
        wrapped.register_comm_hook(state, _in_order)


def _half(group: Any, bucket: Any) -> Any:
    """Torch's hook for bf16 under another name, because DDP refuses that one without NCCL; Gloo supports it, too."""
    return importlib.import_module(f"{_HOOKS}.default_hooks").bf16_compress_hook(group, bucket)


def _in_order(state: Any, bucket: Any) -> Any:
    """PowerSGD, of one bucket after the other on CPUs.

    Its second message is sent when the first has arrived, by whichever thread notices: with several buckets under way,
    ranks could send in different orders, and Gloo would confuse the messages and abort.
    """
    future = _low_rank().powerSGD_hook(state, bucket)
    if bucket.buffer().device.type == "cpu":
        future.wait()
    return future


def _low_rank() -> Any:
    return importlib.import_module(f"{_HOOKS}.powerSGD_hook")


# DDP compares a hook's annotations with its own types.
_half.__annotations__.clear()
_in_order.__annotations__.clear()

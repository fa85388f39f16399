"""Training with rare synchronization: local SGD, and DiLoCo's outer steps.

Ranks train alone for some steps and then agree on their weights, so a slow link carries the model once in that many
steps instead of the gradients in each.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from drumbeat.model.errors import RefusedError
from drumbeat.train.sent_bytes import SentBytes, average_gradients, byte_size, is_plain_ddp, mean_in_place

if TYPE_CHECKING:
    import torch
    from torch import nn


def local_sgd(optimizer: torch.optim.Optimizer, every: int) -> torch.optim.Optimizer:
    """Returns the optimizer with torch's periodic averaging: all ranks take the mean of their weights.

    It happens after the first step and every `every` steps later (Stich 2018, arXiv:1805.09767). `average(model)` makes
    the ranks equal at the end. The bytes sent are logged (`sent_bytes.py`).
    """
    _check_interval(every)
    weights = [weight for group in optimizer.param_groups for weight in group["params"] if weight.requires_grad]
    sent = SentBytes(weights)
    if is_plain_ddp():
        average_gradients(weights, sent)
        return optimizer
    from torch.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
    from torch.distributed.optim import PostLocalSGDOptimizer

    class CountingAverager(PeriodicModelAverager):
        """Torch's averager, which logs the bytes that it sends."""

        def average_parameters(self, params: Any) -> None:
            sent.count_step()
            own: Any = self
            is_due: bool = own.step >= own.warmup_steps and (own.step - own.warmup_steps) % own.period == 0
            super().average_parameters(params)
            if is_due:
                sent.add(byte_size(weights))

    return PostLocalSGDOptimizer(optimizer, CountingAverager(period=every))


def average(model: nn.Module) -> None:
    """Gives all ranks the mean of their weights and buffers."""
    import torch

    with torch.no_grad():
        tensors = _tensors(model)
        for tensor, mean in zip(tensors, _mean(tensors), strict=True):
            tensor.copy_(mean)


class OuterSteps:
    """DiLoCo's outer optimizer (Douillard et al. 2023, arXiv:2311.08105). Call `step()` after each inner step.

    After `every` steps, the mean over the ranks of how far each has moved is the gradient of one step of SGD with
    Nesterov momentum, and all ranks continue from there. `rate=1, momentum=0` is local SGD. The bytes sent are logged
    (`sent_bytes.py`).
    """

    def __init__(
        self,
        model: nn.Module,
        every: int,
        *,
        rate: float = 0.7,
        momentum: float = 0.9,
        dtype: torch.dtype | None = None,
    ) -> None:
        """Gives all ranks the weights of rank 0. dtype: of the messages; `torch.bfloat16` halves the bytes.

        Raises RefusedError if `every` isn't at least 1.
        """
        _check_interval(every)
        import torch

        self.every, self.steps = every, 0
        self._model, self._dtype = model, dtype
        self._weights = [weight for weight in model.parameters() if weight.requires_grad]
        with torch.no_grad():
            _broadcast(_tensors(model))
            self._starts = [weight.detach().clone() for weight in self._weights]
        self._sent = SentBytes(self._weights)
        self._is_plain_ddp = is_plain_ddp()
        self._hook: Any = average_gradients(self._weights, self._sent) if self._is_plain_ddp else None
        self._outer: Any = torch.optim.SGD(self._starts, lr=rate, momentum=momentum, nesterov=momentum > 0)

    def step(self) -> bool:
        """Counts an inner step. Returns whether the ranks were synchronized at it."""
        self.steps += 1
        if not self._is_plain_ddp:
            self._sent.count_step()
        if self.steps % self.every:
            return False
        self.synchronize()
        return True

    def synchronize(self) -> None:
        """Takes an outer step now: after it, all ranks have the same weights. Every rank must call it."""
        import torch

        if self._is_plain_ddp:  # The weights are equal already.
            with torch.no_grad():
                mean_in_place(_buffers(self._model))
            return
        with torch.no_grad():
            moves = [start - weight for start, weight in zip(self._starts, self._weights, strict=True)]
            for start, mean in zip(self._starts, _mean(moves, self._dtype), strict=True):
                start.grad = mean
            self._outer.step()
            for start, weight in zip(self._starts, self._weights, strict=True):
                weight.copy_(start)
            buffers = _buffers(self._model)
            for buffer, mean in zip(buffers, _mean(buffers), strict=True):
                buffer.copy_(mean)
        self._sent.add(byte_size(moves, self._dtype.itemsize if self._dtype else 0) + byte_size(buffers))

    def state_dict(self) -> dict[str, Any]:
        """Returns what a checkpoint needs beside the model and the inner optimizer."""
        counted = {"steps": self._sent.steps, "bytes": self._sent.sent}
        return {"steps": self.steps, "starts": self._starts, "outer": self._outer.state_dict(), "sent": counted}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restores a result of `state_dict`."""
        import torch

        self.steps = state["steps"]
        counted = state.get("sent", {})  # Checkpoints of earlier versions have no count.
        self._sent.steps, self._sent.sent = counted.get("steps", self.steps), counted.get("bytes", 0)
        with torch.no_grad():
            for start, stored in zip(self._starts, state["starts"], strict=True):
                start.copy_(stored)
        self._outer.load_state_dict(state["outer"])


def _check_interval(every: int) -> None:
    if every < 1:
        raise RefusedError(f"ranks can't be synchronized every {every} steps", where="every", fix="Use 1 or more.")


def _tensors(model: nn.Module) -> list[torch.Tensor]:
    return [*model.parameters(), *_buffers(model)]


def _buffers(model: nn.Module) -> list[torch.Tensor]:
    """The buffers that have a mean: running statistics, not counters."""
    return [buffer for buffer in model.buffers() if buffer.is_floating_point()]


def _broadcast(tensors: list[torch.Tensor]) -> None:
    dist: Any = importlib.import_module("torch.distributed")
    for tensor in tensors:
        dist.broadcast(tensor, 0)


def _mean(tensors: list[torch.Tensor], dtype: torch.dtype | None = None) -> list[torch.Tensor]:
    """The mean of each tensor over the ranks, sent as one message of the given type; None = float32, or wider."""
    import torch

    if not tensors:
        return []
    dist: Any = importlib.import_module("torch.distributed")
    flat: Any = torch.cat([tensor.detach().flatten() for tensor in tensors])
    wide = torch.promote_types(flat.dtype, torch.float32)
    # Divided first, so that a narrow type doesn't overflow; and in a wide type, in which equal weights keep their
    # value.
    flat = flat.to(wide).div_(dist.get_world_size()).to(dtype or wide)
    dist.all_reduce(flat)
    parts: tuple[torch.Tensor, ...] = flat.to(wide).split([tensor.numel() for tensor in tensors])
    return [part.view_as(tensor).to(tensor.dtype) for part, tensor in zip(parts, tensors, strict=True)]

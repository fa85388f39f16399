"""The bytes that rare updates send, as metrics of the job; and the plain DDP rule for a comparison run of the same
script.

The count is of the tensors that a rank gives to the others; a ring of N ranks passes on 2 (N - 1) / N times as much.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from drumbeat.model.errors import RefusedError
from drumbeat.rank.metric_log import log

if TYPE_CHECKING:
    import torch

VARIABLE = "DRUMBEAT_UPDATES"
"""With `ddp`, gradients are averaged in each step, as DistributedDataParallel does, whatever the script requests."""
SENT, OF_DDP = "system/updates/bytes_sent", "system/updates/bytes_of_ddp"
"""The metrics: bytes that the rank has sent so far, and the bytes of DDP's gradients."""


def is_plain_ddp() -> bool:
    """Whether this is the comparison run. Raises RefusedError for an unknown value."""
    word = os.environ.get(VARIABLE, "")
    if word not in ("", "ddp"):
        raise RefusedError(f"{VARIABLE} is {word[:80]!r}", where="train", fix="Set it to `ddp`, or unset it.")
    return word == "ddp"


def byte_size(tensors: Iterable[torch.Tensor], bytes_per_value: int = 0) -> int:
    """Returns the bytes of tensors. bytes_per_value: of the type in which they are sent; 0 = their own."""
    return sum(one.numel() * (bytes_per_value or one.element_size()) for one in tensors)


class SentBytes:
    """The bytes that one rank has sent so far."""

    def __init__(self, weights: Iterable[torch.Tensor]) -> None:
        self._of_step = byte_size(weights)
        self.steps = self.sent = 0

    def count_step(self) -> None:
        """Counts a step of the inner optimizer, after which DDP would have sent all gradients."""
        self.steps += 1

    def add(self, count: int) -> None:
        """Counts sent bytes, and logs the sum at this step."""
        self.sent += count
        log(step=self.steps, **{SENT: self.sent, OF_DDP: self.steps * self._of_step})


def average_gradients(weights: Sequence[torch.Tensor], sent: SentBytes) -> Any:
    """Gives all ranks the mean of the gradients of these weights before each step of the optimizers that have them.

    Returns torch's handle, whose `remove()` ends that.
    """
    own = {id(weight): weight for weight in weights}  # A reference, so that no other tensor gets the id.

    def before_step(optimizer: Any, *_: object) -> None:
        held = [one for group in optimizer.param_groups for one in group["params"] if id(one) in own]
        gradients = [one.grad for one in held if one.grad is not None]
        if gradients:
            mean_in_place(gradients)
            sent.count_step()
            sent.add(byte_size(gradients))

    optimizers: Any = importlib.import_module("torch.optim.optimizer")
    return optimizers.register_optimizer_step_pre_hook(before_step)


def mean_in_place(tensors: Sequence[torch.Tensor]) -> None:
    """Sets each tensor to its mean over the ranks."""
    dist: Any = importlib.import_module("torch.distributed")
    for tensor in tensors:
        dist.all_reduce(tensor.div_(dist.get_world_size()))

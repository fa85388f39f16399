"""What rare updates send, as metrics of the job; and a run of the same script by plain DDP's rule, to compare with.

Counted are the tensors that a rank gives to the others; a ring of N ranks passes on 2 (N - 1) / N times as much.
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
"""With `ddp`, gradients are averaged in each step, as DistributedDataParallel does, whatever the script asks for."""
SENT, OF_DDP = "system/updates/bytes_sent", "system/updates/bytes_of_ddp"
"""The metrics: bytes that the rank has given so far, and those that DDP's gradients would have been."""


def is_plain_ddp() -> bool:
    """Whether this is the run to compare with. Raises RefusedError for a word that means nothing."""
    word = os.environ.get(VARIABLE, "")
    if word not in ("", "ddp"):
        raise RefusedError(f"{VARIABLE} is {word[:80]!r}", where="train", fix="Set it to `ddp`, or not at all.")
    return word == "ddp"


def size_of(tensors: Iterable[torch.Tensor], bytes_per_value: int = 0) -> int:
    """Returns the bytes of tensors. bytes_per_value: as which they are sent; 0 = as they are."""
    return sum(one.numel() * (bytes_per_value or one.element_size()) for one in tensors)


class SentBytes:
    """The bytes of one rank so far."""

    def __init__(self, weights: Iterable[torch.Tensor]) -> None:
        self._of_step = size_of(weights)
        self.steps = self.sent = 0

    def count_step(self) -> None:
        """Counts a step of the inner optimizer, after which DDP would have sent all gradients."""
        self.steps += 1

    def add(self, count: int) -> None:
        """Counts bytes that are sent, and logs the sum at this step."""
        self.sent += count
        log(step=self.steps, **{SENT: self.sent, OF_DDP: self.steps * self._of_step})


def average_gradients(weights: Sequence[torch.Tensor], sent: SentBytes) -> Any:
    """Gives all ranks the mean of the gradients of these weights before each step of the optimizers that have them.

    Returns torch's handle, whose `remove()` ends that.
    """
    own = {id(weight): weight for weight in weights}  # Held, so that no other tensor gets its id.

    def before_step(optimizer: Any, *_: object) -> None:
        held = [one for group in optimizer.param_groups for one in group["params"] if id(one) in own]
        gradients = [one.grad for one in held if one.grad is not None]
        if gradients:
            mean_in_place(gradients)
            sent.count_step()
            sent.add(size_of(gradients))

    optimizers: Any = importlib.import_module("torch.optim.optimizer")
    return optimizers.register_optimizer_step_pre_hook(before_step)


def mean_in_place(tensors: Sequence[torch.Tensor]) -> None:
    """Sets each tensor to its mean over the ranks."""
    dist: Any = importlib.import_module("torch.distributed")
    for tensor in tensors:
        dist.all_reduce(tensor.div_(dist.get_world_size()))

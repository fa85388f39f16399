"""The global batch and the learning rate that belongs to it: computed, explained, recorded. Pure but for `scaled`."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass

from drumbeat.protocol.errors import RefusedError
from drumbeat.rank.parameters import log_parameters
from drumbeat.train import process_group
from drumbeat.train.launchers import read_identity

LINEAR, SQUARE_ROOT, LARS, NONE = "linear", "sqrt", "lars", "none"
RULES = {
    LINEAR: "linear rule (Goyal et al. 2017)",
    SQUARE_ROOT: "square-root rule (Krizhevsky 2014)",
    LARS: "linear rule with LARS (You et al. 2017)",
    NONE: "no scaling",
}


@dataclass(frozen=True)
class BatchScaling:
    """A batch per rank, and the learning rate for all of them together."""

    world_size: int
    batch_per_rank: int
    base_lr: float
    """The rate that suits `base_batch`."""
    base_batch: int
    rule: str
    warmup_steps: int = 0

    @property
    def global_batch(self) -> int:
        """The samples of one step over all ranks."""
        return self.world_size * self.batch_per_rank

    @property
    def scale(self) -> float:
        """What the base rate is multiplied by."""
        ratio = self.global_batch / self.base_batch
        return 1.0 if self.rule == NONE else math.sqrt(ratio) if self.rule == SQUARE_ROOT else ratio

    @property
    def lr(self) -> float:
        """The learning rate after the warm-up."""
        return self.base_lr * self.scale

    def factor(self, step: int) -> float:
        """Returns what `lr` is multiplied by at a step, counted from 0: the warm-up, then 1.

        The rate rises in a line from the base rate (Goyal et al., 2.2), with LARS from almost nothing (You et al.).
        For `torch.optim.lr_scheduler.LambdaLR(optimizer, scaling.factor)`.
        """
        if step >= self.warmup_steps:
            return 1.0
        first = 0.0 if self.rule == LARS else min(1.0, 1 / self.scale)
        return first + (1 - first) * (step + 1) / self.warmup_steps

    def parameters(self) -> dict[str, object]:
        """Returns the names and values that are recorded."""
        return {
            "world_size": self.world_size,
            "batch_per_rank": self.batch_per_rank,
            "global_batch": self.global_batch,
            "base_learning_rate": self.base_lr,
            "base_batch": self.base_batch,
            "learning_rate": self.lr,
            "learning_rate_rule": self.rule,
            "warmup_steps": self.warmup_steps,
        }

    def __str__(self) -> str:
        """Returns the sentence that explains it."""
        ranks = "1 rank" if self.world_size == 1 else f"{self.world_size} ranks"
        batch = f"global batch {self.global_batch:,} = {ranks} × {self.batch_per_rank:,}"
        if self.rule == NONE:
            return f"{batch}; learning rate {self.lr:g}, as given"
        how = f"by the {RULES[self.rule]}: {self.global_batch:,} samples a step against {self.base_batch:,}"
        rate = f"learning rate {self.lr:g} = {self.base_lr:g} × {self.scale:g} {how}"
        warm = f", after a warm-up of {self.warmup_steps:,} steps" if self.warmup_steps else ""
        return f"{batch}; {rate}{warm}"


def scaling_of(  # noqa: PLR0913 (keywords, each with a default)
    base_lr: float,
    *,
    world_size: int,
    batch_per_rank: int = 0,
    global_batch: int = 0,
    base_batch: int = 0,
    rule: str = LINEAR,
    warmup_steps: int = 0,
) -> BatchScaling:
    """Returns the scaling of a batch, which is named per rank or for all ranks together.

    base_batch: the samples of a step that `base_lr` suits; 0 = the batch of one rank. Raises RefusedError.
    """
    if rule not in RULES:
        raise _refused(f"there is no rule {rule!r}", f"Choose one of {', '.join(RULES)}.")
    if batch_per_rank < 0 or global_batch < 0:
        raise _refused(
            f"a batch is negative: batch_per_rank {batch_per_rank}, global_batch {global_batch}",
            "Give one of the two, as a positive number.",
        )
    if (batch_per_rank > 0) == (global_batch > 0):
        raise _refused(
            f"the batch is named twice or not at all: batch_per_rank {batch_per_rank}, global_batch {global_batch}",
            "Give one of the two, as a positive number.",
        )
    if global_batch % world_size:
        raise _refused(
            f"a global batch of {global_batch} doesn't split evenly over {world_size} ranks",
            f"Take a multiple of {world_size}, such as {math.ceil(global_batch / world_size) * world_size}.",
        )
    if base_batch < 0 or warmup_steps < 0 or not base_lr > 0:
        what = f"base_lr {base_lr:g}, base_batch {base_batch}, warmup_steps {warmup_steps}"
        raise _refused(f"not a positive number among {what}", "Only base_batch and warmup_steps may be 0.")
    each = batch_per_rank or global_batch // world_size
    return BatchScaling(world_size, each, base_lr, base_batch or each, rule, warmup_steps)


def scaled(  # noqa: PLR0913 (keywords, each with a default)
    base_lr: float,
    *,
    batch_per_rank: int = 0,
    global_batch: int = 0,
    base_batch: int = 0,
    rule: str = LINEAR,
    warmup_steps: int = 0,
) -> BatchScaling:
    """Scales the learning rate to the ranks of this job; rank 0 prints the sentence and records the parameters.

    The ranks are those of `init()`, or without it those that the launcher names. For the rest see `scaling_of`.
    """
    world = process_group.current_world() or read_identity(os.environ)
    scaling = scaling_of(
        base_lr,
        world_size=world.world_size,
        batch_per_rank=batch_per_rank,
        global_batch=global_batch,
        base_batch=base_batch,
        rule=rule,
        warmup_steps=warmup_steps,
    )
    if world.rank == 0:
        print(scaling, flush=True)  # noqa: T201 (a rank's own log)
        log_parameters(scaling.parameters())
    return scaling


def _refused(what: str, fix: str) -> RefusedError:
    return RefusedError(what, where="train.scaled", fix=fix)

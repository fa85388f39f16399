"""The global batch and its learning rate: computed, explained, recorded. Pure except for `scaled`."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass

from drumbeat.model.errors import RefusedError
from drumbeat.rank.parameters import log_parameters
from drumbeat.train.data_shards import ranks_of_training, shard_in_mesh

WHERE = "train.scaled"
LINEAR, SQUARE_ROOT, LARS, NONE = "linear", "sqrt", "lars", "none"
RULES = {
    LINEAR: "linear rule (Goyal et al. 2017)",
    SQUARE_ROOT: "square-root rule (Krizhevsky 2014)",
    LARS: "linear rule with LARS (You et al. 2017)",
    NONE: "no scaling",
}


@dataclass(frozen=True)
class BatchScaling:
    """A batch per rank, and the learning rate for all ranks together."""

    world_size: int
    batch_per_rank: int
    base_lr: float
    """The rate that suits `base_batch`."""
    base_batch: int
    rule: str
    warmup_steps: int = 0
    shards: int = 0
    """The number of data shards: ranks of one shard read the same samples. 0 = each rank is one."""

    @property
    def global_batch(self) -> int:
        """The number of samples of one step over all ranks."""
        return (self.shards or self.world_size) * self.batch_per_rank

    @property
    def scale(self) -> float:
        """The factor of the base rate."""
        ratio = self.global_batch / self.base_batch
        return 1.0 if self.rule == NONE else math.sqrt(ratio) if self.rule == SQUARE_ROOT else ratio

    @property
    def lr(self) -> float:
        """The learning rate after the warm-up."""
        return self.base_lr * self.scale

    def factor(self, step: int) -> float:
        """Returns the factor of `lr` at a step, counted from 0: the warm-up, then 1.

        The rate rises linearly from the base rate (Goyal et al., 2.2), with LARS from almost zero (You et al.). For
        `torch.optim.lr_scheduler.LambdaLR(optimizer, scaling.factor)`.
        """
        if step >= self.warmup_steps:
            return 1.0
        first = 0.0 if self.rule == LARS else min(1.0, 1 / self.scale)
        return first + (1 - first) * (step + 1) / self.warmup_steps

    def parameters(self) -> dict[str, object]:
        """Returns the recorded parameters."""
        return {
            "world_size": self.world_size,
            "batch_per_rank": self.batch_per_rank,
            "global_batch": self.global_batch,
            "base_learning_rate": self.base_lr,
            "base_batch": self.base_batch,
            "learning_rate": self.lr,
            "learning_rate_rule": self.rule,
            "warmup_steps": self.warmup_steps,
            **({"data_shards": self.shards} if self.shards else {}),
        }

    def __str__(self) -> str:
        """Returns a message that explains the scaling."""
        shards = _format_shards(self.shards) if self.shards else _format_ranks(self.world_size)
        batch = f"global batch {self.global_batch:,} = {shards} × {self.batch_per_rank:,}"
        if self.rule == NONE:
            return f"{batch}; learning rate {self.lr:g}, as given"
        how = f"by the {RULES[self.rule]}: {self.global_batch:,} samples a step against {self.base_batch:,}"
        rate = f"learning rate {self.lr:g} = {self.base_lr:g} × {self.scale:g} {how}"
        warm = f", after a warm-up of {self.warmup_steps:,} steps" if self.factor(0) < 1 else ""
        return f"{batch}; {rate}{warm}"


def compute_scaling(  # noqa: PLR0913 (keywords, each with a default)
    base_lr: float,
    *,
    world_size: int,
    batch_per_rank: int = 0,
    global_batch: int = 0,
    base_batch: int = 0,
    rule: str = LINEAR,
    warmup_steps: int = 0,
    shards: int = 0,
) -> BatchScaling:
    """Returns the scaling of a batch, which is given per rank or for all ranks together.

    base_batch: the batch that suits `base_lr`; 0 = the given one. shards: the number of data shards; 0 = each rank is
    one. Raises RefusedError.
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
            f"the batch is given twice or not at all: batch_per_rank {batch_per_rank}, global_batch {global_batch}",
            "Give one of the two, as a positive number.",
        )
    if not 0 <= shards <= world_size:
        raise _refused(
            f"{shards} data shards can't be read by {_format_ranks(world_size)}",
            "Give the number of parts of the data that the ranks read.",
        )
    shards = 0 if shards == world_size else shards
    if global_batch % (count := shards or world_size):
        raise _refused(
            f"a global batch of {global_batch} doesn't split evenly over "
            f"{_format_shards(shards) if shards else _format_ranks(world_size)}",
            f"Use a multiple of {count}, such as {math.ceil(global_batch / count) * count}.",
        )
    if base_batch < 0 or warmup_steps < 0 or not base_lr > 0:
        what = f"base_lr {base_lr:g}, base_batch {base_batch}, warmup_steps {warmup_steps}"
        raise _refused(f"not a positive number among {what}", "Only base_batch and warmup_steps may be 0.")
    each = batch_per_rank or global_batch // count
    suits = base_batch or batch_per_rank or global_batch
    return BatchScaling(world_size, each, base_lr, suits, rule, warmup_steps, shards)


def scaled(  # noqa: PLR0913 (keywords, each with a default)
    base_lr: float,
    *,
    batch_per_rank: int = 0,
    global_batch: int = 0,
    base_batch: int = 0,
    rule: str = LINEAR,
    warmup_steps: int = 0,
    shards: int = 0,
) -> BatchScaling:
    """Scales the learning rate to the ranks of this job; rank 0 prints the explanation and records the parameters.

    The ranks are those of torch's process group or, without one, of the launcher. shards: 0 = the data dimensions of
    the job's mesh; without a mesh, each rank reads its own data. For the rest see `compute_scaling`.
    """
    rank, world_size = ranks_of_training()
    scaling = compute_scaling(
        base_lr,
        world_size=world_size,
        batch_per_rank=batch_per_rank,
        global_batch=global_batch,
        base_batch=base_batch,
        rule=rule,
        warmup_steps=warmup_steps,
        shards=shards or shard_in_mesh(rank, world_size, os.environ, WHERE)[1],
    )
    if rank == 0:
        print(scaling, flush=True)  # noqa: T201 (a rank's own log)
        log_parameters(scaling.parameters())
    return scaling


def _format_ranks(count: int) -> str:
    return "1 rank" if count == 1 else f"{count} ranks"


def _format_shards(count: int) -> str:
    return "1 data shard" if count == 1 else f"{count} data shards"


def _refused(what: str, fix: str) -> RefusedError:
    return RefusedError(what, where=WHERE, fix=fix)

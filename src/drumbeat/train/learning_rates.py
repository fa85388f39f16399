"""`LearningRates` adjusts the learning rate when another number of ranks resumes, as `scaled` computes it.

A checkpoint has the rates of the ranks that saved it, in the optimizers and in the schedules.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from drumbeat.train.batch_scaling import BatchScaling

_OF_GROUPS = ("lr", "initial_lr", "max_lr", "min_lr")
"""The rates that a group of parameters may have; the last three are those of torch's schedules."""
_OF_SCHEDULES = ("base_lrs", "max_lrs", "_last_lr")


class LearningRates:
    """The rates of optimizers and torch's schedules, as a part of a checkpoint that is restored after these."""

    def __init__(self, scaling: BatchScaling, optimizers: Iterable[Any], others: Iterable[Any]) -> None:
        """Takes the scaling of these ranks. others: include the schedules."""
        self._scaling, self._optimizers, self._others = scaling, list(optimizers), list(others)

    def state_dict(self) -> dict[str, float]:
        """Returns the rate that the scaling gives."""
        return {"lr": self._scaling.lr}

    def load_state_dict(self, state: dict[str, float]) -> None:
        """Multiplies all rates by the ratio of the current and the saved scaling."""
        ratio = self._scaling.lr / state["lr"]
        if ratio == 1:
            return
        for group in (group for optimizer in self._optimizers for group in optimizer.param_groups):
            group.update({name: group[name] * ratio for name in _OF_GROUPS if name in group})
        for schedule in _with_inner(self._others):
            for name in _OF_SCHEDULES:
                rates: list[Any] | None = getattr(schedule, name, None)
                if rates is not None:
                    setattr(schedule, name, [rate * ratio for rate in rates])
        for other in self._others:
            _apply_factor(other)


def _with_inner(others: Iterable[Any]) -> Iterator[Any]:
    """Yields these and their inner schedules, which SequentialLR has."""
    for other in others:
        yield other
        yield from _with_inner(getattr(other, "_schedulers", ()))


def _apply_factor(schedule: Any) -> None:
    """Sets the rate of the next step by a LambdaLR's function, whose warm-up is that of these ranks' scaling."""
    from torch.optim.lr_scheduler import LambdaLR

    if isinstance(schedule, LambdaLR):
        pairs = zip(schedule.base_lrs, schedule.lr_lambdas, strict=True)
        rates = [base * factor(schedule.last_epoch) for base, factor in pairs]
        for group, rate in zip(schedule.optimizer.param_groups, rates, strict=True):
            group["lr"] = rate
        schedule._last_lr = rates  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] (what get_last_lr returns)

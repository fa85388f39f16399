"""The metric that counts: how it is written in a tag, and which one it is when it isn't chosen."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, get_args

Goal = Literal["maximize", "minimize"]
GOALS: tuple[Goal, ...] = get_args(Goal)
_SHORT: Mapping[str, Goal] = {"max": "maximize", "min": "minimize", "maximize": "maximize", "minimize": "minimize"}

PrimarySource = Literal["experiment", "job", "guess"]
"""Who has said which metric counts: someone for all jobs of the experiment, the job itself, or neither."""

PRIMARY_TAG = "drumbeat.primary"
"""The tag of a run or an experiment that names its primary metric: `val/accuracy max`."""

_HELD_OUT = ("val", "valid", "validation", "eval", "evaluation", "dev", "test")
_ACCURACY = frozenset({"accuracy", "acc"})
_LOSS = frozenset({"loss"})
_NEVER = frozenset(
    {
        "lr", "learning", "grad", "grads", "gradient", "gradients", "time", "duration", "step", "steps", "s",
        "ms", "second", "seconds", "epoch", "epochs", "iter", "iteration", "iterations", "sample", "samples",
        "tokens", "throughput", "perf", "mem", "memory", "bytes", "mib", "gib", "scale", "weight",
    }
)  # fmt: skip
"""Words in the names of metrics that say how a training runs, not how good it is."""
_HIGH_IS_GOOD = frozenset(
    {
        "accuracy", "acc", "top1", "top5", "auc", "auroc", "auprc", "ap", "map", "f1", "precision", "recall",
        "sensitivity", "specificity", "bleu", "rouge", "meteor", "iou", "miou", "dice", "psnr", "ssim", "reward",
        "return", "score", "r2", "kappa", "mcc", "ndcg", "mrr", "success", "likelihood",
    }
)  # fmt: skip
_LOW_IS_GOOD = frozenset(
    {
        "loss", "error", "err", "perplexity", "ppl", "wer", "cer", "ter", "mae", "mse", "rmse", "mape", "nll", "bpc",
        "bpb", "fid", "kl", "divergence", "distance", "regret", "cost", "brier", "eer",
    }
)  # fmt: skip
_WORD = re.compile(r"[A-Z]+[0-9]*(?![a-z])|[A-Z]?[a-z]+[0-9]*|[0-9]+")

_PERIODS = ("step", "epoch")
"""What Lightning adds to the name of a metric that is logged for each: `val_loss_epoch`."""

_LAST = 3
"""The place of a metric whose name says nothing: the first that was logged counts."""


@dataclass(frozen=True)
class PrimaryMetric:
    """The metric by which the jobs of an experiment are ranked. goal: None = it isn't known which values are better."""

    name: str
    goal: Goal | None = None

    def __str__(self) -> str:
        return f"{self.name} {self.goal}" if self.goal else self.name


def parse_goal(text: str) -> Goal | None:
    """Returns the goal that a word means, `max` or `maximize`; None for any other word."""
    return _SHORT.get(text.strip().lower())


def parse_primary(tag: str) -> PrimaryMetric | None:
    """Returns the metric that a tag names, with the goal of its name where the tag has none; None for an empty tag."""
    name, _, last = tag.strip().rpartition(" ")
    goal = parse_goal(last) if name else None
    name = name if goal else tag
    name = name.strip()
    return PrimaryMetric(name, goal or goal_of(name)) if name else None


@lru_cache(maxsize=4096)
def goal_of(name: str) -> Goal | None:
    """Returns whether high or low values of a metric are better, by the last telling word of its name.

    None = unknown.
    """
    for word in reversed(_words(name)):
        if word in _HIGH_IS_GOOD:
            return "minimize" if word == "likelihood" and "negative" in _words(name) else "maximize"
        if word in _LOW_IS_GOOD:
            return "minimize"
    return None


@lru_cache(maxsize=4096)
def guess_place(name: str) -> tuple[int, int] | None:
    """Returns the place of a metric among those that may be meant, the lowest first; None = it never is.

    First the accuracy on held-out data, then the loss on these, then the loss, then any other metric, but never a
    learning rate, a gradient, a time or a step.
    """
    words = _words(name)
    if len(words) > 1 and words[-1] in _PERIODS and words[-2] in _ACCURACY | _LOSS:
        words = words[:-1]
    if not _NEVER.isdisjoint(words):
        return None
    held_out = next((n for n, word in enumerate(_HELD_OUT) if word in words), None)
    if held_out is not None and not _ACCURACY.isdisjoint(words):
        return 0, held_out
    if not _LOSS.isdisjoint(words):
        if held_out is not None:
            return 1, held_out
        return 2, (0 if words == ("loss",) else 1 if {"train", "training"} & {*words} else 2)
    return _LAST, 0


@lru_cache(maxsize=4096)
def _words(name: str) -> tuple[str, ...]:
    return tuple(word.lower() for word in _WORD.findall(name))

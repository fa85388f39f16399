"""LARS: each layer's own learning rate, for large batches (You, Gitman, Ginsburg 2017, arXiv:1708.03888)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

TRUST = 0.001
"""The paper's coefficient for training from new weights."""


def use_lars(optimizer: torch.optim.Optimizer, trust: float = TRUST) -> torch.optim.Optimizer:
    """Turns each step of an SGD optimizer into one of LARS, and returns the optimizer.

    A layer with weights w, gradient g and weight decay d is updated with trust · |w| / (|g| + d · |w|) times the
    learning rate. Biases and the weights of norms, which have one dimension, keep the plain rate.
    """

    def scale_gradients(ours: torch.optim.Optimizer, *_: Any) -> None:
        for group in ours.param_groups:
            for weights in group["params"]:
                if weights.grad is not None and weights.ndim > 1:
                    _scale(weights, weights.grad, group.get("weight_decay", 0.0), trust)

    optimizer.register_step_pre_hook(scale_gradients)
    return optimizer


def _scale(weights: torch.Tensor, gradient: torch.Tensor, decay: float, trust: float) -> None:
    w, g = weights.detach().square().sum().sqrt(), gradient.square().sum().sqrt()
    if not (w > 0 and g > 0):
        return
    ratio = trust * w / (g + decay * w)
    # The optimizer adds decay · w itself: its step is then ratio · (g + decay · w).
    gradient.mul_(ratio).add_(weights.detach() * (decay * (ratio - 1)))

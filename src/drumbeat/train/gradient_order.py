"""The order in which DistributedDataParallel adds up gradients, carried over a restart.

DDP packs gradients into buckets: first in the reverse order of the parameters, and after its first backward pass in the
order in which the gradients came. An all-reduce adds the ranks' numbers in an order that depends on a number's position
in its bucket, so with more than two ranks the sums of the same gradients differ in their last digits. A restarted
training would use the first order for a step that the unbroken one did in the second. So a checkpoint contains the
order, and after a restart a backward pass of zeros makes DDP pack its buckets by it before the first step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor, nn


class GradientOrder:
    """The order in which the gradients of a model's parameters first came; only for plain DDP models."""

    def __init__(self, model: nn.Module) -> None:
        """Listens to the first backward pass."""
        self._model: Any = model if _packs_again(model) else None
        self._handles: list[Any] = []
        self.names: list[str] = []
        """The names of the parameters; empty before the first backward pass."""
        self._seen = set[str]()
        for name, parameter in self._parameters().items():
            self._handles.append(parameter.register_post_accumulate_grad_hook(self._on_gradient(name)))

    def _parameters(self) -> dict[str, Any]:
        if self._model is None:
            return {}
        return {name: one for name, one in self._model.module.named_parameters() if one.requires_grad}

    def _on_gradient(self, name: str) -> Callable[[Tensor], None]:
        def note(_: Tensor) -> None:
            if name not in self._seen:
                self._seen.add(name)
                self.names.append(name)

        return note

    def _stop(self) -> None:
        while self._handles:
            self._handles.pop().remove()

    def state_dict(self) -> dict[str, list[str]]:
        """Returns the names so far."""
        if len(self.names) == len(self._handles):
            self._stop()
        return {"names": [*self.names]}

    def load_state_dict(self, state: dict[str, list[str]]) -> None:
        """Takes the order of the resumed training, and makes DDP pack its buckets by it. All ranks call it.

        It does nothing for another model, or one whose buckets DDP has already packed.
        """
        parameters = self._parameters()
        if set(state["names"]) != parameters.keys() or self.names or not parameters:
            return
        self._stop()
        self.names = [*state["names"]]
        kept = {name: parameter.grad for name, parameter in parameters.items()}
        _pass_zeros_back(self._model, [parameters[name] for name in self.names])
        for name, parameter in parameters.items():
            parameter.grad = kept[name]


def _packs_again(model: nn.Module) -> bool:
    """Whether a model is DDP's, packs its buckets again, and has no hook whose state a pass of zeros would change."""
    from torch.nn.parallel import DistributedDataParallel

    if type(model) is not DistributedDataParallel:
        return False
    private: Any = model
    keeps = ("find_unused_parameters", "static_graph", "mixed_precision", "_use_python_reducer", "_comm_hooks")
    return not any(getattr(private, name, None) for name in (*keeps, "_delay_all_reduce_all_params"))


def _pass_zeros_back(model: Any, parameters: list[Tensor]) -> None:
    """Runs DDP's forward and backward with a module whose parameters get zeros as gradients, in this order."""
    import torch
    from torch import nn

    function: Any = torch.autograd.Function

    class Link(function):
        """A link of a chain: passes the gradient on, and gives a parameter zeros."""

        @staticmethod
        def forward(context: Any, total: Tensor, parameter: Tensor) -> Tensor:
            context.save_for_backward(parameter)
            return total.clone()

        @staticmethod
        def backward(context: Any, gradient: Tensor) -> tuple[Tensor, Tensor]:
            (parameter,) = context.saved_tensors
            return gradient, torch.zeros_like(parameter)

    class Chain(nn.Module):
        """Replaces the model for one pass. The last link is the first one back."""

        def forward(self, total: Tensor) -> Tensor:
            for parameter in reversed(parameters):
                total = Link.apply(total, parameter)
            return total

    module, broadcasts = model.module, model.broadcast_buffers
    # The chain has no buffers, and DDP would send those of its module.
    model.module, model.broadcast_buffers = Chain(), False
    try:
        with torch.enable_grad():
            model(torch.zeros((), device=parameters[0].device)).backward()
    finally:
        model.module, model.broadcast_buffers = module, broadcasts

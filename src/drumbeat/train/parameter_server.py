"""Asynchronous updates: rank 0 keeps the weights, and no rank waits for another (torch RPC).

Each rank sends the gradients of its batch when it has them, and receives the newest weights. The others may have
changed the weights meanwhile, so gradients are a few updates old: their staleness is counted. Gradients and weights are
sent as CPU tensors, even between GPUs: torch's RPC accepts GPU tensors only with a device map.
"""

from __future__ import annotations

import importlib
import os
import socket
import threading
from typing import TYPE_CHECKING, Any

from drumbeat.model.errors import RefusedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import torch
    from torch import nn

Weights = list["torch.Tensor"]
Gradients = list["torch.Tensor | None"]
"""None = the weight has no gradient, like a frozen one: the optimizer ignores it."""
TIMEOUT_S = 1800.0
"""How long the ranks may take to meet, and a call may wait; the same as a collective of `train.init()`."""


class ParameterServer:
    """The weights of all ranks, and the optimizer that updates them; it lives in rank 0."""

    def __init__(self, weights: Weights, make_optimizer: Callable[[Weights], torch.optim.Optimizer]) -> None:
        """Holds copies of the weights. make_optimizer: is called once with them."""
        self._weights = [weight.detach().clone() for weight in weights]
        self._optimizer = make_optimizer(self._weights)
        self._lock = threading.Lock()
        self.updates = 0
        """The number of applied gradients."""

    def push(self, gradients: Gradients) -> tuple[int, Weights]:
        """Applies gradients. Returns the number of updates so far, and the weights."""
        import torch

        with self._lock, torch.no_grad():
            for weight, gradient in zip(self._weights, gradients, strict=True):
                weight.grad = None if gradient is None else gradient.to(weight.device)
            self._optimizer.step()
            self.updates += 1
            return self.updates, self._copies()

    def pull(self) -> tuple[int, Weights]:
        """Returns the number of updates so far, and the weights."""
        with self._lock:
            return self.updates, self._copies()

    def _copies(self) -> Weights:
        return [weight.to("cpu", copy=True) for weight in self._weights]


def collect_gradients(weights: Iterable[torch.Tensor]) -> Gradients:
    """Returns the gradients of weights as they are sent."""
    return [None if weight.grad is None else weight.grad.cpu() for weight in weights]


_server: ParameterServer | None = None


def _push(gradients: Gradients) -> tuple[int, Weights]:
    return _held().push(gradients)


def _pull() -> tuple[int, Weights]:
    return _held().pull()


def _held() -> ParameterServer:
    if _server is None:
        raise RefusedError("this rank has no weights: the parameter server is rank 0", where="parameter_server")
    return _server


class AsynchronousUpdates:
    """A rank's side of the parameter server: `step()` replaces the optimizer's."""

    def __init__(self, model: nn.Module, make_optimizer: Callable[[Weights], torch.optim.Optimizer]) -> None:
        """Starts with the weights of rank 0. Call it on every rank, after `train.init()`."""
        global _server  # noqa: PLW0603 (one for each process: remote calls name a function, not an object)
        self._weights: Weights = [*model.parameters()]
        self.staleness: list[int] = []
        """For each step, the number of other ranks' updates that its gradients had missed."""
        if _distributed().get_rank() == 0:
            _server = ParameterServer(self._weights, make_optimizer)
        _start_rpc()
        self._seen = self._take(*_call(_pull))

    def step(self) -> None:
        """Sends the gradients, and receives the newest weights."""
        before = self._seen
        self._seen = self._take(*_call(_push, collect_gradients(self._weights)))
        self.staleness.append(self._seen - before - 1)
        for weight in self._weights:
            weight.grad = None

    def finish(self) -> None:
        """Waits until every rank has called it, and receives the last weights: all ranks then have the same."""
        _distributed().barrier()
        self._take(*_call(_pull))
        _rpc().shutdown()

    def _take(self, updates: int, weights: Weights) -> int:
        import torch

        with torch.no_grad():
            for own, new in zip(self._weights, weights, strict=True):
                own.copy_(new)
        return updates


def _distributed() -> Any:
    """Returns torch's package, much of which has open types."""
    return importlib.import_module("torch.distributed")


def _rpc() -> Any:
    return importlib.import_module("torch.distributed.rpc")


def _call(function: Callable[..., tuple[int, Weights]], *arguments: Any) -> tuple[int, Weights]:
    return _rpc().rpc_sync("rank0", function, args=arguments)


def _start_rpc() -> None:
    """Makes the ranks meet a second time, at a port that rank 0 has chosen: the process group's own store is in use."""
    dist = _distributed()
    rank, world = dist.get_rank(), dist.get_world_size()
    meeting: list[Any] = [_free_port() if rank == 0 else None]
    dist.broadcast_object_list(meeting, 0)
    if "GLOO_SOCKET_IFNAME" in os.environ:
        os.environ.setdefault("TP_SOCKET_IFNAME", os.environ["GLOO_SOCKET_IFNAME"])
    host = os.environ.get("MASTER_ADDR", "127.0.0.1")
    options = _rpc().TensorPipeRpcBackendOptions(init_method=f"tcp://{host}:{meeting[0]}", rpc_timeout=TIMEOUT_S)
    # Under torchrun, torch would look for a store of torchrun's at that port.
    agents = os.environ.pop("TORCHELASTIC_USE_AGENT_STORE", None)
    try:
        _rpc().init_rpc(f"rank{rank}", rank=rank, world_size=world, rpc_backend_options=options)
    finally:
        if agents is not None:
            os.environ["TORCHELASTIC_USE_AGENT_STORE"] = agents


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("", 0))
        return probe.getsockname()[1]

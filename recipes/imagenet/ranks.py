"""The ranks of a PyTorch training: DistributedDataParallel or Horovod behind one interface."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from drumbeat import train

Optimizer = torch.optim.Optimizer


class Ranks(ABC):
    """One process among the ranks."""

    rank: int
    size: int
    device: torch.device

    @abstractmethod
    def wrap(self, network: nn.Module, optimizer: Optimizer) -> tuple[nn.Module, Optimizer]:
        """Returns a model and an optimizer that begin alike on all ranks and average the gradients."""

    @abstractmethod
    def sum(self, values: Tensor) -> Tensor:
        """Returns the sum over all ranks."""

    @abstractmethod
    def highest(self, values: Tensor) -> Tensor:
        """Returns the highest over all ranks, place by place."""

    @abstractmethod
    def gather(self, value: Any) -> list[Any]:
        """Returns the value of each rank, on all of them."""

    @abstractmethod
    def broadcast(self, value: Any, source: int) -> Any:
        """Returns the value of one rank, on all of them."""

    @abstractmethod
    def leave(self) -> None:
        """Ends this process after its work."""


class DataParallel(Ranks):
    """PyTorch's own: `DistributedDataParallel` on Gloo or NCCL. One process alone is a group of one."""

    def __init__(self) -> None:
        world = train.init()
        self.rank, self.size, self.device = world.rank, world.world_size, world.device

    def wrap(self, network: nn.Module, optimizer: Optimizer) -> tuple[nn.Module, Optimizer]:
        devices = [self.device] if self.device.type == "cuda" else None
        return nn.parallel.DistributedDataParallel(network, device_ids=devices), optimizer

    def sum(self, values: Tensor) -> Tensor:
        torch.distributed.all_reduce(values)
        return values

    def highest(self, values: Tensor) -> Tensor:
        torch.distributed.all_reduce(values, op=torch.distributed.ReduceOp.MAX)
        return values

    def gather(self, value: Any) -> list[Any]:
        values = [None] * self.size
        torch.distributed.all_gather_object(values, value)
        return values

    def broadcast(self, value: Any, source: int) -> Any:
        box = [value]
        torch.distributed.broadcast_object_list(box, source)
        return box[0]

    def leave(self) -> None:
        train.leave()


class Horovod(Ranks):
    """Horovod, by MPI or by its Gloo controller."""

    def __init__(self) -> None:
        import horovod.torch as hvd

        hvd.init()
        self.hvd, self.rank, self.size = hvd, hvd.rank(), hvd.size()
        gpus = torch.cuda.device_count()
        self.device = torch.device("cuda", hvd.local_rank() % gpus) if gpus else torch.device("cpu")

    def wrap(self, network: nn.Module, optimizer: Optimizer) -> tuple[nn.Module, Optimizer]:
        self.hvd.broadcast_parameters(network.state_dict(), root_rank=0)
        self.hvd.broadcast_optimizer_state(optimizer, root_rank=0)
        return network, self.hvd.DistributedOptimizer(optimizer, named_parameters=network.named_parameters())

    def sum(self, values: Tensor) -> Tensor:
        return self.hvd.allreduce(values, op=self.hvd.Sum, name="sum")

    def highest(self, values: Tensor) -> Tensor:
        return self.hvd.allreduce(values, op=self.hvd.Max, name="highest")

    def gather(self, value: Any) -> list[Any]:
        return self.hvd.allgather_object(value, name="gathered")

    def broadcast(self, value: Any, source: int) -> Any:
        return self.hvd.broadcast_object(value, root_rank=source, name="broadcast")

    def leave(self) -> None:
        self.hvd.shutdown()


WAYS: dict[str, Callable[[], Ranks]] = {"ddp": DataParallel, "horovod": Horovod, "none": DataParallel}

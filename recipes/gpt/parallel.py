"""Divides the GPT among the ranks of a mesh: torch's own parts, in the order in which they go around each other.

    pp    pipeline stages: each rank has some of the layers, and microbatches go through them
    dp    DistributedDataParallel: each rank has everything and its share of the batch
    fsdp  fully sharded (FSDP2): each rank keeps a share of every weight, and its share of the batch
    tp    tensor parallel: each rank has a share of the heads and of the wide layer

Tensor parallel is applied first, then the sharding of the data, and the pipeline goes around both.
"""

import json
import math
import os
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from model import GPT, Size, loss_of
from torch import Tensor, nn
from torch import distributed as dist
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleInterleaved1F1B
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn.parallel import DistributedDataParallel

DIMENSIONS = ("pp", "dp", "fsdp", "tp")
VIRTUAL = {"1f1b": 1, "interleaved": 2}
"""Stages that each rank has, by schedule."""
_SHARDED_BLOCK = {
    **{f"attention.{name}": ColwiseParallel for name in ("query", "key", "value")},
    "attention.out": RowwiseParallel,
    "wide": ColwiseParallel,
    "narrow": RowwiseParallel,
}


def read_mesh(world: int) -> dict[str, int]:
    """The sizes from the job file's `drumbeat: {mesh: …}`; without one, all ranks share the data."""
    sizes: dict[str, int] = json.loads(os.environ.get("DRUMBEAT_MESH", "{}")) or {"dp": world}
    if unknown := [name for name in sizes if name not in DIMENSIONS]:
        raise SystemExit(f"mesh {sizes}: {unknown[0]!r} isn't one of {', '.join(DIMENSIONS)}")
    if math.prod(sizes.values()) != world:
        raise SystemExit(f"mesh {sizes}: {math.prod(sizes.values())} ranks, and there are {world}")
    if "dp" in sizes and {"fsdp", "tp"} & sizes.keys():
        raise SystemExit(f"mesh {sizes}: beside fsdp or tp, name the dimension that shares the data fsdp, not dp")
    return sizes


@dataclass
class Divided:
    """What this rank has of the model, and how a step goes through it. parts: its stages, or the whole."""

    mesh: DeviceMesh
    parts: list[GPT]
    step: Callable[[Tensor, Tensor], Tensor]
    shard: int
    shards: int
    is_last: bool = True
    wrapped: list[nn.Module] = field(default_factory=list)

    def parameters(self) -> list[nn.Parameter]:
        """The weights of this rank."""
        return [weight for part in self.wrapped for weight in part.parameters()]


def divide(size: Size, sizes: dict[str, int], device: torch.device, schedule: str, microbatches: int) -> Divided:
    """The model on the mesh. Every rank first makes the whole one, so all meshes begin with the same weights."""
    mesh = init_device_mesh(device.type, tuple(sizes.values()), mesh_dim_names=tuple(sizes))
    stages = sizes.get("pp", 1) * (VIRTUAL[schedule] if "pp" in sizes else 1)
    stage = mesh.get_local_rank("pp") if "pp" in sizes else 0
    mine = range(stage, stages, sizes.get("pp", 1))
    whole = GPT(size).to(device).state_dict()
    parts = [_part(size, whole, number, stages).to(device) for number in mine]
    wrapped = [_share(part, mesh, device) for part in parts]
    of_data = next((name for name in ("dp", "fsdp") if name in sizes), None)
    shard, shards = (mesh.get_local_rank(of_data), sizes[of_data]) if of_data else (0, 1)
    if "pp" not in sizes:
        return Divided(mesh, parts, _plain_step(wrapped[0]), shard, shards, wrapped=wrapped)
    made = [PipelineStage(part, number, stages, device, group=mesh.get_group("pp"))
            for part, number in zip(wrapped, mine, strict=True)]  # fmt: skip
    is_last = stages - 1 in mine
    step = _pipeline_step(made, schedule, microbatches, is_last=is_last)
    return Divided(mesh, parts, step, shard, shards, is_last, wrapped)


def _part(size: Size, whole: dict[str, Tensor], stage: int, stages: int) -> GPT:
    part = GPT(size).keep(stage, stages)
    part.load_state_dict({name: whole[name] for name in part.state_dict()})
    return part


def _share(part: GPT, mesh: DeviceMesh, device: torch.device) -> nn.Module:
    """Tensor parallel inside, then what shares the data."""
    names = mesh.mesh_dim_names or ()
    if "tp" in names:
        for block in part.blocks.values():
            parallelize_module(block, mesh["tp"], {name: style() for name, style in _SHARDED_BLOCK.items()})
    if "fsdp" in names:
        for block in part.blocks.values():
            fully_shard(block, mesh=mesh["fsdp"])
        return fully_shard(part, mesh=mesh["fsdp"])
    if "dp" in names:
        own = [device.index] if device.type == "cuda" else None
        return DistributedDataParallel(part, device_ids=own, process_group=mesh.get_group("dp"))
    return part


def _plain_step(model: nn.Module) -> Callable[[Tensor, Tensor], Tensor]:
    def step(inputs_BT: Tensor, targets_BT: Tensor) -> Tensor:
        loss = loss_of(model(inputs_BT), targets_BT)
        loss.backward()
        return loss.detach()

    return step


def _pipeline_step(
    stages: list[PipelineStage], schedule: str, microbatches: int, *, is_last: bool
) -> Callable[[Tensor, Tensor], Tensor]:
    if schedule == "1f1b":
        runs = Schedule1F1B(stages[0], microbatches, loss_fn=loss_of)
    else:
        runs = ScheduleInterleaved1F1B(stages, microbatches, loss_fn=loss_of)

    def step(inputs_BT: Tensor, targets_BT: Tensor) -> Tensor:
        losses: list[Tensor] = []
        given = (inputs_BT,) if any(stage.is_first for stage in stages) else ()
        runs.step(*given, target=targets_BT if is_last else None, losses=losses if is_last else None)
        return torch.stack(losses).mean().detach() if losses else torch.zeros((), device=inputs_BT.device)

    return step


def mean_loss(divided: Divided, loss: Tensor) -> float:
    """The loss of the global batch on every rank: only last stages have one."""
    both = torch.stack([loss if divided.is_last else torch.zeros_like(loss), loss.new_tensor(float(divided.is_last))])
    dist.all_reduce(both)
    return (both[0] / both[1]).item()


def gather(divided: Divided) -> dict[str, Tensor]:
    """The weights of the whole model, on every rank."""
    own = {name: _whole(weight) for part in divided.parts for name, weight in part.state_dict().items()}
    everyone: list[dict[str, Tensor]] = [{} for _ in range(dist.get_world_size())]
    dist.all_gather_object(everyone, own)
    return {name: weight for one in everyone for name, weight in one.items()}


def _whole(weight: Tensor) -> Tensor:
    return (weight.full_tensor() if isinstance(weight, DTensor) else weight).cpu()

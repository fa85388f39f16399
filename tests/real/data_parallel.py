"""A rank that trains a tiny network in one way, and writes what it computed and which samples it had.

data_parallel.py FOLDER WAY…, WAY one of ddp, fsdp2, horovod; rank 0 also trains alone, by the whole batch and shard by
shard. Numbers are written as hexadecimal floats: nothing is rounded.
"""

import json
import sys
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import BatchSampler, DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

SAMPLES, BATCH, EPOCHS, FEATURES = 96, 16, 3, 12


def make_model():
    torch.manual_seed(7)
    return nn.Sequential(nn.Linear(FEATURES, 16), nn.LayerNorm(16), nn.Tanh(), nn.Linear(16, 3))


def make_data():
    generator = torch.Generator().manual_seed(11)
    inputs = torch.randn(SAMPLES, FEATURES, generator=generator)
    return TensorDataset(torch.arange(SAMPLES), inputs, torch.randint(3, (SAMPLES,), generator=generator))


def make_loader(rank, world):
    sampler = DistributedSampler(make_data(), world, rank, shuffle=True, seed=5, drop_last=True)
    return DataLoader(make_data(), sampler=BatchSampler(sampler, BATCH // world, True), batch_size=None), sampler


def full(tensor):
    return tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor


def flat(tensors):
    return [number.hex() for tensor in tensors for number in full(tensor).detach().flatten().tolist()]


def make_optimizer(model):
    return torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)


def loss_of(model, inputs, targets):
    return nn.functional.cross_entropy(model(inputs), targets)


def train(model, optimizer, rank, world):
    """The gradients of the first step, the weights at the end, and the samples of each epoch in order."""
    loader, sampler = make_loader(rank, world)
    first, seen = None, []
    for epoch in range(EPOCHS):
        sampler.set_epoch(epoch)
        seen.append([])
        for numbers, inputs, targets in loader:
            seen[-1].append(numbers.tolist())
            optimizer.zero_grad()
            loss_of(model, inputs, targets).backward()
            if first is None:
                if hasattr(optimizer, "synchronize"):
                    optimizer.synchronize()
                first = flat([weight.grad for weight in model.parameters()])
                if hasattr(optimizer, "skip_synchronize"):
                    with optimizer.skip_synchronize():
                        optimizer.step()
                    continue
            optimizer.step()
    return {"gradients": first, "weights": flat(model.parameters()), "seen": seen}


def alone(shards):
    """One process, the same global batches: their shards one after the other, in the order of the ranks."""
    model, first = make_model(), None
    optimizer = make_optimizer(model)
    loaders = [make_loader(shard, shards) for shard in range(shards)]
    for epoch in range(EPOCHS):
        for _, sampler in loaders:
            sampler.set_epoch(epoch)
        for parts in zip(*(loader for loader, _ in loaders), strict=True):
            optimizer.zero_grad()
            for _, inputs, targets in parts:
                loss_of(model, inputs, targets).backward()
            for weight in model.parameters():
                weight.grad /= shards
            first = first or flat([weight.grad for weight in model.parameters()])
            optimizer.step()
    return {"gradients": first, "weights": flat(model.parameters())}


def by_ddp(rank, world):
    model = nn.parallel.DistributedDataParallel(make_model())
    return train(model, make_optimizer(model), rank, world)


def by_fsdp2(rank, world):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    model, mesh = make_model(), init_device_mesh("cpu", (world,))
    for layer in (model[0], model[3]):
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return train(model, make_optimizer(model), rank, world)


def by_horovod(rank, world):
    import horovod.torch as hvd

    model = make_model()
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    optimizer = hvd.DistributedOptimizer(make_optimizer(model), named_parameters=model.named_parameters())
    return train(model, optimizer, rank, world)


def main():
    torch.set_num_threads(1)
    folder, ways = Path(sys.argv[1]), sys.argv[2:]
    if "horovod" in ways:
        import horovod.torch as hvd

        hvd.init()
        rank, world = hvd.rank(), hvd.size()
    else:
        from drumbeat import train as drumbeat_train

        found = drumbeat_train.init()
        rank, world = found.rank, found.world_size
    made = {way: {"ddp": by_ddp, "fsdp2": by_fsdp2, "horovod": by_horovod}[way](rank, world) for way in ways}
    if rank == 0:
        made |= {"whole": alone(1), "shards": alone(world)}
    (folder / f"{rank}.json").write_text(json.dumps(made))
    if "horovod" in ways:
        hvd.shutdown()
    else:
        drumbeat_train.leave()


if __name__ == "__main__":
    main()

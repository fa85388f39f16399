"""`to_drumbeat(learner)`: fast.ai's learners train data parallel, on Gloo as well as NCCL.

fast.ai's own `to_distributed` sends every index to a GPU and needs accelerate. This is the only module that imports
fastai and torch at its top: only scripts that have both import it.
"""
# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false, reportUntypedBaseClass=false
# (fastai has no types, and isn't installed where the types are checked)

from __future__ import annotations

from typing import Any

import torch.distributed as dist
from fastai.callback.core import Callback
from fastai.callback.progress import ProgressCallback
from fastai.torch_core import to_detach
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from drumbeat.rank.metric_log import log
from drumbeat.train.data_shards import shard
from drumbeat.train.process_group import TrainingWorld, init

ACCUMULATORS = ("total", "count", "inter", "union", "preds", "targs")
"""The attributes in which fast.ai's metrics accumulate over the batches: their sums over the ranks are those of one
process.
"""


def to_drumbeat(learner: Any, *, sync_bn: bool = True, logs: bool = True) -> Any:
    """Makes the learner's `fit` methods train on all ranks together, and returns the learner.

    Each rank takes its shard of every epoch; gradients are averaged; metrics are those of the whole validation set, on
    all ranks; only rank 0 saves, exports and shows progress. Outside of `fit`, each rank computes by itself. sync_bn:
    whether batch norms count over all ranks, which torch supports only on GPUs. logs: whether rank 0 logs losses and
    metrics by `drumbeat.log`. Calls `train.init()`.
    """
    world = init()
    learner.model.to(world.device)
    learner.dls.to(world.device)
    learner.add_cb(DrumbeatCallback(world, sync_bn=sync_bn))
    if not world.is_first:
        learner.remove_cb(ProgressCallback)
        learner.logger = _print_nothing
    elif logs:
        learner.add_cb(MetricLogCallback())
    return learner


class _RankCallback(Callback):
    """A callback of this rank only, which an exported learner doesn't contain, so that it loads without drumbeat."""

    def __reduce__(self) -> tuple[Any, ...]:
        return Callback, ()


class DrumbeatCallback(_RankCallback):
    """Wraps the model and the data of a learner while it fits."""

    order = 11  # After callbacks that prepare the model, before the recorder, which reads the metrics.

    def __init__(self, world: TrainingWorld, *, sync_bn: bool) -> None:
        self.world, self.sync_bn = world, sync_bn
        self.parallel: DistributedDataParallel | None = None

    def before_train(self) -> None:
        """Trains the wrapped model, whose backward pass averages gradients."""
        # `get_preds` and `validate` begin and end a fit, too, but only `fit` trains.
        self.parallel = self.parallel or self._wrapped(self.learn.model)
        self.learn.model = self.parallel
        self.learn.dl = self._sharded(self.learn.dl, is_even=True)

    def after_train(self) -> None:
        """Averages the statistics of batch norms over the ranks, and sums the metrics of training."""
        for buffer in self.learn.model.buffers():
            if buffer.is_floating_point():
                dist.all_reduce(buffer)
                buffer.div_(self.world.world_size)
        recorder = self.learn.recorder
        self._sum_metrics(list(recorder.metrics) if recorder.train_metrics else [])

    def before_validate(self) -> None:
        """Validates the plain model: ranks may have different numbers of batches and don't wait for each other."""
        if self.parallel is None:
            self.learn.dl.to_detach = _keep_own
            return
        self.learn.model = self.parallel.module
        self.learn.dl = self._sharded(self.learn.dl, is_even=False)

    def after_validate(self) -> None:
        """Sums the metrics of validation."""
        recorder = self.learn.recorder
        if self.parallel is not None and recorder.valid_metrics:
            self._sum_metrics([recorder.loss, *recorder.metrics])

    def after_fit(self) -> None:
        """Restores the learner's own model."""
        if self.parallel is not None:
            self.learn.model, self.parallel = self.parallel.module, None

    # --- parts ------------------------------------------------------------------------------------------------------
    def _wrapped(self, model: nn.Module) -> DistributedDataParallel:
        """Returns the model for all ranks; its weights become those of rank 0."""
        gpu = self.world.device.type == "cuda"
        if self.sync_bn and gpu and self.world.world_size > 1:
            model = nn.SyncBatchNorm.convert_sync_batchnorm(model)
        devices = [self.world.device.index] if gpu else None
        # Buffers are averaged after each epoch: those of rank 0 would only reflect its shard.
        return DistributedDataParallel(model, device_ids=devices, broadcast_buffers=False)

    def _sharded(self, loader: Any, *, is_even: bool) -> Any:
        part = loader.new(get_idxs=lambda: self._indices(loader, is_even=is_even))
        part.n = len(shard(range(loader.n), self.world.rank, self.world.world_size, is_even=is_even))
        part.to_detach = _keep_own
        return part

    def _indices(self, loader: Any, *, is_even: bool) -> list[int]:
        """Returns this rank's part of rank 0's order, which changes with each epoch."""
        order = [list(loader.get_idxs()) if self.world.is_first else []]
        dist.broadcast_object_list(order, 0)
        return shard(order[0], self.world.rank, self.world.world_size, is_even=is_even)

    def _sum_metrics(self, metrics: list[Any]) -> None:
        own = [{name: _portable(value) for name, value in vars(one).items() if name in ACCUMULATORS} for one in metrics]
        every: list[Any] = [None] * self.world.world_size
        dist.all_gather_object(every, own)
        for at, metric in enumerate(metrics):
            for name in own[at]:
                setattr(metric, name, _added([values[at][name] for values in every]))


class MetricLogCallback(_RankCallback):
    """Logs each epoch's losses and metrics by `drumbeat.log`, under fast.ai's names."""

    order = 60  # After the recorder.

    def __init__(self) -> None:
        self.epochs = 0  # fast.ai counts from 0 in each fit, and `fine_tune` has two.

    def after_epoch(self) -> None:
        """Logs the recorder's values of this epoch."""
        names, values = self.learn.recorder.metric_names[1:], self.learn.recorder.values[-1]
        logged = {name: value for name, value in zip(names, values, strict=False) if isinstance(value, (int, float))}
        log(step=self.epochs, **logged)
        self.epochs += 1


def _keep_own(values: Any, cpu: bool = True, gather: bool = True) -> Any:  # noqa: ARG001, FBT001, FBT002 (fast.ai's)
    """Detaches as fast.ai does, but never gathers: the sums are computed once, after the last batch."""
    return to_detach(values, cpu=cpu, gather=False)


def _portable(value: Any) -> Any:
    return to_detach(value, cpu=True, gather=False)


def _added(values: list[Any]) -> Any:
    """Returns the sum of numbers or tensors, of mappings key by key, or the concatenation of lists."""
    if isinstance(values[0], dict):
        return {key: _added([one.get(key, 0) for one in values]) for key in {key: 0 for one in values for key in one}}
    if isinstance(values[0], list):
        return [item for one in values for item in one]
    return sum(values[1:], values[0])


def _print_nothing(*_: Any, **__: Any) -> None:
    """Replaces fast.ai's printing of each epoch on all ranks but the first."""

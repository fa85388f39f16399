"""The files of one checkpoint: what the ranks write, verify and read together.

`__0_0.distcp`, `.metadata`   torch.distributed.checkpoint: model and optimizers, in shards
`ranks.pt`                    of each rank: its random generators and its place in the data
`others.pt`                   what is the same on all ranks: schedules, gradient scalers
`manifest.json`               sizes and hashes
"""

from __future__ import annotations

import dataclasses
import importlib
import os
import secrets
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from drumbeat.protocol.errors import DrumbeatError, RefusedError
from drumbeat.train import random_states
from drumbeat.train.checkpoint_folder import CheckpointFolder, Digest, Generation, Manifest
from drumbeat.train.rank_group import RankGroup

if TYPE_CHECKING:
    from torch import nn
    from torch.optim import Optimizer

RANKS, OTHERS = "ranks.pt", "others.pt"
AVERAGING = "drumbeat.averaging"
"""The beginning of the names among the other states under which the steps of averagers are."""
WHERE = "train.Checkpoints"
Result = TypeVar("Result")
Good = tuple[int, Generation]
"""A checkpoint's step, and the start of the ranks that wrote it."""


class AveragingSteps:
    """The steps that the averager of an optimizer by `local_sgd` counts."""

    def __init__(self, optimizer: Any) -> None:
        self._averager = optimizer.averager

    def state_dict(self) -> dict[str, int]:
        """Returns their number."""
        return {"step": self._averager.step}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Counts on from a number."""
        self._averager.step = state["step"]


class SavedState:
    """What a checkpoint is made of: the parts of a training that change."""

    def __init__(
        self, model: nn.Module, optimizers: Optimizer | Iterable[Optimizer], loader: Any, others: Mapping[str, Any]
    ) -> None:
        from torch.optim import Optimizer

        _check_torch()
        given = [optimizers] if isinstance(optimizers, Optimizer) else list(optimizers)
        averaging = {f"{AVERAGING}.{at}": AveragingSteps(one) for at, one in enumerate(given) if _averages(one)}
        self.model, self.loader, self.others = model, loader, {**others, **averaging}
        # torch's functions for states don't know its own wrapper.
        self.optimizers: list[Any] = [getattr(one, "optim", one) if _averages(one) else one for one in given]

    def tensors(self) -> dict[str, Any]:
        """Returns the state of model and optimizers by parameter names, as all ranks know them."""
        from torch.distributed.checkpoint.state_dict import get_state_dict

        model, optimizers = get_state_dict(self.model, self.optimizers)
        return {"model": model, "optimizers": optimizers}

    def copied(self) -> dict[str, Any]:
        """Returns a copy of everything, in the memory of the CPU, that the next step can't change."""
        from torch.distributed.checkpoint.staging import DefaultStager, StagingOptions

        tensors = self.tensors()
        states = {
            "tensors": tensors,
            "others": {name: other.state_dict() for name, other in self.others.items()},
            "rank": {
                "random": random_states.capture(),
                "loader": self.loader.state_dict() if self.loader is not None else None,
            },
        }
        stager: Any = DefaultStager(StagingOptions(*[False] * 4))
        try:
            return {**stager.stage(states), "of_one_rank": self._names_of_one_rank(tensors["model"])}
        finally:
            stager.close()

    def _names_of_one_rank(self, model: dict[str, Any]) -> frozenset[str] | None:
        """Returns the tensors that may differ between ranks which each have all of them; None = any of them may.

        DistributedDataParallel keeps parameters equal. Each rank updates its buffers by its own batches, and rank 0's
        count; a model that isn't wrapped (`OuterSteps`) is another one on each rank.
        """
        import torch
        from torch.nn.parallel import DistributedDataParallel

        if not isinstance(self.model, DistributedDataParallel):
            return None
        equal = {parameter.data_ptr() for parameter in self.model.parameters()}
        tensors = {name: value for name, value in model.items() if isinstance(value, torch.Tensor)}
        return frozenset(f"model.{name}" for name, value in tensors.items() if value.data_ptr() not in equal)

    def set_tensors(self, tensors: dict[str, Any]) -> None:
        """Sets model and optimizers."""
        from torch.distributed.checkpoint.state_dict import set_state_dict

        set_state_dict(
            self.model,
            self.optimizers,
            model_state_dict=tensors["model"],
            optim_state_dict=tensors["optimizers"],
        )

    def set_rest(self, others: dict[str, Any], ranks: list[dict[str, Any]], rank: int, world_size: int) -> None:
        """Sets the others, this rank's place in the data, and its random generators, which come last."""
        for name, other in self.others.items():
            if name in others:
                other.load_state_dict(others[name])
        saved = ranks[rank] if rank < len(ranks) else ranks[0]
        if self.loader is not None and saved["loader"] is not None:
            self._check_loader(len(ranks), world_size)
            self.loader.load_state_dict(saved["loader"])
        if len(ranks) == world_size:
            random_states.restore(saved["random"])

    def _check_loader(self, saved_by: int, world_size: int) -> None:
        if saved_by != world_size and not getattr(self.loader, "is_for_any_world_size", False):
            what = f"{saved_by} ranks saved their places in the data, and {world_size} ranks are here"
            fix = "train.ResumableLoader goes on with any number of ranks that divides its batch."
            raise RefusedError(what, where=WHERE, fix=fix)


class CheckpointFiles:
    """Writes, verifies and reads checkpoints on all ranks.

    Usually all ranks see one folder. Where each node has its own, the ranks of each node write all of the state there,
    and a node without a checkpoint gets it from another.
    """

    def __init__(self, folder: CheckpointFolder, everyone: RankGroup) -> None:
        self.folder, self.everyone = folder, everyone
        self.sharing = _sharing(folder.root, everyone)
        """The ranks that see the same folder as this one."""
        self._good: Good | None = None
        self._newest: Good | None = None
        self.is_shared_by_all = self.sharing.size == everyone.size

    def claim(self) -> None:
        """Closes the folder to earlier generations of the job."""
        self._by_leaders(self.everyone, self.folder.claim)

    def newest(self) -> tuple[int, list[str]]:
        """Returns the step of the newest checkpoint that is as it was written, and what is wrong with newer ones.

        Broken ones are put aside. Raises RefusedError if a file can't be read.
        """
        steps: list[int] = self.sharing.broadcast(self.folder.steps() if self.sharing.is_leader else None)
        notes: list[str] = []
        share = slice(self.sharing.index, None, self.sharing.size)
        self._good, found = None, 0
        for step in steps:
            each = self._together(self.sharing, partial(self.folder.broken_files, step, share))
            broken = [line for lines in each for line in lines]
            if not broken:
                found = step
                break
            notes.append(f"checkpoint: step {step:,} is broken and put aside ({broken[0]})")
            self._by_leaders(self.sharing, partial(self.folder.put_aside, step))
        if found:
            self._good = found, Manifest.read(self.folder.path(found)).generation
        every: list[Good | None] = self.everyone.gather(self._good)
        # Of one step, nodes without a shared folder may have states of two attempts: the later one counts.
        self._newest = max((good for good in every if good), default=None)
        return self._newest[0] if self._newest else 0, notes

    def write(self, step: int, copied: dict[str, Any]) -> int:
        """Writes a copied state as the checkpoint of a step. Returns its size in bytes; all ranks see the same outcome.

        Raises RefusedError if a rank couldn't write, or a later generation has begun.
        """
        self._check_shards(copied["tensors"])
        folder = self.folder.partial(step)
        self._by_leaders(self.everyone, lambda: self.folder.begin(step))
        self._together(self.everyone, lambda: self._write_tensors(folder, copied["tensors"], copied["of_one_rank"]))
        ranks = self.everyone.gather(copied["rank"])
        self._by_leaders(self.everyone, lambda: _write_rest(folder, copied["others"], ranks))
        digests = self._together(self.sharing, lambda: self._digests(folder))
        files = {name: digest for each in digests for name, digest in each.items()}
        manifest = Manifest(step, self.everyone.size, self.folder.generation, files)
        self._by_leaders(self.everyone, lambda: self.folder.publish(manifest))
        return sum(digest.bytes for digest in files.values())

    def load(self, step: int, state: SavedState) -> None:
        """Restores the checkpoint that `newest` has named, from the folder of this rank or of another."""
        has_it = self._good is not None and self._good == self._newest
        holders: list[bool] = self.everyone.gather(has_it)
        tensors, others, ranks = state.tensors() if has_it else {}, dict[str, Any](), list[dict[str, Any]]()
        if has_it:
            self._read_tensors(self.folder.path(step), tensors)
            others, ranks = (_unpickled(self.folder.path(step) / name) for name in (OTHERS, RANKS))
        if not all(holders):
            source = holders.index(True)
            sent = self.everyone.broadcast((tensors, others, ranks) if self.everyone.index == source else None, source)
            tensors, others, ranks = (tensors, others, ranks) if has_it else sent
        state.set_tensors(tensors)
        state.set_rest(others, ranks, self.everyone.index, self.everyone.size)

    def _write_tensors(self, folder: Path, tensors: dict[str, Any], of_one_rank: frozenset[str] | None) -> None:
        dcp: Any = importlib.import_module("torch.distributed.checkpoint")
        writer = dcp.FileSystemWriter(folder, sync_files=True)
        group, is_alone = self.sharing.group, not self.sharing.is_distributed
        planner = _planner(of_one_rank)
        dcp.save(tensors, storage_writer=writer, planner=planner, process_group=group, no_dist=is_alone)

    def _read_tensors(self, folder: Path, tensors: dict[str, Any]) -> None:
        dcp: Any = importlib.import_module("torch.distributed.checkpoint")
        group, is_alone = self.sharing.group, not self.sharing.is_distributed
        dcp.load(tensors, storage_reader=dcp.FileSystemReader(folder), process_group=group, no_dist=is_alone)

    def _digests(self, folder: Path) -> dict[str, Digest]:
        """Returns the digests of the files that this rank has written; the leader's are those that no rank names."""
        own, of_ranks = f"__{self.sharing.index}_", "__"
        names = [
            name
            for name in (path.name for path in folder.iterdir())
            if name.startswith(own) or (self.sharing.is_leader and not name.startswith(of_ranks))
        ]
        return {name: Digest.of(folder / name) for name in names}

    def _check_shards(self, tensors: dict[str, Any]) -> None:
        """Refuses a model whose shards are on ranks that see another folder: no folder would hold all of it."""
        if self.is_shared_by_all:
            return
        from torch.distributed.tensor import DTensor

        if any(isinstance(value, DTensor) for value in tensors["model"].values()):
            what = "the model is in shards on several nodes, and each node has a checkpoint folder of its own"
            fix = "Put the compute's `folder` on a share of all its hosts."
            raise RefusedError(what, where=WHERE, fix=fix)

    def _by_leaders(self, ranks: RankGroup, work: Callable[[], object]) -> None:
        """Does work once for each folder, with the same outcome on all of the ranks."""
        self._together(ranks, lambda: work() if self.sharing.is_leader else None)

    def _together(self, ranks: RankGroup, work: Callable[[], Result]) -> list[Result]:
        """Does work on each rank, and fails on all if it fails on one, so that none waits for another."""
        try:
            outcome: tuple[Any, str, str] = (work(), "", "")
        except DrumbeatError as error:
            outcome = (None, error.what, error.fix or "")
        except Exception as error:  # noqa: BLE001 (whatever it is, the other ranks must hear of it)
            outcome = (None, f"{type(error).__name__}: {error}", "")
        outcomes = ranks.gather(outcome)
        for index, (_, what, fix) in enumerate(outcomes):
            if what and fix:
                raise RefusedError(what, where=str(self.folder.root), fix=fix)
            if what:
                failed = f"rank {ranks.ranks[index]} could not write or read a checkpoint: {what}"
                raise RefusedError(failed, where=str(self.folder.root), fix="See that the disk has room.")
        return [result for result, _, _ in outcomes]


def _sharing(root: Path, everyone: RankGroup) -> RankGroup:
    """Returns the group of the ranks that see the same folder as this one: those that find each other's marks."""
    root.mkdir(parents=True, exist_ok=True)
    mark = root / f".rank-{everyone.index}-{secrets.token_hex(8)}"
    mark.touch()
    try:
        marks: list[str] = everyone.gather(mark.name)
        seen = frozenset(path.name for path in root.iterdir())
        groups: list[list[int]] = everyone.gather([rank for rank, name in enumerate(marks) if name in seen])
    finally:
        mark.unlink(missing_ok=True)
    if all(len(ranks) == everyone.size for ranks in groups):
        return everyone
    own = everyone
    for ranks in sorted({tuple(ranks) for ranks in groups}):
        group = RankGroup(ranks)
        own = group if group.index >= 0 else own
    return own


def _averages(optimizer: Any) -> bool:
    """Whether it is torch's wrapper that averages weights over the ranks (`train.local_sgd`)."""
    module = sys.modules.get("torch.distributed.optim.post_localSGD_optimizer")  # Importing it takes a second.
    return module is not None and isinstance(optimizer, module.PostLocalSGDOptimizer)


def _check_torch() -> None:
    import torch

    try:
        importlib.import_module("torch.distributed.checkpoint.staging").DefaultStager  # noqa: B018 (is it there?)
    except (ImportError, AttributeError):
        what = f"torch {torch.__version__} is too old for train.Checkpoints: it can't copy sharded states"
        raise RefusedError(what, where=WHERE, fix="Take a newer torch; 2.13 is tested.") from None


def _planner(of_one_rank: frozenset[str] | None) -> Any:
    """Returns torch's planner, which divides what all ranks have among them, but for what must come from one rank."""
    planning: Any = importlib.import_module("torch.distributed.checkpoint.default_planner")
    divide: Any = planning.DefaultSavePlanner.create_global_plan
    kinds: Any = importlib.import_module("torch.distributed.checkpoint.planner").WriteItemType

    class Planner(planning.DefaultSavePlanner):
        """Leaves to the first rank what differs between ranks: tensors of several would be no rank's state."""

        def create_global_plan(self, all_plans: list[Any]) -> Any:
            taken, plans = set[Any](), list[Any]()
            for plan in all_plans:
                left = [item for item in plan.items if item.index not in taken]
                plans.append(dataclasses.replace(plan, items=left))
                taken |= {item.index for item in left if self._is_of_one_rank(item)}
            return divide(self, plans)

        def _is_of_one_rank(self, item: Any) -> bool:
            return item.type != kinds.SHARD and (of_one_rank is None or item.index.fqn in of_one_rank)

    return Planner()


def _write_rest(folder: Path, others: dict[str, Any], ranks: list[dict[str, Any]]) -> None:
    _pickle(folder / OTHERS, others)
    _pickle(folder / RANKS, ranks)


def _pickle(path: Path, value: Any) -> None:
    import torch

    with path.open("wb") as file:
        torch.save(value, file)
        file.flush()
        os.fsync(file.fileno())


def _unpickled(path: Path) -> Any:
    """Reads what `_pickle` wrote. The folder is the job's own, and its content was verified."""
    import torch

    return torch.load(path, map_location="cpu", weights_only=False)

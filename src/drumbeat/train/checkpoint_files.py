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
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from drumbeat.model.errors import DrumbeatError, RefusedError
from drumbeat.train.checkpoint_folder import CheckpointFolder, CheckpointManifest, Digest, Generation
from drumbeat.train.model_parts import (
    check_names_of_parts,
    find_unequal_weights,
    have_one_model,
    tensor_shapes,
    weights_of_rank,
)
from drumbeat.train.rank_group import RankGroup
from drumbeat.train.saved_state import WHERE, SavedState

RANKS, OTHERS = "ranks.pt", "others.pt"
SHARE = "Put the compute's `folder` on a share of all its hosts."
Result = TypeVar("Result")
Good = tuple[int, Generation]
"""A checkpoint's step, and the start of the ranks that wrote it."""


class CheckpointFiles:
    """Writes, verifies and reads checkpoints on all ranks.

    Usually all ranks see one folder. If each node has its own, the ranks of each node write the whole state there, and
    a node without a checkpoint gets it from another.
    """

    def __init__(self, folder: CheckpointFolder, everyone: RankGroup) -> None:
        self.folder, self.everyone = folder, everyone
        self.sharing = _sharing(folder.root, everyone)
        """The ranks that see the same folder as this one."""
        self._good: Good | None = None
        self._newest: Good | None = None
        self.is_shared_by_all = self.sharing.size == everyone.size
        self._has_one_model: bool | None = None
        self._has_compared_weights = False

    def claim(self) -> None:
        """Closes the folder to earlier generations of the job."""
        self._by_leaders(self.everyone, self.folder.claim)

    def compare_models(self, state: SavedState) -> None:
        """Detects, once, whether ranks have parts of a model. Raises RefusedError if a name is in two of them."""
        if self._has_one_model is not None:
            return
        shapes = tensor_shapes(state.root, state.model_tensors())
        has_one_model = have_one_model(self.everyone, shapes)
        if not has_one_model:
            check_names_of_parts(self.sharing, shapes, WHERE)
        self._has_one_model = has_one_model

    def compare_weights(self, state: SavedState) -> str:
        """Checks, once, whether ranks that should have the same weights do. Returns a line for the log if they don't.

        Raises RefusedError if they are stages of a pipeline, which would be mistaken for copies of one model.
        """
        self.compare_models(state)
        if self._has_compared_weights or state.may_differ_by_rank(self.everyone):
            return ""
        own = weights_of_rank(state.model, state.root, state.model_tensors())
        note = find_unequal_weights(self.sharing, own, WHERE)
        self._has_compared_weights = True
        return note

    def newest(self) -> tuple[int, list[str]]:
        """Returns the step of the newest intact checkpoint, and the problems of newer ones.

        Broken ones are put aside. Raises RefusedError if a file can't be read.
        """
        steps: list[int] = self.sharing.broadcast(self.folder.steps() if self.sharing.is_leader else None)
        notes: list[str] = []
        share = slice(self.sharing.index, None, self.sharing.size)
        self._good, newest = None, 0
        for step in steps:
            each = self._together(self.sharing, partial(self.folder.broken_files, step, share))
            broken = [line for lines in each for line in lines]
            if not broken:
                newest = step
                break
            notes.append(f"checkpoint: step {step:,} is broken and put aside ({broken[0]})")
            self._by_leaders(self.sharing, partial(self.folder.put_aside, step))
        if newest:
            self._good = newest, CheckpointManifest.read(self.folder.path(newest)).generation
        every: list[Good | None] = self.everyone.gather(self._good)
        # Nodes without a shared folder may have states of two attempts for one step: the later one counts.
        self._newest = max((good for good in every if good), default=None)
        return self._newest[0] if self._newest else 0, notes

    def write(self, step: int, copied: dict[str, Any]) -> int:
        """Writes a copied state as the checkpoint of a step. Returns its size in bytes; all ranks see the same outcome.

        Raises RefusedError if a rank couldn't write, or a later generation has begun.
        """
        self._check_shards(copied["tensors"])
        if not self._has_one_model:
            copied = {**copied, "of_one_rank": self._all_single_rank_names(copied["of_one_rank"])}
        folder = self.folder.partial(step)
        self._by_leaders(self.everyone, lambda: self.folder.begin(step))
        self._together(self.everyone, lambda: self._write_tensors(folder, copied))
        ranks = self.everyone.gather(copied["rank"])
        self._by_leaders(self.everyone, lambda: _write_rest(folder, copied["others"], ranks))
        digests = self._together(self.sharing, lambda: self._digests(folder))
        files = {name: digest for each in digests for name, digest in each.items()}
        manifest = CheckpointManifest(step, self.everyone.size, self.folder.generation, files)
        self._by_leaders(self.everyone, lambda: self.folder.publish(manifest))
        return sum(digest.bytes for digest in files.values())

    def load(self, step: int, state: SavedState) -> None:
        """Restores the checkpoint that `newest` returned, from this rank's folder or another's."""
        has_it = self._good is not None and self._good == self._newest
        holders: list[bool] = self.everyone.gather(has_it)
        if not all(holders) and not self._has_one_model:
            what = "some nodes have no checkpoint, and the ranks of others have other parts of the model"
            raise RefusedError(what, where=WHERE, fix=SHARE)
        tensors, others, ranks = dict[str, Any](), dict[str, Any](), list[dict[str, Any]]()
        if has_it:
            tensors = self._read_tensors(self.folder.path(step), state)
            others, ranks = (_unpickled(self.folder.path(step) / name) for name in (OTHERS, RANKS))
        if not all(holders):
            source = holders.index(True)
            sent = self.everyone.broadcast((tensors, others, ranks) if self.everyone.index == source else None, source)
            tensors, others, ranks = (tensors, others, ranks) if has_it else sent
        state.set_tensors(tensors)
        state.set_rest(others, ranks, self.everyone.index, self.everyone.size)

    def _write_tensors(self, folder: Path, copied: dict[str, Any]) -> None:
        dcp: Any = importlib.import_module("torch.distributed.checkpoint")
        writer = dcp.FileSystemWriter(folder, sync_files=True)
        group, is_alone = self.sharing.group, not self.sharing.is_distributed
        tensors, root, planner = copied["tensors"], copied["root"], _planner(copied["of_one_rank"])
        dcp.save(_under(root, tensors), storage_writer=writer, planner=planner, process_group=group, no_dist=is_alone)

    def _all_single_rank_names(self, own: frozenset[str] | None) -> frozenset[str] | None:
        """Returns, over all parts, what must come from one rank: one rank divides the work among all."""
        each: list[frozenset[str] | None] = self.sharing.gather(own)
        listings = [names for names in each if names is not None]
        return frozenset[str]().union(*listings) if len(listings) == len(each) else None

    def _read_tensors(self, folder: Path, state: SavedState) -> dict[str, Any]:
        dcp: Any = importlib.import_module("torch.distributed.checkpoint")
        reader, tensors = dcp.FileSystemReader(folder), dict[str, Any]()

        def ask() -> list[str]:
            metadata = reader.read_metadata()
            saved = {metadata.planner_data[key]: entry for key, entry in metadata.state_dict_metadata.items()}
            tensors.update(state.wanted(saved))
            return state.unwanted(saved, tensors)

        _check_all_is_wanted(self._together(self.sharing, ask))
        group, is_alone = self.sharing.group, not self.sharing.is_distributed
        dcp.load(_under(state.root, tensors), storage_reader=reader, process_group=group, no_dist=is_alone)
        return tensors

    def _digests(self, folder: Path) -> dict[str, Digest]:
        """Returns the digests of the files that this rank has written; the leader has those that belong to no rank."""
        own, of_ranks = f"__{self.sharing.index}_", "__"
        names = [
            name
            for name in (path.name for path in folder.iterdir())
            if name.startswith(own) or (self.sharing.is_leader and not name.startswith(of_ranks))
        ]
        return {name: Digest.from_file(folder / name) for name in names}

    def _check_shards(self, tensors: dict[str, Any]) -> None:
        """Refuses a model whose parts are on ranks with different folders: no folder would contain all of it."""
        if self.is_shared_by_all:
            return
        from torch.distributed.tensor import DTensor

        is_in_shards = any(isinstance(value, DTensor) for value in tensors["model"].values())
        if is_in_shards or not self._has_one_model:
            parts = "shards" if is_in_shards else "parts"
            what = f"the model is in {parts} on several nodes, and each node has its own checkpoint folder"
            raise RefusedError(what, where=WHERE, fix=SHARE)

    def _by_leaders(self, ranks: RankGroup, work: Callable[[], object]) -> None:
        """Runs `work` once for each folder, with the same result on all ranks."""
        self._together(ranks, lambda: work() if self.sharing.is_leader else None)

    def _together(self, ranks: RankGroup, work: Callable[[], Result]) -> list[Result]:
        """Runs `work` on each rank, and fails on all if it fails on one, so that none waits for another."""
        try:
            outcome: tuple[Any, str, str] = (work(), "", "")
        except DrumbeatError as error:
            outcome = (None, error.what, error.fix or "")
        except Exception as error:  # noqa: BLE001 (the other ranks must learn of any error)
            outcome = (None, f"{type(error).__name__}: {error}", "")
        outcomes = ranks.gather(outcome)
        for index, (_, what, fix) in enumerate(outcomes):
            if what and fix:
                raise RefusedError(what, where=str(self.folder.root), fix=fix)
            if what:
                failed = f"rank {ranks.ranks[index]} could not write or read a checkpoint: {what}"
                raise RefusedError(failed, where=str(self.folder.root), fix="Check that the disk has free space.")
        return [result for result, _, _ in outcomes]


def _sharing(root: Path, everyone: RankGroup) -> RankGroup:
    """Returns the group of ranks with the same folder as this one: those that find each other's marks."""
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


def _check_all_is_wanted(unwanted: list[list[str]]) -> None:
    """Refuses to drop states of optimizers: the training would continue, but not seamlessly.

    unwanted: by rank.
    """
    left_out = sorted(set[str].intersection(*map(set, unwanted)))
    if left_out:
        what = (
            f"the checkpoint has optimizer states for parameters that no optimizer has now: {', '.join(left_out[:3])}"
        )
        what += f" and {len(left_out) - 3} more" if len(left_out) > 3 else ""
        fix = "Before resume(), give the optimizers all parameters that they had, or start with an empty folder."
        raise RefusedError(what, where=WHERE, fix=fix)


def _under(root: tuple[str, ...], tensors: dict[str, Any]) -> dict[str, Any]:
    """Returns the tensors of a rank at their place in a checkpoint."""
    for key in reversed(root):
        tensors = {key: tensors}
    return tensors


def _planner(of_one_rank: frozenset[str] | None) -> Any:
    """Returns torch's planner, which divides common tensors among the ranks, except those that
    must come from one rank.
    """
    planning: Any = importlib.import_module("torch.distributed.checkpoint.default_planner")
    divide: Any = planning.DefaultSavePlanner.create_global_plan
    kinds: Any = importlib.import_module("torch.distributed.checkpoint.planner").WriteItemType

    class Planner(planning.DefaultSavePlanner):
        """Leaves tensors that differ between ranks to the first rank: mixed ones would be no rank's state."""

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
    """Reads a file that `_pickle` wrote. The folder is the job's own, and its content was verified."""
    import torch

    return torch.load(path, map_location="cpu", weights_only=False)

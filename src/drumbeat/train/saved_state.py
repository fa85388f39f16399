"""`SavedState`: the state of a training for a checkpoint, copied and set; `checkpoint_files.py` has its files."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from drumbeat.model.errors import RefusedError
from drumbeat.train import optimizer_states
from drumbeat.train.model_parts import is_wrapped_for_all
from drumbeat.train.optimizer_states import Entries, Path, as_text, value_paths
from drumbeat.train.outer_steps import OuterSteps
from drumbeat.train.rank_group import RankGroup

if TYPE_CHECKING:
    from torch import nn
    from torch.optim import Optimizer
import random

# The random generators of a rank: Python's, NumPy's and torch's, saved and restored.


def capture_generators() -> dict[str, Any]:
    """Returns the state of each generator in plain containers and tensors."""
    import torch

    version, internal, gauss = random.getstate()
    states: dict[str, Any] = {"python": [version, list(internal), gauss], "torch": torch.get_rng_state()}
    if torch.cuda.is_available():
        states["cuda"] = torch.cuda.get_rng_state()
    if "numpy" in sys.modules:
        name, keys, *rest = sys.modules["numpy"].random.get_state(legacy=True)
        states["numpy"] = [name, keys.tolist(), *rest]
    return states


def restore_generators(states: dict[str, Any]) -> None:
    """Restores the generators from a result of `capture_generators`."""
    import torch

    version, internal, gauss = states["python"]
    random.setstate((version, tuple(internal), gauss))
    torch.set_rng_state(states["torch"])
    if "cuda" in states and torch.cuda.is_available():
        torch.cuda.set_rng_state(states["cuda"])
    if "numpy" in states:
        numpy: Any = importlib.import_module("numpy")
        name, keys, *rest = states["numpy"]
        numpy.random.set_state((name, numpy.array(keys, dtype=numpy.uint32), *rest))


WHERE = "train.Checkpoints"
AVERAGING = "drumbeat.averaging"
"""The prefix of the names of averagers' steps among the other states."""


class AveragingSteps:
    """The step counter of the averager of an optimizer by `local_sgd`."""

    def __init__(self, optimizer: Any) -> None:
        self._averager = optimizer.averager

    def state_dict(self) -> dict[str, int]:
        """Returns the number of steps."""
        return {"step": self._averager.step}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Continues from a number of steps."""
        self._averager.step = state["step"]


class SavedState:
    """The content of a checkpoint: the parts of a training that change."""

    def __init__(
        self,
        model: nn.Module,
        optimizers: Optimizer | Iterable[Optimizer],
        loader: Any,
        others: Mapping[str, Any],
        stage: int | str | None = None,
    ) -> None:
        """stage: of a pipeline, as a prefix of this rank's tensors; None = their names are distinct."""
        from torch.optim import Optimizer

        _check_torch()
        given = [optimizers] if isinstance(optimizers, Optimizer) else list(optimizers)
        averaging: dict[int, Any] = {at: one for at, one in enumerate(given) if _averages(one)}
        steps = {f"{AVERAGING}.{at}": AveragingSteps(one) for at, one in averaging.items()}
        self.model, self.loader, self.others = model, loader, {**others, **steps}
        self._averaging = list(averaging.values())
        # torch's state functions don't support its own wrapper.
        self.optimizers: list[Any] = [averaging[at].optim if at in averaging else one for at, one in enumerate(given)]
        optimizer_states.check_one_optimizer_each(self.optimizers, WHERE)
        self.root: Path = () if stage is None else ("stages", str(stage))
        """The prefix of this rank's tensors in a checkpoint."""

    def tensors(self) -> dict[str, Any]:
        """Returns the state of model and optimizers by parameter names that all ranks share."""
        states = optimizer_states.collect_states(self.model, self.optimizers)
        return {"model": self.model_tensors(), "optimizers": states}

    def model_tensors(self) -> dict[str, Any]:
        """Returns the state of the model by names that all ranks share."""
        from torch.distributed.checkpoint.state_dict import get_model_state_dict

        return get_model_state_dict(self.model)

    def wanted(self, saved: Entries) -> dict[str, Any]:
        """Returns the targets for the tensors of a checkpoint. saved: the metadata of its values.

        Raises RefusedError if the checkpoint has other stages.
        """
        depth, place = len(self.root), (*self.root, "optimizers")
        if not any(path[:depth] == self.root and path[depth] == "model" for path in saved):
            stages = sorted({path[1] for path in saved if path[0] == "stages"})
            origin = f"of the stages {', '.join(stages)}" if stages else "without stages"
            here = f"this rank has stage {self.root[-1]}" if self.root else "this rank has none"
            fix = "Give train.Checkpoints the `stage` that saved it, or start with an empty folder."
            raise RefusedError(f"the checkpoint was saved {origin}, but {here}", where=WHERE, fix=fix)
        entries = {path[depth + 1 :]: entry for path, entry in saved.items() if path[: depth + 1] == place}
        states = optimizer_states.wanted_states(self.model, self.optimizers, entries)
        return {"model": self.model_tensors(), "optimizers": states}

    def unwanted(self, saved: Entries, wanted: dict[str, Any]) -> list[str]:
        """Returns the parameters whose states in a checkpoint aren't wanted; none for a model without optimizers."""
        if not self.optimizers:
            return []
        states = wanted["optimizers"]["state"]
        asked = {as_text((*self.root, "optimizers", "state", *path)) for path in value_paths(states)}
        left_out = [path for path in saved if as_text(path) not in asked]
        return sorted({".".join(name) for name in map(_state_path, left_out) if name})

    def copied(self) -> dict[str, Any]:
        """Returns a copy of everything in CPU memory, which the next step can't change."""
        from torch.distributed.checkpoint.staging import DefaultStager, StagingOptions

        tensors = self.tensors()
        states = {
            "tensors": tensors,
            "others": {name: other.state_dict() for name, other in self.others.items()},
            "rank": {
                "random": capture_generators(),
                "loader": self.loader.state_dict() if self.loader is not None else None,
            },
        }
        stager: Any = DefaultStager(StagingOptions(*[False] * 4))
        try:
            of_one_rank = self._single_rank_names(tensors["model"])
            return {**stager.stage(states), "of_one_rank": of_one_rank, "root": self.root}
        finally:
            stager.close()

    def _single_rank_names(self, model: dict[str, Any]) -> frozenset[str] | None:
        """Returns the tensors that may differ between ranks although each rank has all of them; None = any of them may.

        DistributedDataParallel keeps parameters equal. Each rank updates its buffers by its own batches, and rank 0's
        count; an unwrapped model (`OuterSteps`) differs on each rank. So does one whose optimizer averages weights:
        torch's post-local SGD hook lets DistributedDataParallel sum gradients only within subgroups.
        """
        import torch
        from torch.nn.parallel import DistributedDataParallel

        model_as_written = getattr(self.model, "_orig_mod", self.model)  # The original of a compiled model.
        if self._averaging or not isinstance(model_as_written, DistributedDataParallel):
            return None
        equal = {parameter.data_ptr() for parameter in self.model.parameters()}
        tensors = {name: value for name, value in model.items() if isinstance(value, torch.Tensor)}
        prefix = ".".join((*self.root, "model"))
        return frozenset(f"{prefix}.{name}" for name, value in tensors.items() if value.data_ptr() not in equal)

    def may_differ_by_rank(self, ranks: RankGroup) -> bool:
        """Whether comparing the weights of ranks is pointless: they differ by design, or can't differ."""
        averages = self._averaging or any(isinstance(other, OuterSteps) for other in self.others.values())
        return ranks.size == 1 or bool(averages) or is_wrapped_for_all(self.model, ranks)

    def set_tensors(self, tensors: dict[str, Any]) -> None:
        """Sets model and optimizers."""
        from torch.distributed.checkpoint.state_dict import set_model_state_dict

        set_model_state_dict(self.model, tensors["model"])
        optimizer_states.set_states(self.model, self.optimizers, tensors["optimizers"], WHERE)
        for wrapper in self._averaging:
            # Loading replaces the groups, but a schedule sets the learning rate in those of the wrapper.
            wrapper.param_groups = wrapper.optim.param_groups

    def set_rest(self, others: dict[str, Any], ranks: list[dict[str, Any]], rank: int, world_size: int) -> None:
        """Sets the other states, this rank's place in the data and, last, its random generators."""
        for name, other in self.others.items():
            if name in others:
                other.load_state_dict(others[name])
        saved = ranks[rank] if rank < len(ranks) else ranks[0]
        if self.loader is not None and saved["loader"] is not None:
            self._check_loader(len(ranks), world_size)
            self.loader.load_state_dict(saved["loader"])
        if len(ranks) == world_size:
            restore_generators(saved["random"])

    def _check_loader(self, saved_by: int, world_size: int) -> None:
        if saved_by != world_size and not getattr(self.loader, "is_for_any_world_size", False):
            what = f"{saved_by} ranks saved their places in the data, but {world_size} ranks are running"
            fix = "train.ResumableLoader resumes with any number of ranks that divides its batch."
            raise RefusedError(what, where=WHERE, fix=fix)


def _state_path(path: Path) -> Path:
    """Returns the stage, if any, and the parameter whose state is at a path of a checkpoint; () = neither."""
    depth = 2 if path[0] == "stages" else 0
    return (*path[:depth], path[depth + 2]) if path[depth : depth + 2] == ("optimizers", "state") else ()


def _averages(optimizer: Any) -> bool:
    """Whether an optimizer is torch's wrapper that averages weights over the ranks (`train.local_sgd`)."""
    module = sys.modules.get("torch.distributed.optim.post_localSGD_optimizer")  # Importing it takes a second.
    return module is not None and isinstance(optimizer, module.PostLocalSGDOptimizer)


def _check_torch() -> None:
    import torch

    try:
        importlib.import_module("torch.distributed.checkpoint.staging").DefaultStager  # noqa: B018 (is it there?)
    except (ImportError, AttributeError):
        what = f"torch {torch.__version__} is too old for train.Checkpoints: it can't copy sharded states"
        raise RefusedError(what, where=WHERE, fix="Install a newer torch; 2.13 is tested.") from None

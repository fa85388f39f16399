"""Checkpoints of optimizers that have stepped only a part of their parameters, or none: training goes on bit by bit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="needs torch: run tools/setup.sh")

import torch
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict

from drumbeat.model.errors import RefusedError
from drumbeat.train import Checkpoints
from drumbeat.train.checkpoint_files import CheckpointFiles
from drumbeat.train.checkpoint_folder import CheckpointFolder, Generation
from drumbeat.train.rank_group import RankGroup
from drumbeat.train.saved_state import SavedState

pytestmark = [
    pytest.mark.feature("T5"),
    pytest.mark.filterwarnings("ignore:torch.distributed is disabled, unavailable or uninitialized:UserWarning"),
]
Optimizers = list[torch.optim.Optimizer]


class Training:
    """A small model and its optimizers. Each case has its own way of a step."""

    def __init__(self) -> None:
        torch.manual_seed(1)
        self.model: nn.Module = nn.ModuleList(nn.Linear(3, 3) for _ in range(3))
        self.optimizers: Optimizers = [torch.optim.Adam(self.model.parameters(), lr=0.1)]

    def step(self, number: int) -> None:
        for optimizer in self.optimizers:
            optimizer.zero_grad()
        self.backward(number)
        for optimizer in self.optimizers:
            optimizer.step()

    def backward(self, number: int) -> None:
        total = torch.full((2, 3), 0.1 * number)
        for layer in self.layers():
            total = layer(total).tanh()
        (total**2).sum().backward()

    def layers(self) -> list[Any]:
        return [*self.model.children()]


class WithoutGradient(Training):
    """The last layer is never used."""

    def layers(self) -> list[Any]:
        return super().layers()[:2]


class OneHasNotStepped(Training):
    """The optimizer of the last layer steps from the fourth step on, and finds no gradients at a save."""

    def __init__(self) -> None:
        super().__init__()
        *others, last = self.model.children()
        rest = nn.ModuleList(others).parameters()
        self.optimizers = [torch.optim.SGD(rest, lr=0.1), torch.optim.Adam(last.parameters(), lr=0.1)]

    def step(self, number: int) -> None:
        self.backward(number)
        for optimizer in self.optimizers[: 1 if number < 4 else 2]:
            optimizer.step()
        self.model.zero_grad()


class Unfrozen(Training):
    """The first layer is frozen but in the second and third step, as where layers are trained in turn."""

    def __init__(self) -> None:
        super().__init__()
        self.freeze(is_frozen=True)

    def freeze(self, *, is_frozen: bool) -> None:
        for parameter in self.layers()[0].parameters():
            parameter.requires_grad_(not is_frozen)

    def step(self, number: int) -> None:
        self.freeze(is_frozen=number not in (2, 3, 6))
        super().step(number)


class SparseGradients(Training):
    def __init__(self) -> None:
        super().__init__()
        self.model = nn.Embedding(5, 4, sparse=True)
        self.optimizers = [torch.optim.SparseAdam(self.model.parameters(), lr=0.1)]

    def backward(self, number: int) -> None:
        (self.model(torch.arange(number % 4 + 1)) ** 2).sum().backward()


class WithClosure(Training):
    def __init__(self) -> None:
        super().__init__()
        self.optimizers = [torch.optim.LBFGS(self.model.parameters(), lr=0.1, max_iter=2)]

    def step(self, number: int) -> None:
        def loss() -> float:
            self.optimizers[0].zero_grad()
            self.backward(1)
            return sum(float((one.detach() ** 2).sum()) for one in self.model.parameters())

        self.optimizers[0].step(loss)


class StatelessTwice(Training):
    def __init__(self) -> None:
        super().__init__()
        self.optimizers = [torch.optim.SGD(layer.parameters(), lr=0.1 * at) for at, layer in enumerate(self.layers())]


class InGroups(Training):
    """Momentum, options by group, and a group without a parameter."""

    def __init__(self) -> None:
        super().__init__()
        first, *others = self.layers()
        groups = [{"params": first.parameters(), "lr": 0.3, "nesterov": True}, {"params": []},
                  {"params": nn.ModuleList(others).parameters()}]  # fmt: skip
        self.optimizers = [torch.optim.SGD(groups, lr=0.1, momentum=0.9)]


class Tied(Training):
    """Two layers share their weight."""

    def __init__(self) -> None:
        super().__init__()
        first, second, _ = self.layers()
        second.weight = first.weight
        self.optimizers = [torch.optim.AdamW(self.model.parameters(), lr=0.1, amsgrad=True)]


CASES = [Training, WithoutGradient, OneHasNotStepped, Unfrozen, SparseGradients, WithClosure, StatelessTwice, InGroups,
         Tied]  # fmt: skip


def state(training: Training) -> Any:
    """Everything that a later step depends on, in plain values."""
    return plain([training.model.state_dict(), [one.state_dict() for one in training.optimizers]])


def plain(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.tolist()
    if isinstance(value, dict):
        return {key: plain(one) for key, one in value.items()}
    return [plain(one) for one in value] if isinstance(value, (list, tuple)) else value


def checkpoints(training: Training, folder: Path) -> Checkpoints:
    return Checkpoints(training.model, training.optimizers, folder=folder, every=1)


def unbroken(make: Callable[[], Training], steps: int) -> Any:
    training = make()
    for number in range(1, steps + 1):
        training.step(number)
    return state(training)


def train_on(training: Training, saves: Checkpoints, steps: int) -> int:
    """Resumes and does some steps, with a save after each. Returns the number of the step after which it went on."""
    first = saves.resume()
    for number in range(first + 1, first + steps + 1):
        training.step(number)
        saves.step(number)
    saves.close()
    return first


@pytest.mark.parametrize("make", CASES)
def test_training_goes_on_from_any_step_as_if_unbroken(make: Callable[[], Training], tmp_path: Path):
    """Each of six steps is done by a training of its own."""
    for number in range(6):
        training = make()
        assert train_on(training, checkpoints(training, tmp_path), 1) == number
        assert state(training) == unbroken(make, number + 1)


@pytest.mark.parametrize("make", CASES)
def test_saves_change_nothing_of_a_training(make: Callable[[], Training], tmp_path: Path):
    training = make()
    train_on(training, checkpoints(training, tmp_path), 6)
    assert state(training) == unbroken(make, 6)


def save_as_earlier_versions(training: Training, step: int, folder: Path, groups: slice) -> None:
    """Saves a state as torch gives it, with a list of groups of which only some are saved."""
    model, states = get_state_dict(training.model, training.optimizers)
    states: Any = {**states, "param_groups": states["param_groups"][groups]}
    copied = SavedState(training.model, training.optimizers, None, {}).copied()
    files = CheckpointFiles(CheckpointFolder(folder, 3, Generation(0, 0, "")), RankGroup())
    files.claim()
    files.write(step, {**copied, "tensors": {"model": model, "optimizers": states}})


@pytest.mark.parametrize("make", [Training, InGroups, Tied])
def test_checkpoint_of_an_earlier_version_is_read(make: Callable[[], Training], tmp_path: Path):
    training = make()
    for number in (1, 2):
        training.step(number)
    save_as_earlier_versions(training, 2, tmp_path, slice(None))
    resumed = make()
    assert train_on(resumed, checkpoints(resumed, tmp_path), 1) == 2
    assert state(resumed) == unbroken(make, 3)


def test_states_without_their_options_are_refused(tmp_path: Path):
    """Earlier versions saved the first stage's options for all stages of a pipeline."""
    training = InGroups()
    training.step(1)
    save_as_earlier_versions(training, 1, tmp_path, slice(1))
    saves = checkpoints(InGroups(), tmp_path)
    with pytest.raises(RefusedError, match=r"has a state of 1.weight, but no options of its optimizer"):
        saves.resume()
    saves.close()


def test_checkpoint_of_another_stage_is_refused(tmp_path: Path):
    saves = Checkpoints(nn.Linear(1, 1), folder=tmp_path, stage=3)
    saves.save(1)
    saves.close()
    for stage, here in [(None, "this rank has none"), (4, "this rank has stage 4")]:
        saves = Checkpoints(nn.Linear(1, 1), folder=tmp_path, stage=stage)
        with pytest.raises(RefusedError, match=f"the checkpoint was saved of the stages 3, but {here}"):
            saves.resume()
        saves.close()


@pytest.mark.parametrize("does_step", [False, True], ids=["backward", "step"])
def test_optimizers_go_on_after_a_warm_up_before_resume(does_step: bool, tmp_path: Path):
    training = Training()
    train_on(training, checkpoints(training, tmp_path), 3)
    resumed = Training()
    resumed.backward(1)
    gradients = [plain(one.grad) for one in resumed.model.parameters()]
    if does_step:
        resumed.optimizers[0].step()
    saves = checkpoints(resumed, tmp_path)
    saves.resume()
    saves.close()
    assert state(resumed) == state(training)
    assert [plain(one.grad) for one in resumed.model.parameters()] == gradients


def test_states_of_optimizers_that_are_missing_at_resume_are_refused(tmp_path: Path):
    training = Training()
    train_on(training, checkpoints(training, tmp_path), 1)
    fewer = Training()
    fewer.optimizers = [torch.optim.Adam(fewer.layers()[0].parameters(), lr=0.1)]
    saves = checkpoints(fewer, tmp_path)
    with pytest.raises(
        RefusedError, match=r"optimizer states for parameters that no optimizer has now: 1.bias, 1.weight, 2.bias"
    ):
        saves.resume()
    saves.close()


def test_model_is_read_without_its_optimizers(tmp_path: Path):
    training = Training()
    train_on(training, checkpoints(training, tmp_path), 1)
    model = Training().model
    saves = Checkpoints(model, folder=tmp_path)
    assert saves.resume() == 1
    saves.close()
    assert plain(model.state_dict()) == plain(training.model.state_dict())


def test_another_kind_of_optimizer_is_refused(tmp_path: Path):
    training = Training()
    train_on(training, checkpoints(training, tmp_path), 1)
    other = Training()
    other.optimizers = [torch.optim.SGD(other.model.parameters(), lr=0.1)]
    saves = checkpoints(other, tmp_path)
    with pytest.raises(RefusedError, match=r"the checkpoint has no dampening, momentum, nesterov for 0.weight, as SGD"):
        saves.resume()
    saves.close()


def test_parameter_of_two_optimizers_is_refused(tmp_path: Path):
    training = Training()
    training.optimizers.append(torch.optim.SGD(training.layers()[1].parameters(), lr=0.1))
    with pytest.raises(RefusedError, match="optimizers 0 and 1 have a parameter in common"):
        checkpoints(training, tmp_path)

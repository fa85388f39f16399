"""What a checkpoint has of a training by local SGD, and what a resumed one goes on with."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("torch", reason="needs torch: run tools/setup.sh")

import torch
import torch.distributed as dist
from torch import nn
from torch.optim.lr_scheduler import StepLR

from drumbeat.train import local_sgd
from drumbeat.train.saved_state import SavedState

pytestmark = [
    pytest.mark.feature("T5"),
    # torch.distributed.optim, which torch imports for the wrapper, scripts functions of its own.
    pytest.mark.filterwarnings("ignore:.torch.jit.[a-z]+. is deprecated:DeprecationWarning"),
]


@pytest.fixture(autouse=True)
def group() -> Iterator[None]:
    """A process group of one."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def make() -> tuple[nn.Module, Any]:
    torch.manual_seed(1)
    network = nn.Linear(2, 2)
    return network, local_sgd(torch.optim.SGD(network.parameters(), lr=1.0, momentum=0.9), every=2)


def train(network: nn.Module, optimizer: Any, schedule: StepLR) -> tuple[float, list[float]]:
    """Does a step, and returns the learning rate that it had and the weights that it left."""
    rate = optimizer.optim.param_groups[0]["lr"]
    optimizer.zero_grad()
    network(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    schedule.step()
    return rate, network.weight.flatten().tolist()


@pytest.mark.parametrize("is_made_before", [True, False], ids=["schedule-before-resume", "schedule-after-resume"])
def test_schedule_on_a_resumed_local_sgd_sets_the_rate_of_its_steps(is_made_before: bool):
    network, optimizer = make()
    schedule = StepLR(optimizer, 1, 0.1)
    train(network, optimizer, schedule)
    saved = SavedState(network, optimizer, None, {}).copied()
    past = schedule.state_dict()
    unbroken = [train(network, optimizer, schedule) for _ in range(3)]
    assert [rate for rate, _ in unbroken] == pytest.approx([0.1, 0.01, 0.001])

    network, optimizer = make()
    early = StepLR(optimizer, 1, 0.1) if is_made_before else None
    resumed = SavedState(network, optimizer, None, {})
    resumed.set_tensors(saved["tensors"])
    resumed.set_rest(saved["others"], [saved["rank"]], 0, 1)
    schedule = early or StepLR(optimizer, 1, 0.1)
    schedule.load_state_dict(past)
    assert [train(network, optimizer, schedule) for _ in range(3)] == unbroken


def test_checkpoint_of_ddp_with_averaged_weights_has_the_tensors_of_one_rank():
    network = nn.parallel.DistributedDataParallel(nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2)))
    inner = torch.optim.SGD(network.parameters(), lr=1.0)
    divided = SavedState(network, inner, None, {}).copied()["of_one_rank"]
    assert divided == {f"model.1.{name}" for name in ("running_mean", "running_var", "num_batches_tracked")}
    assert SavedState(network, local_sgd(inner, every=2), None, {}).copied()["of_one_rank"] is None

"""The learning rates that a training goes on with when its number of ranks is another one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="needs torch: run tools/setup.sh")

import torch
from torch import nn
from torch.optim import lr_scheduler

from drumbeat.model.errors import RefusedError
from drumbeat.train import BatchScaling, Checkpoints
from drumbeat.train.batch_scaling import compute_scaling

pytestmark = [
    pytest.mark.feature("T5", "T7"),
    pytest.mark.filterwarnings("ignore:torch.distributed is disabled:UserWarning"),
]


def make(scaling: BatchScaling, make_schedule: Any) -> tuple[Any, Any, Any]:
    torch.manual_seed(0)
    model = nn.Linear(2, 2)
    groups = [{"params": [model.weight]}, {"params": [model.bias], "lr": 10 * scaling.lr}]
    optimizer = torch.optim.SGD(groups, lr=scaling.lr, momentum=0.9)
    return model, optimizer, make_schedule(optimizer, scaling)


def steps(optimizer: Any, schedule: Any, count: int) -> list[list[float]]:
    """Does so many steps, and returns the rates that each had."""
    rates: list[list[float]] = []
    for _ in range(count):
        rates.append([group["lr"] for group in optimizer.param_groups])
        optimizer.step()
        schedule.step()
    return rates


def warm_up_and_decay(optimizer: Any, _: BatchScaling) -> Any:
    first = lr_scheduler.LinearLR(optimizer, 0.1, total_iters=2)
    return lr_scheduler.SequentialLR(optimizer, [first, lr_scheduler.CosineAnnealingLR(optimizer, 8)], [2])


SCHEDULES = {
    "warm-up": lambda optimizer, scaling: lr_scheduler.LambdaLR(optimizer, scaling.factor),
    "steps": lambda optimizer, _: lr_scheduler.StepLR(optimizer, 2, 0.1),
    "cosine": lambda optimizer, _: lr_scheduler.CosineAnnealingLR(optimizer, 10),
    "one-cycle": lambda optimizer, scaling: lr_scheduler.OneCycleLR(
        optimizer, [scaling.lr, 10 * scaling.lr], total_steps=10
    ),
    "sequence": warm_up_and_decay,
}


@pytest.mark.parametrize("kind", SCHEDULES)
def test_resumed_rates_are_those_of_as_many_ranks_from_the_start(kind: str, tmp_path: Path):
    two, three = (compute_scaling(0.1, world_size=size, batch_per_rank=4, warmup_steps=6) for size in (2, 3))
    model, optimizer, schedule = make(two, SCHEDULES[kind])
    before = Checkpoints(model, optimizer, folder=tmp_path, scaling=two, schedule=schedule)
    steps(optimizer, schedule, 3)
    before.save(3)
    before.close()
    _, expected_optimizer, expected_schedule = make(three, SCHEDULES[kind])
    expected = steps(expected_optimizer, expected_schedule, 9)[3:]

    model, optimizer, schedule = make(three, SCHEDULES[kind])
    after = Checkpoints(model, optimizer, folder=tmp_path, scaling=three, schedule=schedule)
    assert after.resume() == 3
    after.close()
    assert schedule.get_last_lr() == [group["lr"] for group in optimizer.param_groups]
    assert steps(optimizer, schedule, 6) == [pytest.approx(rates) for rates in expected]


def test_rates_of_the_same_ranks_are_those_that_were_saved_to_the_bit(tmp_path: Path):
    scaling = compute_scaling(0.1, world_size=3, batch_per_rank=4)
    model, optimizer, schedule = make(scaling, SCHEDULES["cosine"])
    checkpoints = Checkpoints(model, optimizer, folder=tmp_path, scaling=scaling, schedule=schedule)
    steps(optimizer, schedule, 3)
    checkpoints.save(3)
    checkpoints.wait()
    expected = steps(optimizer, schedule, 3)
    checkpoints.resume()
    checkpoints.close()
    assert steps(optimizer, schedule, 3) == expected


def test_rate_without_schedule_follows_and_that_saved_without_scaling_stays(tmp_path: Path):
    two, three = (compute_scaling(0.1, world_size=size, batch_per_rank=4) for size in (2, 3))
    for saved, rate in ((two, 0.3), (None, 0.2)):
        folder = tmp_path / str(rate)
        model = nn.Linear(2, 2)
        before = Checkpoints(model, torch.optim.SGD(model.parameters(), lr=two.lr), folder=folder, scaling=saved)
        before.save(1)
        before.close()
        optimizer = torch.optim.SGD(model.parameters(), lr=three.lr)
        after = Checkpoints(model, optimizer, folder=folder, scaling=three)
        after.resume()
        after.close()
        assert optimizer.param_groups[0]["lr"] == pytest.approx(rate)


def test_scaling_that_is_something_else_is_refused(tmp_path: Path):
    other: Any = nn.Linear(1, 1)
    with pytest.raises(RefusedError, match="`scaling` is a Linear, not the result"):
        Checkpoints(nn.Linear(1, 1), folder=tmp_path, scaling=other)

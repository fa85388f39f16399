"""DDP packs its buckets in the same order after a restart, so that sums of gradients keep their last digits."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

pytest.importorskip("torch", reason="needs torch: run tools/setup.sh")

import torch
import torch.distributed as dist
from torch import nn

from drumbeat.train.gradient_order import GradientOrder

pytestmark = pytest.mark.feature("T5")


@pytest.fixture(autouse=True)
def group() -> Iterator[None]:
    """A process group of one."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def make_model() -> nn.Module:
    torch.manual_seed(1)
    return nn.parallel.DistributedDataParallel(nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3), nn.Linear(3, 1)))


def step(model: nn.Module) -> list[torch.Tensor]:
    model.zero_grad()
    model(torch.ones(4, 2)).sum().backward()
    return [parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None]


def test_order_is_that_of_the_first_backward_pass():
    model = make_model()
    order = GradientOrder(model)
    assert order.state_dict() == {"names": []}
    step(model)
    first = order.state_dict()["names"]
    assert sorted(first) == sorted(name for name, _ in model.module.named_parameters())
    step(model)
    assert order.state_dict()["names"] == first


def test_buckets_are_packed_again_before_the_first_step_after_a_restart():
    unbroken = make_model()
    order = GradientOrder(unbroken)
    expected = step(unbroken)
    step(unbroken)
    assert unbroken._has_rebuilt_buckets
    resumed = make_model()
    saved = GradientOrder(resumed)
    saved.load_state_dict(order.state_dict())
    assert all(parameter.grad is None for parameter in resumed.parameters())
    actual = step(resumed)
    assert resumed._has_rebuilt_buckets
    assert all(torch.equal(one, other) for one, other in zip(expected, actual, strict=True))
    assert saved.state_dict() == order.state_dict()
    assert type(resumed.module) is nn.Sequential


@pytest.mark.parametrize("names", [[], ["0.weight"], ["another"]])
def test_order_of_another_model_is_left_alone(names: list[str]):
    model = make_model()
    order = GradientOrder(model)
    order.load_state_dict({"names": names})
    step(model)
    assert len(order.state_dict()["names"]) == 6


def test_models_that_are_not_plain_ddp_have_no_order():
    plain = nn.Linear(2, 1)
    unused = nn.parallel.DistributedDataParallel(nn.Linear(2, 1), find_unused_parameters=True)
    for model in (plain, unused):
        order = GradientOrder(model)
        order.load_state_dict({"names": ["weight", "bias"]})
        step(model)
        assert order.state_dict() == {"names": []}

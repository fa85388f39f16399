"""What the parameter server does with gradients, and what it sends."""

from __future__ import annotations

import pytest

pytest.importorskip("torch", reason="needs torch: run tools/setup.sh")

import torch
from torch._subclasses import FakeTensorMode

from drumbeat.train.parameter_server import ParameterServer, collect_gradients

pytestmark = pytest.mark.feature("T4")


def test_weight_without_a_gradient_keeps_its_value_under_weight_decay():
    model = torch.nn.ParameterList([torch.ones(3), torch.ones(3)])
    server = ParameterServer([*model], lambda weights: torch.optim.AdamW(weights, lr=0.1, weight_decay=0.1))
    model[1].grad = torch.ones(3)
    for _ in range(3):
        updates, weights = server.push(collect_gradients(model))
    assert updates == 3
    assert weights[0].tolist() == [1.0, 1.0, 1.0]
    assert max(weights[1].tolist()) < 0.8


def test_messages_between_ranks_are_cpu_tensors():
    # Tensors that say they are on a GPU: torch computes their shapes and devices without one.
    with FakeTensorMode():
        weight = torch.nn.Parameter(torch.ones(3, device="cuda"))
        weight.grad = torch.ones(3, device="cuda")
        server = ParameterServer([weight], lambda weights: torch.optim.SGD(weights, lr=0.1))
        sent = collect_gradients([weight])
        _, pushed = server.push(sent)
        _, pulled = server.pull()
        assert [one.device.type for one in (*sent, *pushed, *pulled) if one is not None] == ["cpu"] * 3

"""LARS against steps that were computed by hand."""

from __future__ import annotations

import pytest

pytest.importorskip("torch", reason="needs torch: run tools/setup.sh")

import torch

from drumbeat.train import use_lars


def test_layer_is_updated_by_its_own_rate():
    weights = torch.nn.Parameter(torch.tensor([[3.0, 4.0]]))  # |w| = 5
    bias = torch.nn.Parameter(torch.tensor([1.0]))
    optimizer = use_lars(torch.optim.SGD([weights, bias], lr=2.0, weight_decay=0.1), trust=0.01)
    weights.grad, bias.grad = torch.tensor([[0.0, 2.0]]), torch.tensor([0.5])  # |g| = 2
    optimizer.step()
    # ratio = 0.01 · 5 / (2 + 0.1 · 5) = 0.02; w − 2 · 0.02 · (g + 0.1 · w); the bias: 1 − 2 · (0.5 + 0.1).
    assert weights.tolist()[0] == pytest.approx([3 - 0.04 * 0.3, 4 - 0.04 * 2.4])
    assert bias.item() == pytest.approx(-0.2)


def test_layer_without_gradient_or_weights_keeps_the_plain_rate():
    weights = torch.nn.Parameter(torch.zeros(1, 2))
    optimizer = use_lars(torch.optim.SGD([weights], lr=1.0))
    weights.grad = torch.tensor([[1.0, 0.0]])
    optimizer.step()
    assert weights.tolist() == [[-1.0, 0.0]]

"""What rare updates say that they send."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("torch", reason="needs torch: run tools/setup.sh")

import torch
import torch.distributed as dist
from torch import nn

from drumbeat.model.errors import RefusedError
from drumbeat.rank import metric_log
from drumbeat.train import OuterSteps, local_sgd
from drumbeat.train.sent_bytes import OF_DDP, SENT, VARIABLE

pytestmark = [
    pytest.mark.feature("T4"),
    pytest.mark.filterwarnings("ignore:.torch.jit.[a-z]+. is deprecated:DeprecationWarning"),
]


@pytest.fixture(autouse=True)
def group() -> Iterator[None]:
    """A process group of one."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


class Calls:
    """What a script logs, in place of the buffer for the node's endpoint."""

    def __init__(self) -> None:
        self.made: list[tuple[int | None, dict[str, float]]] = []

    def add(self, step: int | None, values: dict[str, float]) -> None:
        self.made.append((step, values))


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Calls:
    made = Calls()
    monkeypatch.setattr(metric_log, "_buffer", made)
    return made


def logged(step: int, sent: int, of_ddp: int) -> tuple[int, dict[str, float]]:
    return step, {SENT: sent, OF_DDP: of_ddp}


@pytest.mark.parametrize(("dtype", "size"), [(None, 4), (torch.bfloat16, 2)])
def test_outer_steps_log_the_bytes_of_their_moves_beside_those_of_gradients(calls: Calls, dtype: Any, size: int):
    network = nn.Linear(3, 1)
    steps = OuterSteps(network, every=2, dtype=dtype)
    for _ in range(3):
        steps.step()
    resumed = OuterSteps(network, every=2, dtype=dtype)
    resumed.load_state_dict(steps.state_dict())
    resumed.step()
    assert calls.made == [logged(2, 4 * size, 2 * 16), logged(4, 8 * size, 4 * 16)]


def test_local_sgd_logs_the_bytes_of_its_means(calls: Calls):
    network = nn.Linear(3, 1)
    optimizer = local_sgd(torch.optim.SGD(network.parameters(), lr=1.0), every=2)
    for _ in range(3):
        network(torch.ones(1, 3)).sum().backward()
        optimizer.step()
    assert calls.made == [logged(1, 16, 16), logged(3, 32, 48)]


def test_script_run_as_plain_ddp_logs_the_bytes_of_its_gradients(calls: Calls, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(VARIABLE, "ddp")
    network = nn.Linear(3, 1)
    optimizer = torch.optim.SGD(network.parameters(), lr=1.0)
    steps = OuterSteps(network, every=2)
    for _ in range(2):
        network(torch.ones(1, 3)).sum().backward()
        optimizer.step()
        steps.step()
    assert calls.made == [logged(1, 16, 16), logged(2, 32, 32)]
    monkeypatch.setenv(VARIABLE, "dpp")
    with pytest.raises(RefusedError, match="DRUMBEAT_UPDATES is 'dpp'"):
        OuterSteps(network, every=2)

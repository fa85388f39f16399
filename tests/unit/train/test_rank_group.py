"""The ranks that agree on something: when they count as one, and how long they wait for each other."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="needs torch: run tools/setup.sh")

import torch.distributed as dist
from torch import nn

from drumbeat.model.errors import RefusedError
from drumbeat.train import Checkpoints
from drumbeat.train.rank_group import check_ranks_have_met

pytestmark = pytest.mark.feature("T5")
FOUR_RANKS = {
    "torch": {"RANK": "1", "WORLD_SIZE": "4", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29999"},
    "Open MPI": {f"OMPI_COMM_WORLD_{name}": value for name, value in
                 [("RANK", "1"), ("SIZE", "4"), ("LOCAL_RANK", "1"), ("LOCAL_SIZE", "4")]},
}  # fmt: skip


@pytest.fixture(params=FOUR_RANKS)
def launcher(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    for name, value in FOUR_RANKS[request.param].items():
        monkeypatch.setenv(name, value)
    return request.param


@pytest.fixture
def group() -> Iterator[None]:
    """A process group of one."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def test_checkpoints_of_several_ranks_that_have_not_met_are_refused(launcher: str, tmp_path: Path):
    expected = rf"4 ranks were started \(by {launcher}\), but they haven't met.*Call train.init\(\) first"
    with pytest.raises(RefusedError, match=expected):
        Checkpoints(nn.Linear(1, 1), folder=tmp_path)


def test_ranks_that_share_a_group_have_met(launcher: str, group: None):
    check_ranks_have_met("a test")


def test_process_that_trains_alone_says_so_under_any_launcher(launcher: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "1")
    check_ranks_have_met("a test")

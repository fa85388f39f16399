"""Which part of the data a rank reads, by the mesh of its job or by what it says itself."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

pytest.importorskip("torch", reason="needs torch: run tools/setup.sh")

import torch
import torch.distributed as dist
from torch.testing._internal.distributed.fake_pg import FakeStore

from drumbeat.model.errors import RefusedError
from drumbeat.train import ResumableLoader, scaled
from drumbeat.train.data_shards import shard_in_mesh

pytestmark = pytest.mark.feature("T8")


@contextmanager
def group_of(rank: int, world_size: int) -> Iterator[None]:
    """A process group in which this process is one of several ranks; none of the others is needed."""
    dist.init_process_group("fake", store=FakeStore(), rank=rank, world_size=world_size)
    try:
        yield
    finally:
        dist.destroy_process_group()


def samples_of(rank: int, world_size: int, **options: Any) -> list[int]:
    with group_of(rank, world_size):
        loader = ResumableLoader(torch.arange(16), batch=4, seed=1, **options)
    return next(iter(loader)).tolist()


def test_ranks_that_divide_the_model_read_the_same_samples(monkeypatch: pytest.MonkeyPatch):
    alone = samples_of(0, 1)
    assert samples_of(0, 2) + samples_of(1, 2) == [*alone[::2], *alone[1::2]]
    monkeypatch.setenv("DRUMBEAT_MESH", json.dumps({"tp": 2}))
    assert samples_of(0, 2) == samples_of(1, 2) == alone


@pytest.mark.parametrize(
    ("sizes", "shards"),
    [
        ({}, [(0, 4), (1, 4), (2, 4), (3, 4)]),
        ({"dp": 4}, [(0, 4), (1, 4), (2, 4), (3, 4)]),
        ({"pp": 2, "dp": 2}, [(0, 2), (1, 2), (0, 2), (1, 2)]),
        ({"fsdp": 2, "tp": 2}, [(0, 2), (0, 2), (1, 2), (1, 2)]),
        ({"dp_replicate": 2, "dp_shard": 2}, [(0, 4), (1, 4), (2, 4), (3, 4)]),
        ({"dp": 4, "ep": 1}, [(0, 4), (1, 4), (2, 4), (3, 4)]),
        ({"pp": 2, "cp": 2}, [(0, 1)] * 4),
    ],
)  # fmt: skip
def test_shard_is_the_place_along_the_data_dimensions(sizes: dict[str, int], shards: list[tuple[int, int]]):
    variables = {"DRUMBEAT_MESH": json.dumps(sizes)} if sizes else {}
    assert [shard_in_mesh(rank, 4, variables, "train.scaled") for rank in range(4)] == shards


@pytest.mark.parametrize(
    ("sizes", "says"),
    [
        ({"dp": 2, "ep": 2}, "it is unclear whether the ranks along 'ep' of the job's mesh read the same samples"),
        ({"dp": 2, "blocks": 2}, "the ranks along 'blocks'"),
        (
            {"dp": 2},
            r"the job's mesh is 2 data shards \(dp\), but 4 ranks are running. Give the data shards explicitly",
        ),
    ],
)
def test_mesh_with_an_unclear_dimension_is_refused(sizes: dict[str, int], says: str):
    with pytest.raises(RefusedError, match=says):
        shard_in_mesh(0, 4, {"DRUMBEAT_MESH": json.dumps(sizes)}, "train.scaled")


def test_named_shard_counts_whatever_the_mesh_is(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("DRUMBEAT_MESH", json.dumps({"ep": 2}))
    assert samples_of(0, 2, shard=(1, 2)) == samples_of(1, 2, shard=(1, 2)) != samples_of(1, 2, shard=(0, 2))
    with pytest.raises(RefusedError, match=r"shard=\(2, 2\) isn't a valid part of the data"):
        samples_of(0, 2, shard=(2, 2))


def test_loader_that_is_made_before_the_ranks_have_met_is_refused(monkeypatch: pytest.MonkeyPatch):
    for name, value in {"RANK": "1", "WORLD_SIZE": "4", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29999"}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(RefusedError, match=r"4 ranks were started .*, but they haven't met. Call train.init\(\) first"):
        ResumableLoader(torch.arange(16), batch=4)
    assert len(next(iter(ResumableLoader(torch.arange(16), batch=4, shard=(1, 4))))) == 1


@pytest.mark.feature("T7")
def test_batch_is_scaled_to_the_data_shards(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.setenv("DRUMBEAT_MESH", json.dumps({"dp": 2, "tp": 2}))
    with group_of(0, 4):
        scaling = scaled(0.1, batch_per_rank=8)
        assert (scaling.world_size, scaling.global_batch, scaling.lr) == (4, 16, 0.2)
        assert scaling.parameters()["data_shards"] == 2
        assert capsys.readouterr().out.startswith("global batch 16 = 2 data shards × 8; learning rate 0.2 = 0.1 × 2")
        assert scaled(0.1, batch_per_rank=8, shards=1).global_batch == 8
        assert scaled(0.1, global_batch=16).batch_per_rank == 8
        with pytest.raises(RefusedError, match="5 data shards can't be read by 4 ranks"):
            scaled(0.1, batch_per_rank=8, shards=5)
        with pytest.raises(RefusedError, match="doesn't split evenly over 2 data shards"):
            scaled(0.1, global_batch=9)


def test_ranks_of_a_group_count_before_those_of_the_launcher(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("RANK", raising=False)
    with group_of(3, 4):
        assert scaled(0.1, batch_per_rank=8).global_batch == 32

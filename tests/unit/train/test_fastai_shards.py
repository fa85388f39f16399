"""Which samples a rank takes."""

from __future__ import annotations

import pytest

from drumbeat.train.data_shards import shard

pytestmark = pytest.mark.feature("T2", "L10")


@pytest.mark.parametrize("world_size", [1, 2, 3, 4, 7, 12])
@pytest.mark.parametrize("count", [0, 1, 5, 12])
def test_uneven_shards_hold_each_sample_once(count: int, world_size: int):
    shards = [shard(range(count), rank, world_size, is_even=False) for rank in range(world_size)]
    assert sorted(sample for one in shards for sample in one) == list(range(count))


@pytest.mark.parametrize(("count", "world_size", "each"), [(5, 2, 3), (1, 4, 1), (12, 4, 3), (0, 3, 0), (3, 7, 1)])
def test_even_shards_repeat_the_first_samples(count: int, world_size: int, each: int):
    shards = [shard(range(count), rank, world_size, is_even=True) for rank in range(world_size)]
    assert {len(one) for one in shards} == {each}
    assert {sample for one in shards for sample in one} == set(range(count))


def test_batch_of_all_ranks_is_the_batch_of_one_process():
    shards = [shard("abcdefgh", rank, 2, is_even=True) for rank in range(2)]
    batch = 2
    assert sorted(shards[0][:batch] + shards[1][:batch]) == list("abcd")

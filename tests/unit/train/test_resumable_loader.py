"""The loader goes on where it was: each sample once an epoch, in an order that the number of ranks can't change."""

from __future__ import annotations

import random
from itertools import chain
from typing import Any

import pytest

pytest.importorskip("torch", reason="needs torch: run tools/setup.sh")

import torch

from drumbeat.model.errors import RefusedError
from drumbeat.train.resumable_loader import EpochBatches, ResumableLoader

pytestmark = pytest.mark.feature("T5", "T8")


class Squares:
    """Its samples have a random part, as augmentation does."""

    def __len__(self) -> int:
        return 50

    def __getitem__(self, index: int) -> Any:
        return torch.tensor([float(index), random.random(), float(torch.rand(()))])


def rows(loader: ResumableLoader, batches: int | None = None) -> list[list[float]]:
    """The samples of so many batches, None = of the rest of the epoch."""
    found: list[list[float]] = []
    for number, batch in enumerate(loader, start=1):
        found += batch.tolist()
        if number == batches:
            break
    return found


@pytest.mark.parametrize("world_size", [1, 2, 4])
def test_ranks_together_read_the_same_batches_whatever_their_number(world_size: int):
    shares = [list(EpochBatches(50, 8, rank, world_size, seed=3)) for rank in range(world_size)]
    together = [sorted(chain.from_iterable(batch)) for batch in zip(*shares, strict=True)]
    alone = [sorted(batch) for batch in EpochBatches(50, 8, 0, 1, seed=3)]
    assert together == alone
    assert len({place for batch in alone for place in batch}) == 48


@pytest.mark.parametrize("workers", [0, 2])
def test_loader_resumes_after_the_last_yielded_batch(workers: int):
    whole = ResumableLoader(Squares(), batch=8, seed=3)
    expected = rows(whole) + rows(whole)
    first = ResumableLoader(Squares(), batch=8, seed=3, num_workers=workers)
    begun = rows(first, 4)
    second = ResumableLoader(Squares(), batch=8, seed=3, num_workers=2 - workers)
    second.load_state_dict(first.state_dict())
    assert begun + rows(second) + rows(second) == expected
    assert second.epoch == 2


def test_reading_leaves_the_generators_of_the_training_alone():
    loader = ResumableLoader(Squares(), batch=8)
    before = random.getstate(), torch.get_rng_state()
    rows(loader)
    assert random.getstate() == before[0]
    assert torch.equal(torch.get_rng_state(), before[1])


def test_each_epoch_has_an_order_and_random_parts_of_its_own():
    loader = ResumableLoader(Squares(), batch=8)
    first, second = rows(loader), rows(loader)
    assert [row[0] for row in first] != [row[0] for row in second]
    assert not {row[1] for row in first} & {row[1] for row in second}


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"batch": 0}, "a batch of 0 samples"),
        ({"batch": 51}, "more than the 50 of the dataset"),
        ({"batch": 5, "shuffle": True}, "shuffle can't be given"),
    ],
)
def test_invalid_loader_arguments_are_refused(options: dict[str, Any], says: str):
    with pytest.raises(RefusedError, match=says):
        ResumableLoader(Squares(), **options)


def test_another_batch_reads_the_rest_of_the_epoch_once():
    first = ResumableLoader(Squares(), batch=8, seed=3)
    begun = rows(first, 2)
    second = ResumableLoader(Squares(), batch=12, seed=3)
    second.load_state_dict(first.state_dict())
    batches = [batch.tolist() for batch in second]
    assert [len(batch) for batch in batches] == [12, 12], "34 samples are left, and two batches"
    assert begun + [row for batch in batches for row in batch] == rows(ResumableLoader(Squares(), batch=8, seed=3), 5)
    assert second.epoch == 1
    assert len(rows(second)) == 48


def test_batch_that_is_more_than_the_rest_of_the_epoch_begins_the_next():
    first = ResumableLoader(Squares(), batch=8, seed=3)
    rows(first, 6)
    second = ResumableLoader(Squares(), batch=12, seed=3)
    second.load_state_dict(first.state_dict())
    assert rows(second) == []
    assert second.epoch == 1


def test_place_that_an_earlier_version_saved_as_batches_is_read():
    whole = rows(ResumableLoader(Squares(), batch=8, seed=3))
    for batch, count in ((8, 32), (16, 32), (12, 24)):
        loader = ResumableLoader(Squares(), batch=batch, seed=3)
        loader.load_state_dict({"epoch": 0, "done": 2, "batch": 8, "samples": 50, "seed": 3})
        assert rows(loader) == whole[16 : 16 + count]


@pytest.mark.parametrize(("samples", "seed"), [(50, 1), (49, 0)])
def test_a_place_of_another_order_is_refused(samples: int, seed: int):
    place = ResumableLoader(Squares(), batch=8).state_dict()
    with pytest.raises(RefusedError, match="the place in the data was saved with"):
        ResumableLoader(torch.arange(samples), batch=8, seed=seed).load_state_dict(place)

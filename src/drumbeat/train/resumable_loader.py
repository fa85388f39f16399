"""`ResumableLoader`: batches of a dataset, whose position can be saved and resumed by another number of ranks.

The order of an epoch depends only on seed and epoch. Batch k of all ranks together is the k-th piece of that order, and
each rank takes its share of it, so the number of ranks changes who reads a sample, but not when it is read. Another
batch size divides the rest of the order differently.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import sys
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

from drumbeat.model.errors import RefusedError
from drumbeat.train.data_shards import own_shard, ranks_of_training

# The samples that a rank reads, batch by batch, in a file: `drumbeat rehearse` compares it with another run's.

SAMPLE_RECORD = "DRUMBEAT_SAMPLE_RECORD"
"""The folder of the files; without it nothing is recorded."""


class SampleRecord:
    """The file of one rank: a line for each batch that the script has been given."""

    def __init__(self, path: Path | None, attempt: int, number: int) -> None:
        """path: None = nothing is recorded. number: the round's."""
        self._path, self._start = path, {"attempt": attempt, "round": number}
        self._drawn = deque[list[int]]()

    @classmethod
    def for_rank(cls, variables: Mapping[str, str], rank: int) -> SampleRecord:
        """Returns the record that the variables of a rank request."""
        folder = variables.get(SAMPLE_RECORD, "")
        attempt, number = (int(variables.get(f"DRUMBEAT_{name}", "0")) for name in ("ATTEMPT", "ROUND"))
        return cls(Path(folder) / f"{rank}.jsonl" if folder else None, attempt, number)

    @property
    def is_kept(self) -> bool:
        """Whether anything is recorded."""
        return self._path is not None

    def begin(self) -> None:
        """Drops batches that workers have read for an abandoned iteration."""
        self._drawn.clear()

    def draw(self, samples: list[int]) -> None:
        """Remembers a batch that will be read; workers may be some batches ahead of the script."""
        self._drawn.append(samples)

    def write(self, epoch: int, first: int) -> None:
        """Records that the script gets the next batch. Errors never end a training.

        first: how many samples of the epoch come before the batch.
        """
        if self._path is None or not self._drawn:
            return
        line = json.dumps({**self._start, "epoch": epoch, "first": first, "samples": self._drawn.popleft()})
        with contextlib.suppress(OSError), self._path.open("a", encoding="utf-8") as file:
            file.write(f"{line}\n")


WHERE = "train.ResumableLoader"
_EPOCH_FACTOR = 1_000_003


class Samples(Protocol):
    """A dataset with a length, as torch's map-style ones are."""

    def __len__(self) -> int:
        """Returns the number of samples."""
        ...

    def __getitem__(self, index: int, /) -> Any:
        """Reads a sample."""
        ...


class ResumableLoader:
    """The batches of one rank from a dataset with a length, epoch after epoch.

    An iteration yields the rest of the current epoch, and the next one yields the following epoch. Samples that don't
    fill the last batch of an epoch are dropped.
    """

    is_for_any_world_size = True
    """Whether another number of ranks can resume from a `state_dict`."""

    def __init__(
        self,
        dataset: Samples,
        *,
        batch: int,
        seed: int = 0,
        seed_samples: bool = True,
        shard: tuple[int, int] | None = None,
        **options: Any,
    ) -> None:
        """Divides the batch among the data shards.

        batch: the samples of all ranks together. seed_samples: whether Python's, NumPy's and torch's generators are
        seeded for each sample (by seed, epoch and index) while it is read, so that augmentation doesn't depend on who
        reads it. shard: the index of this rank's part of the data, and the number of parts; None = each rank of torch's
        process group has its own part, except for dimensions of the job's mesh that divide a model. options: torch's
        DataLoader's, except those that control the order of samples. Raises RefusedError if the batch can't be divided,
        or is larger than the dataset, or the ranks haven't met.
        """
        from torch.utils.data import DataLoader

        index, count = shard if shard is not None else own_shard(WHERE)
        if not 0 <= index < count:
            what = f"shard=({index}, {count}) isn't a valid part of the data"
            raise RefusedError(what, where=WHERE, fix="Give an index from 0, and the number of parts.")
        if batch < 1 or batch % count:
            what = f"a batch of {batch} samples can't be divided evenly among {count} data shards"
            raise RefusedError(what, where=WHERE, fix=f"Use a multiple of {count}.")
        if batch > len(dataset):
            what = f"a batch of {batch} samples is more than the {len(dataset)} of the dataset"
            raise RefusedError(what, where=WHERE, fix="Use a smaller batch.")
        if owned := {"batch_size", "shuffle", "sampler", "batch_sampler", "drop_last", "generator"} & options.keys():
            what = f"{', '.join(sorted(owned))} can't be given: the loader itself controls the order of samples"
            raise RefusedError(what, where=WHERE, fix="Give `batch` and `seed` instead.")
        import torch

        self._batches = EpochBatches(len(dataset), batch, index, count, seed)
        samples = _SeededSamples(dataset, seed) if seed_samples else _PlacedSamples(dataset)
        self._record = SampleRecord.for_rank(os.environ, ranks_of_training()[0])
        self._batches.on_draw = self._record.draw if self._record.is_kept else None
        # A separate generator: torch's would advance with each new iterator, even one after a resume.
        generator = torch.Generator().manual_seed(seed)
        loader: Any = DataLoader
        self._loader = loader(samples, batch_sampler=self._batches, generator=generator, **options)

    @property
    def epoch(self) -> int:
        """The current epoch, counted from 0."""
        return self._batches.epoch

    def __len__(self) -> int:
        """Returns the number of batches of a whole epoch."""
        return self._batches.per_epoch

    def __iter__(self) -> Iterator[Any]:
        """Yields the rest of the current epoch."""
        self._record.begin()
        for batch in self._loader:
            self._record.write(self._batches.epoch, self._batches.done)
            self._batches.done += self._batches.batch
            yield batch
        self._batches.epoch, self._batches.done = self.epoch + 1, 0

    def state_dict(self) -> dict[str, int]:
        """Returns the position after the last yielded batch, whatever workers have read ahead."""
        batches = self._batches
        return {
            "epoch": batches.epoch, "samples_done": batches.done, "samples": batches.samples, "seed": batches.seed
        }  # fmt: skip

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Sets the position. Raises RefusedError if it was saved for another seed or number of samples."""
        batches = self._batches
        for name in ("samples", "seed"):
            if state[name] != getattr(batches, name):
                now = getattr(batches, name)
                what = f"the place in the data was saved with {name} {state[name]}, and now it is {now}"
                fix = "Train with the same, or start a new job, whose checkpoint folder is empty."
                raise RefusedError(what, where=WHERE, fix=fix)
        # Earlier versions saved a number of batches.
        done = state["samples_done"] if "samples_done" in state else state["done"] * state["batch"]
        batches.epoch, batches.done = state["epoch"], done


class EpochBatches:
    """A batch sampler: for each remaining batch of the epoch, `(epoch, index)` of the samples of a rank's share."""

    def __init__(self, samples: int, batch: int, shard: int, shards: int, seed: int) -> None:
        self.samples, self.batch, self.shard, self.shards, self.seed = samples, batch, shard, shards, seed
        self.epoch, self.done = 0, 0
        """The current epoch, and how many of its samples all ranks have read."""
        self.on_draw: Callable[[list[int]], None] | None = None
        """Is called with the samples of each batch that workers are asked for; None = no record."""

    @property
    def per_epoch(self) -> int:
        return self.samples // self.batch

    def __len__(self) -> int:
        return (self.samples - self.done) // self.batch

    def __iter__(self) -> Iterator[list[tuple[int, int]]]:
        import torch

        epoch = self.epoch
        generator = torch.Generator().manual_seed(self.seed * _EPOCH_FACTOR + epoch)
        order = torch.randperm(self.samples, generator=generator)
        for first in range(self.done, self.samples - self.batch + 1, self.batch):
            piece: Any = order[first : first + self.batch][self.shard :: self.shards]
            share: list[int] = piece.tolist()
            if self.on_draw:
                self.on_draw(share)
            yield [(epoch, index) for index in share]


class _PlacedSamples:
    """A dataset that is indexed by `(epoch, index)`."""

    def __init__(self, dataset: Samples) -> None:
        self.dataset = dataset

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, place: tuple[int, int]) -> Any:
        return self.dataset[place[1]]


class _SeededSamples(_PlacedSamples):
    """The same, with generators that are seeded by the sample; outside of it they are unchanged."""

    def __init__(self, dataset: Samples, seed: int) -> None:
        super().__init__(dataset)
        self.seed = seed

    def __getitem__(self, place: tuple[int, int]) -> Any:
        import torch

        epoch, index = place
        seed = random.Random(f"{self.seed}/{epoch}/{index}").getrandbits(32)  # noqa: S311 (no secret)
        numpy_random = sys.modules["numpy"].random if "numpy" in sys.modules else None
        kept = random.getstate(), numpy_random.get_state() if numpy_random else None
        torch_random: Any = torch.random
        with torch_random.fork_rng(devices=[]):
            random.seed(seed)
            torch_random.default_generator.manual_seed(seed)
            if numpy_random:
                numpy_random.seed(seed)
            try:
                return self.dataset[index]
            finally:
                random.setstate(kept[0])
                if numpy_random:
                    numpy_random.set_state(kept[1])

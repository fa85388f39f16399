"""Batches for PyTorch: sharded by rank and worker, and resumable in the middle of an epoch.

`torchdata`'s StatefulDataLoader goes on after the last batch that was used, whatever its workers had read ahead.
Pixels stay bytes until they are on the device: a quarter of the memory and of the copies.
"""

import warnings
from collections.abc import Iterator

import numpy as np
import torch
from folders import ImageFolder
from images import read_image
from torch import Tensor
from torch.utils.data import Dataset, Sampler

try:
    from torchdata.stateful_dataloader import StatefulDataLoader
except ImportError:  # The environment `horovod` has no torchdata: epochs begin at their beginning.
    StatefulDataLoader = torch.utils.data.DataLoader

# torchdata 0.11 calls a function that this torch is about to drop.
warnings.filterwarnings("ignore", "'set_vital' is deprecated", UserWarning)

MEAN, STD = (123.675, 116.28, 103.53), (58.395, 57.12, 57.375)
"""Of ImageNet's pixels, 0 to 255."""


class Jpegs(Dataset):
    """The images of a folder with their labels. Augmentation depends on seed, epoch and image, not on who reads it."""

    def __init__(self, folder: ImageFolder, size: int, seed: int | None) -> None:
        self.folder, self.size, self.seed = folder, size, seed
        """seed: None = the middle of each image, to test with."""
        # Shared with the workers, which live longer than an epoch.
        self.epoch = torch.zeros((), dtype=torch.int64).share_memory_()

    def __len__(self) -> int:
        return len(self.folder.paths)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        is_random = self.seed is not None
        rng = np.random.default_rng((self.seed, int(self.epoch), index)) if is_random else None
        pixels_HWC = read_image(self.folder.paths[index], self.size, rng)
        # Copied, since a mirrored image is a view with a negative step, which torch has not.
        return torch.from_numpy(pixels_HWC.transpose(2, 0, 1).copy()), self.folder.labels[index]


class Synthetic(Dataset):
    """Random pixels, the same image again and again: what a step costs without reading."""

    def __init__(self, images: int, size: int, classes: int) -> None:
        self.images, self.classes = images, classes
        generator = torch.Generator().manual_seed(0)
        self.pixels_CHW = torch.randint(0, 256, (3, size, size), dtype=torch.uint8, generator=generator)
        self.epoch = torch.zeros((), dtype=torch.int64)

    def __len__(self) -> int:
        return self.images

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return self.pixels_CHW, index % self.classes


class Shard(Sampler):
    """One rank's part of each epoch's order, which all ranks draw alike.

    To train (`is_whole` false), all ranks have equally many full batches, and the rest of the order, which is less
    than one step, waits for another epoch. To test, each image is in exactly one shard.
    """

    def __init__(  # noqa: PLR0913 (keywords, each with a default)
        self, images: int, rank: int, size: int, *, batch: int = 1, seed: int = 0, is_whole: bool = False
    ) -> None:
        self.images, self.rank, self.size, self.batch, self.seed = images, rank, size, batch, seed
        self.is_whole, self.epoch = is_whole, 0

    def set_epoch(self, epoch: int) -> None:
        """Draws another order, from the next iteration on."""
        self.epoch = epoch

    def __len__(self) -> int:
        if self.is_whole:
            return len(range(self.rank, self.images, self.size))
        return self.images // (self.size * self.batch) * self.batch

    def __iter__(self) -> Iterator[int]:
        if self.is_whole:
            yield from range(self.rank, self.images, self.size)
            return
        generator = torch.Generator().manual_seed(self.seed * 1_000_003 + self.epoch)
        order = torch.randperm(self.images, generator=generator)
        yield from order[self.rank :: self.size][: len(self)].tolist()


def make_loader(dataset: Dataset, shard: Shard, batch: int, workers: int) -> StatefulDataLoader:
    """Returns the batches of one rank, read by so many processes."""
    return StatefulDataLoader(
        dataset,
        batch_size=batch,
        sampler=shard,
        num_workers=workers,
        persistent_workers=workers > 0,
        pin_memory=torch.cuda.is_available(),
    )


def normalized(pixels_BCHW: Tensor, device: torch.device, *, is_channels_last: bool = False) -> Tensor:
    """Returns pixels of mean 0 and deviation 1 on the device, from bytes."""
    layout = torch.channels_last if is_channels_last else torch.contiguous_format
    x_BCHW = pixels_BCHW.to(device, non_blocking=True).to(torch.float32, memory_format=layout)
    mean, std = (torch.tensor(values, device=device).view(3, 1, 1) for values in (MEAN, STD))
    return (x_BCHW - mean) / std

"""Reads and writes the binary version of CIFAR-10 (https://www.cs.toronto.edu/~kriz/cifar.html).

A file is one record after the other, without a header: a byte with the label, then 32 × 32 bytes each of red, green and
blue, row by row. `data_batch_1.bin` to `data_batch_5.bin` are to train on, `test_batch.bin` is to test on, and
`batches.meta.txt` has a line with the name of each class.
"""

from dataclasses import dataclass
from pathlib import Path

import torch

SIDE, COLOURS, CLASSES = 32, 3, 10
PIXELS = COLOURS * SIDE * SIDE
RECORD = 1 + PIXELS
TRAINING = tuple(f"data_batch_{number}.bin" for number in range(1, 6))
TESTING = ("test_batch.bin",)
NAMES = "batches.meta.txt"


class BadData(Exception):
    """A data folder or file that can't be used; the message says which, why, and what was expected."""


@dataclass(frozen=True)
class Split:
    """Images (count, 3, 32, 32) and labels (count), as unsigned bytes."""

    images: torch.Tensor
    labels: torch.Tensor


def load(folder: Path, names: tuple[str, ...]) -> Split:
    """The records of these files together."""
    if not folder.is_dir():
        raise BadData(f"{folder} isn't a folder; it should hold {TRAINING[0]} … and {TESTING[0]}")
    parts = [read_file(folder / name) for name in names]
    return Split(torch.cat([part.images for part in parts]), torch.cat([part.labels for part in parts]))


def read_file(path: Path) -> Split:
    """The records of one file, checked."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise BadData(f"{path.parent} holds no {path.name}: the binary version of CIFAR-10 is needed") from None
    except OSError as error:
        raise BadData(f"{path} can't be read: {error.strerror}") from None
    count, rest = divmod(len(content), RECORD)
    if not count or rest:
        fault = f"{len(content)} bytes aren't a whole number of records of {RECORD}" if rest else "it is empty"
        raise BadData(f"{path} isn't a file of CIFAR-10's binary version, or was cut short: {fault}")
    records = torch.frombuffer(bytearray(content), dtype=torch.uint8).reshape(count, RECORD)
    labels = records[:, 0].clone()
    if int(labels.max()) >= CLASSES:
        at = int((labels >= CLASSES).nonzero()[0])
        raise BadData(
            f"{path}, record {at}: label {int(labels[at])} is beyond CIFAR-10's {CLASSES} classes"
            " (CIFAR-100's records have two labels)"
        )
    return Split(records[:, 1:].reshape(count, COLOURS, SIDE, SIDE), labels)


def write_file(path: Path, split: Split) -> None:
    """Writes one file, whole or not at all."""
    records = torch.cat([split.labels.reshape(-1, 1), split.images.reshape(-1, PIXELS)], dim=1)
    unfinished = path.with_name(f".{path.name}")
    unfinished.write_bytes(records.to(torch.uint8).numpy().tobytes())
    unfinished.replace(path)

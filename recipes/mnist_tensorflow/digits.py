"""MNIST's files as NumPy arrays, and a small network for them, of either Keras."""

import gzip
import math
import struct
from dataclasses import dataclass
from pathlib import Path

import numpy as np


class BadData(Exception):
    """A folder or file that can't be used; the message says which, and why."""


@dataclass(frozen=True)
class Split:
    """Images (count, height, width, 1) from 0 to 1, and their labels."""

    images: np.ndarray
    labels: np.ndarray


@dataclass(frozen=True)
class Digits:
    """What to train on and what to test on."""

    training: Split
    testing: Split

    @property
    def classes(self) -> int:
        """Kinds of digits."""
        return int(max(self.training.labels.max(), self.testing.labels.max())) + 1


def load(folder: Path) -> Digits:
    """The four files of MNIST and Fashion-MNIST, packed (.gz) or not. Raises BadData."""
    found = Digits(_split(folder, "train"), _split(folder, "t10k"))
    if found.training.images.shape[1:] != found.testing.images.shape[1:]:
        raise BadData(f"{folder}: the images to train on and to test on differ in size")
    return found


def _split(folder: Path, name: str) -> Split:
    images = _read(folder, f"{name}-images-idx3-ubyte", dimensions=3)
    labels = _read(folder, f"{name}-labels-idx1-ubyte", dimensions=1)
    if len(images) != len(labels) or not len(images):
        raise BadData(f"{folder}: {name} has {len(images)} images and {len(labels)} labels")
    return Split(images[..., None].astype(np.float32) / 255, labels.astype(np.int32))


def _read(folder: Path, name: str, dimensions: int) -> np.ndarray:
    """The items of an IDX file: magic, the size of each dimension as a big-endian number, unsigned bytes."""
    path = next((path for path in (folder / name, folder / f"{name}.gz") if path.is_file()), None)
    if path is None:
        raise BadData(f"{folder} holds neither {name} nor {name}.gz (MNIST's own file names)")
    try:
        content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        magic, *shape = struct.unpack_from(f">{1 + dimensions}I", content)
    except (OSError, EOFError, struct.error) as error:
        raise BadData(f"{path} can't be read: {error}") from None
    items = content[4 + 4 * dimensions :]
    if magic != 0x0800 + dimensions or len(items) != math.prod(shape):
        raise BadData(f"{path} isn't an IDX file of {dimensions} dimensions, or isn't whole")
    return np.frombuffer(items, np.uint8).reshape(shape)


def network(keras, digits: Digits, seed: int):
    """A small convolutional network: images in, a logit per class out; the same weights for the same seed."""
    layers, seeds = keras.layers, iter(range(seed, seed + 5))

    def weights():
        return keras.initializers.HeNormal(seed=next(seeds))

    return keras.Sequential(
        [
            keras.Input(digits.training.images.shape[1:]),
            layers.Conv2D(32, 3, padding="same", activation="relu", kernel_initializer=weights()),
            layers.Conv2D(64, 3, strides=2, padding="same", activation="relu", kernel_initializer=weights()),
            layers.Flatten(),
            layers.Dense(128, activation="relu", kernel_initializer=weights()),
            layers.Dense(digits.classes, kernel_initializer=weights()),
        ]
    )

"""The four files of MNIST and Fashion-MNIST (IDX: a magic, the sizes, then unsigned bytes), as they are read."""

import gzip
import math
import struct
import zlib
from pathlib import Path

import numpy as np

UNSIGNED_BYTE = 8


class BadData(Exception):
    """A data folder or file that can't be used; the message says which and why."""


def load_split(folder: Path, split: str) -> tuple[np.ndarray, np.ndarray]:
    """Images (count, height, width) and labels (count) of `train` or `t10k`, as unsigned bytes."""
    images_BHW = read(folder, f"{split}-images-idx3-ubyte", dimensions=3)
    labels_B = read(folder, f"{split}-labels-idx1-ubyte", dimensions=1)
    if len(images_BHW) != len(labels_B) or images_BHW.size == 0:
        raise BadData(f"{folder}: {split} has {len(images_BHW)} images and {len(labels_B)} labels")
    return images_BHW, labels_B


def read(folder: Path, name: str, dimensions: int) -> np.ndarray:
    """The items of one file, plain or .gz, checked against its header."""
    path = next((one for one in (folder / name, folder / f"{name}.gz") if one.is_file()), None)
    if path is None:
        raise BadData(f"{folder} holds neither {name} nor {name}.gz")
    try:
        content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except (OSError, EOFError, zlib.error) as error:
        raise BadData(f"{path} can't be read: {error}") from None
    head = 4 + 4 * dimensions
    if content[:4] != bytes([0, 0, UNSIGNED_BYTE, dimensions]) or len(content) < head:
        raise BadData(f"{path} isn't an IDX file of {dimensions} dimensions: it begins with {content[:4].hex()}")
    shape = struct.unpack(f">{dimensions}I", content[4:head])
    if math.prod(shape) != len(content) - head:
        raise BadData(f"{path} is broken: {math.prod(shape)} bytes are promised, and it holds {len(content) - head}")
    return np.frombuffer(content, np.uint8, offset=head).reshape(shape)

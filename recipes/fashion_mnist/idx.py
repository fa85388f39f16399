"""Reads and writes IDX, the file format of MNIST and Fashion-MNIST.

A file is four bytes of magic (two zeros, the type of the items, the number of dimensions), the size of each dimension
as a big-endian 32-bit number, then the items. Only unsigned bytes (type 8) are handled here: images and labels.
"""

import gzip
import math
import os
import struct
import zlib
from pathlib import Path

import torch

UNSIGNED_BYTE = 8
IMAGE_DIMENSIONS, LABEL_DIMENSIONS = 3, 1


class BadData(Exception):
    """A data folder or file that can't be used; the message says which, why, and what was expected."""


def load_split(folder: Path, split: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Images (count, height, width) and labels (count) of `train` or `t10k`, as unsigned bytes."""
    images_path = find_file(folder, f"{split}-images-idx3-ubyte")
    labels_path = find_file(folder, f"{split}-labels-idx1-ubyte")
    images, labels = read_idx(images_path, IMAGE_DIMENSIONS), read_idx(labels_path, LABEL_DIMENSIONS)
    if len(images) != len(labels):
        raise BadData(f"{images_path} holds {len(images)} images, but {labels_path} holds {len(labels)} labels")
    if images.numel() == 0:
        raise BadData(f"{images_path} holds no images")
    return images, labels


def find_file(folder: Path, name: str) -> Path:
    """The file of that name in the folder, as it is or with .gz."""
    for path in (folder / name, folder / f"{name}.gz"):
        if path.is_file():
            return path
    if not folder.is_dir():
        raise BadData(f"{folder} isn't a folder; it should hold {name} or {name}.gz (Fashion-MNIST's own file names)")
    raise BadData(f"{folder} holds neither {name} nor {name}.gz (Fashion-MNIST's own file names)")


def read_idx(path: Path, dimensions: int) -> torch.Tensor:
    """The items of one file, checked against its header."""
    content = read_bytes(path)
    header_size = 4 + 4 * dimensions
    magic = content[:4]
    expected = bytes([0, 0, UNSIGNED_BYTE, dimensions])
    if magic != expected:
        raise BadData(f"{path} isn't such an IDX file: it begins with {magic.hex() or 'nothing'}, not {expected.hex()}")
    if len(content) < header_size:
        raise BadData(f"{path} is truncated: {len(content)} bytes don't hold its header of {header_size}")
    shape = struct.unpack(f">{dimensions}I", content[4:header_size])
    items, found = math.prod(shape), len(content) - header_size
    if found != items:
        sizes = " × ".join(str(size) for size in shape)
        fault = "is truncated" if found < items else "has bytes after its end"
        raise BadData(f"{path} {fault}: its header promises {sizes} = {items} bytes, it holds {found}")
    if items == 0:
        return torch.empty(shape, dtype=torch.uint8)
    return torch.frombuffer(bytearray(content), dtype=torch.uint8, offset=header_size).reshape(shape)


def read_bytes(path: Path) -> bytes:
    """The content of a file, unpacked if it is gzip."""
    try:
        return gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except EOFError:
        raise BadData(f"{path} is truncated: its gzip stream has no end") from None
    except (gzip.BadGzipFile, zlib.error) as error:
        raise BadData(f"{path} isn't a sound gzip file: {error}") from None
    except OSError as error:
        raise BadData(f"{path} can't be read: {error.strerror}") from None


def write_idx_gz(path: Path, items: bytes, shape: tuple[int, ...]) -> None:
    """Writes one .gz file, whole or not at all; equal items give equal bytes."""
    header = bytes([0, 0, UNSIGNED_BYTE, len(shape)]) + struct.pack(f">{len(shape)}I", *shape)
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    unfinished.write_bytes(gzip.compress(header + items, mtime=0))
    unfinished.replace(path)

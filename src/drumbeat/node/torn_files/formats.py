"""Judges whether a file is complete, by its format. Standard library only: no torch.

An interrupted save leaves the start of a file. Zip archives (`torch.save`, Lightning, NumPy's npz, Keras) have their
directory at the end, and safetensors files have their length at the start. Other formats are never judged: no file is
replaced because of a guess.
"""

from __future__ import annotations

import enum
import json
import os
import zipfile
from typing import BinaryIO

_ZIP = b"PK\x03\x04"
_SAFETENSORS, _SHARD = ".safetensors", ".distcp"
SHORTEST_BYTES = len(_ZIP)
"""The size below which a file's format is unknown."""
_END_BYTES = (1 << 16) + 22
"""The largest end record of a zip archive with one directory."""
_HEADER_BYTES = 100_000_000
"""The largest header of a safetensors file, by its specification."""
_BESIDE_PICKLE = ("data/", ".data/", "version", "byteorder", ".format_version", ".storage_alignment")
"""The entries that `torch.save` writes beside `data.pkl`; other archives of torch's writer, such as exported models,
have more.
"""


class Content(enum.Enum):
    """The verdict on a file's content by its format."""

    WHOLE = enum.auto()
    TORN = enum.auto()
    """The end of the file is missing."""
    UNKNOWN = enum.auto()
    """The format is unknown, or doesn't show it."""


def content(path: str) -> Content:
    """Judges a file. Raises OSError if it can't be read."""
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        head = file.read(len(_ZIP))
        # torch.distributed.checkpoint writes several archives into one file.
        if head == _ZIP and not path.endswith(_SHARD):
            return _judge_zip(file, size)
        if path.endswith(_SAFETENSORS):
            return _judge_safetensors(file, size)
    return Content.UNKNOWN


def _judge_zip(file: BinaryIO, size: int) -> Content:
    file.seek(max(0, size - _END_BYTES))
    file.read()  # An unreadable file isn't torn; zipfile would take it for one.
    try:
        entries = zipfile.ZipFile(file).infolist()
    except zipfile.BadZipFile:
        return Content.TORN
    except (ValueError, NotImplementedError):
        return Content.UNKNOWN
    if not entries or min(entry.header_offset for entry in entries):
        return Content.UNKNOWN  # An archive inside the file ends here.
    names = [entry.filename.partition("/")[2] for entry in entries]
    # An error during torch's pickling leaves an archive without the pickle.
    is_cut = ".data/serialization_id" in names and all(name.startswith(_BESIDE_PICKLE) for name in names)
    return Content.TORN if is_cut else Content.WHOLE


def _judge_safetensors(file: BinaryIO, size: int) -> Content:
    file.seek(0)
    length = int.from_bytes(file.read(8), "little")
    if length > _HEADER_BYTES:
        return Content.UNKNOWN
    if size < 8 + length:
        return Content.TORN
    try:
        header = json.loads(file.read(length))
        ends = [one["data_offsets"][1] for name, one in header.items() if name != "__metadata__"]
        return Content.TORN if size < 8 + length + max(ends, default=0) else Content.WHOLE
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return Content.UNKNOWN

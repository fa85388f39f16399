"""Whether all of a file is there, by what its format says of its end. Standard library only: no torch.

A save that is cut off leaves the beginning of a file. Zip archives (`torch.save`, Lightning, NumPy's npz, Keras) have
their directory at the end, safetensors files say their length at the beginning, and pickles and JSON end with their
last token.
"""

from __future__ import annotations

import enum
import io
import json
import os
import pickletools
import zipfile
from typing import BinaryIO

SMALL_BYTES = 16 << 20
"""Pickles and JSON have to be read as a whole, and larger ones aren't."""

_ZIP, _PICKLE = b"PK\x03\x04", b"\x80"
_SAFETENSORS, _SHARD, _JSON = ".safetensors", ".distcp", ".json"
_END_BYTES = 22
"""The smallest end of a zip archive."""
_HEADER_BYTES = 100_000_000
"""The largest header of a safetensors file, by its specification."""


class Content(enum.Enum):
    """What a file's format says of its content."""

    WHOLE = enum.auto()
    TORN = enum.auto()
    """The end is missing."""
    UNKNOWN = enum.auto()
    """The format isn't known, or doesn't tell."""


def content(path: str) -> Content:
    """Judges a file. Raises OSError if it can't be read."""
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        head = file.read(len(_ZIP))
        # torch.distributed.checkpoint puts several archives into one file.
        if head == _ZIP and not path.endswith(_SHARD):
            return _of_zip(file, size)
        if path.endswith(_SAFETENSORS):
            return _of_safetensors(file, size)
        if size <= SMALL_BYTES:
            file.seek(0)
            if head.startswith(_PICKLE):
                return _of_pickles(file.read())
            if path.endswith(_JSON):
                return _of_json(file.read())
    return Content.UNKNOWN


def _of_zip(file: BinaryIO, size: int) -> Content:
    file.seek(max(0, size - _END_BYTES))
    file.read()  # What can't be read isn't torn: zipfile would take it for that.
    try:
        entries = zipfile.ZipFile(file).infolist()
    except zipfile.BadZipFile:
        return Content.TORN
    except (ValueError, NotImplementedError):
        return Content.UNKNOWN
    if not entries or min(entry.header_offset for entry in entries):
        return Content.UNKNOWN  # An archive within the file ends here.
    names = [entry.filename.partition("/")[2] for entry in entries]
    # An error while torch pickles leaves an archive without the pickle.
    is_cut = ".data/serialization_id" in names and "data.pkl" not in names
    return Content.TORN if is_cut else Content.WHOLE


def _of_safetensors(file: BinaryIO, size: int) -> Content:
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
    except (ValueError, LookupError, TypeError, AttributeError):
        return Content.UNKNOWN


def _of_pickles(data: bytes) -> Content:
    """Joblib and old versions of torch write raw bytes behind a pickle, so that a missing end proves nothing."""
    file = io.BytesIO(data)
    try:
        while file.tell() < len(data):
            for _ in pickletools.genops(file):
                pass
    except Exception:  # noqa: BLE001 (the bytes may be anything)
        return Content.UNKNOWN
    return Content.WHOLE


def _of_json(data: bytes) -> Content:
    try:
        json.loads(data)
    except ValueError:
        return Content.UNKNOWN
    return Content.WHOLE

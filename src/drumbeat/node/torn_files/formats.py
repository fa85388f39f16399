"""Whether all of a file is there, by what its format says of its end. Standard library only: no torch.

A save that is cut off leaves the beginning of a file. Zip archives (`torch.save`, Lightning, NumPy's npz, Keras) have
their directory at the end, and safetensors files say their length at the beginning. Of other formats nothing is
concluded: a file is never replaced because of a guess.
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
"""Of a shorter file the format can't be told."""
_END_BYTES = (1 << 16) + 22
"""The largest end of a zip archive that has one directory."""
_HEADER_BYTES = 100_000_000
"""The largest header of a safetensors file, by its specification."""
_BESIDE_PICKLE = ("data/", ".data/", "version", "byteorder", ".format_version", ".storage_alignment")
"""What `torch.save` writes beside `data.pkl`; other archives of torch's writer, such as exported models, have more."""


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
    is_cut = ".data/serialization_id" in names and all(name.startswith(_BESIDE_PICKLE) for name in names)
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
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return Content.UNKNOWN

"""The format in which many small files are requested and sent in one answer. Pure.

A request has a line `<name> <bytes>` for each file. An answer has `1` or `0` (missing) for each of them, in their
order, and then the bytes of those that exist.
What is sent without a request has the same lines, an empty line, and the bytes of all.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

SMALL = 1 << 18
"""Bytes up to which a file is small."""
PIECE = 2 << 20
"""Bytes of all files that may be asked for at once."""
MOST = 64
"""Files that may be asked for at once."""
LONGEST = MOST * 80
"""Bytes of a request."""
_LINE = re.compile(rb"([0-9a-f]{64}) (\d{1,9})", re.ASCII)


def request(sizes: Mapping[str, int]) -> bytes:
    """Returns the body of a request. sizes: name to bytes."""
    return b"\n".join(f"{name} {size}".encode() for name, size in sizes.items())


def names(asked: bytes) -> dict[str, int]:
    """Returns the files of a request. Raises ValueError for none, too many, or too many bytes at once."""
    lines = [_LINE.fullmatch(line) for line in asked.split(b"\n")]
    sizes = {line[1].decode(): int(line[2]) for line in lines if line}
    if len(sizes) != len(lines) or len(sizes) > MOST:
        raise ValueError("this isn't a request for small files")
    if sum(sizes.values()) > PIECE or max(sizes.values()) > SMALL:
        raise ValueError("too much is asked for at once")
    return sizes


def answer(sizes: Mapping[str, int], files: Mapping[str, bytes]) -> bytes:
    """Packs those of the requested files that exist."""
    return bytes(b"01"[name in files] for name in sizes) + b"".join(files[name] for name in sizes if name in files)


def opened(sizes: Mapping[str, int], body: bytes) -> dict[str, bytes]:
    """Unpacks the files of an answer. Raises ValueError for one that doesn't match the request."""
    marks, at, files = body[: len(sizes)], len(sizes), dict[str, bytes]()
    for mark, (name, size) in zip(marks, sizes.items(), strict=False):
        if mark == ord("1"):
            files[name] = body[at : at + size]
            at += size
    if at != len(body) or not files:
        raise ValueError("this isn't an answer to what was asked")
    return files


def sent(files: Mapping[str, bytes]) -> bytes:
    """Packs files that are sent without being asked for."""
    return request({name: len(data) for name, data in files.items()}) + b"\n\n" + b"".join(files.values())


def received(body: bytes) -> dict[str, bytes]:
    """Unpacks what `sent` has packed. Raises ValueError."""
    head, _, rest = body.partition(b"\n\n")
    files, at = dict[str, bytes](), 0
    for name, size in names(head).items():
        files[name] = rest[at : at + size]
        at += size
    if at != len(rest):
        raise ValueError("the files aren't as long as is said of them")
    return files

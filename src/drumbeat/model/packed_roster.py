"""Rosters by content: written once for all nodes of a gang, named by their SHA-256, and fetched packed."""

from __future__ import annotations

import hashlib
import zlib
from dataclasses import dataclass

from drumbeat.model import wire
from drumbeat.model.roster import Roster


@dataclass(frozen=True)
class PackedRoster:
    """A whole roster as a node fetches it."""

    digest: str
    data: bytes


def packed(roster: Roster) -> PackedRoster:
    """Returns a roster as nodes fetch it."""
    written = wire.dumps(roster).encode()
    return PackedRoster(hashlib.sha256(written).hexdigest(), zlib.compress(written))


def unpacked(digest: str, data: bytes) -> Roster:
    """Returns the roster of that digest. Raises ValueError for data of another one."""
    try:
        written = zlib.decompress(data)
    except zlib.error as error:
        raise ValueError(f"the roster can't be unpacked: {error}") from None
    if hashlib.sha256(written).hexdigest() != digest:
        raise ValueError(f"the server gave another roster than {digest}")
    return wire.loads(Roster, written)

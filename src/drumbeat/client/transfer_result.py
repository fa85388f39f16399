"""What an upload or a download of data came to."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Transfer:
    """Files that were uploaded to, or downloaded from, an address. moved: those that weren't there already."""

    uri: str
    files: int
    size: int
    moved: int

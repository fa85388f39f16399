"""Where a node keeps what outlives jobs: environments and data, per machine and user."""

from __future__ import annotations

import os

ROOT = "DRUMBEAT_CACHE"
DATA = "DRUMBEAT_DATA_CACHE"
"""For the data alone: nodes that share a file system and yet are to be as if they didn't have one each."""


def folder(part: str) -> str:
    """The cache's folder for `part`: `environments` or `data`. It may not be there yet."""
    return os.path.join(_root(), part)


def data_folder() -> str:
    """Where data is kept."""
    return os.environ.get(DATA) or folder("data")


def _root() -> str:
    named = os.environ.get(ROOT)
    if named:
        return named
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(home, "drumbeat")

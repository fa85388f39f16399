"""The folders of a node for what outlives jobs: environments and data, per machine and user."""

from __future__ import annotations

import os

ROOT = "DRUMBEAT_CACHE"
DATA = "DRUMBEAT_DATA_CACHE"
"""The variable for the data only: it gives nodes on a shared file system separate folders."""


def folder(part: str) -> str:
    """The cache's folder for `part`: `environments` or `data`. It may not exist yet."""
    return os.path.join(_root(), part)


def data_folder() -> str:
    """The folder of the data."""
    return os.environ.get(DATA) or folder("data")


def _root() -> str:
    named = os.environ.get(ROOT)
    if named:
        return named
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(home, "drumbeat")

"""uv's configuration on this node, which drumbeat doesn't change."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator, Mapping


def sets_index_strategy(environ: Mapping[str, str]) -> bool:
    """Whether a variable or a file of this node sets uv's strategy for a package in several indexes.

    The files are those of https://docs.astral.sh/uv/concepts/configuration-files/.
    """
    return bool(environ.get("UV_INDEX_STRATEGY")) or any(_has_strategy(path) for path in _files(environ))


def _files(environ: Mapping[str, str]) -> Iterator[str]:
    if named := environ.get("UV_CONFIG_FILE"):
        yield named
        return
    home = environ.get("HOME") or os.path.expanduser("~")
    yield os.path.join(environ.get("XDG_CONFIG_HOME") or os.path.join(home, ".config"), "uv", "uv.toml")
    for folder in environ.get("XDG_CONFIG_DIRS", "/etc/xdg").split(os.pathsep):
        yield os.path.join(folder, "uv", "uv.toml")
    yield "/etc/uv/uv.toml"


def _has_strategy(path: str) -> bool:
    try:
        with open(path, "rb") as file:
            table = tomllib.load(file)
    except (OSError, ValueError):
        return False
    pip = table.get("pip")
    return "index-strategy" in table or (isinstance(pip, dict) and "index-strategy" in pip)

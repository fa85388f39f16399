"""The configuration of pip and uv on this node, which drumbeat reads and doesn't change."""

from __future__ import annotations

import configparser
import os
import tomllib
from collections.abc import Iterator, Mapping


def sets_index_strategy(environ: Mapping[str, str]) -> bool:
    """Whether a variable or a file of this node sets uv's strategy for a package in several indexes.

    The files are those of https://docs.astral.sh/uv/concepts/configuration-files/.
    """
    return bool(environ.get("UV_INDEX_STRATEGY")) or any(_has_strategy(path) for path in _uv_files(environ))


def _uv_files(environ: Mapping[str, str]) -> Iterator[str]:
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


NAMES = ("find-links", "index-url", "extra-index-url", "no-index")
_FALSE = ("", "0", "false", "no", "off")


def own_places(environ: Mapping[str, str]) -> list[str]:
    """The settings that name package sources, as pip would find them: `PIP_FIND_LINKS`, `pip.conf: …`.

    In the order of https://pip.pypa.io/en/stable/topics/configuration/; each counts, because any of them applies to pip
    only.
    """
    names = [
        f"PIP_{name.replace('-', '_').upper()}"
        for name in NAMES
        if environ.get(f"PIP_{name.replace('-', '_').upper()}", "").lower() not in _FALSE
    ]
    return names + [f"{name} in {path}" for path in _pip_files(environ) for name in _named(path)]


def _pip_files(environ: Mapping[str, str]) -> Iterator[str]:
    """The configuration files of the machine and of the user, and the one that a variable names."""
    named = environ.get("PIP_CONFIG_FILE", "")
    if named == os.devnull:
        return
    home = environ.get("HOME") or os.path.expanduser("~")
    for folder in environ.get("XDG_CONFIG_DIRS", "/etc/xdg").split(os.pathsep):
        yield os.path.join(folder, "pip", "pip.conf")
    yield "/etc/pip.conf"
    yield os.path.join(home, ".pip", "pip.conf")
    yield os.path.join(environ.get("XDG_CONFIG_HOME") or os.path.join(home, ".config"), "pip", "pip.conf")
    if named:
        yield named


def _named(path: str) -> list[str]:
    parser = configparser.RawConfigParser()
    try:
        parser.read(path, encoding="utf-8")
    except (OSError, configparser.Error, UnicodeDecodeError):
        return []
    sections = [name for name in ("global", "install") if parser.has_section(name)]
    return [
        name for name in NAMES if any(parser.get(each, name, fallback="").lower() not in _FALSE for each in sections)
    ]

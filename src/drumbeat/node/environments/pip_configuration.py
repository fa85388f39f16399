"""The package sources in pip's own configuration, which uv doesn't read."""

from __future__ import annotations

import configparser
import os
from collections.abc import Iterator, Mapping

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
    return names + [f"{name} in {path}" for path in _files(environ) for name in _named(path)]


def _files(environ: Mapping[str, str]) -> Iterator[str]:
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

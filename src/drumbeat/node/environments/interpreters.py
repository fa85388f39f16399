"""Which Python an environment is made of: the agent's own, or one on PATH or where version managers keep them."""

from __future__ import annotations

import glob
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass

from drumbeat.model.errors import RefusedError
from drumbeat.node.platform import child_processes

_ASK_S = 20.0
_ASKS = (
    "import importlib.util, json, platform, sys, sysconfig; "
    "print(json.dumps([platform.python_version(), getattr(sys, '_base_executable', '') or sys.executable, "
    "importlib.util.find_spec('ensurepip') is not None and importlib.util.find_spec('venv') is not None, "
    "sysconfig.get_path('stdlib'), sysconfig.get_config_var('WHEEL_PKG_DIR')]))"
)
_NAMED = re.compile(r"python3\.\d+")
_VERSION = re.compile(r"\d+(\.\d+)*")
_KEPT = (
    "~/.pyenv/versions/*/bin", "~/.local/share/uv/python/*/bin", "~/.local/share/mise/installs/python/*/bin",
    "~/.asdf/installs/python/*/bin", "/opt/python/*/bin", "/usr/local/bin", "/usr/bin",
)  # fmt: skip
"""Where pyenv, uv, mise, asdf and images of build machines keep theirs."""


@dataclass(frozen=True)
class Interpreter:
    """path: its own, not that of an environment made of it. has_pip: it can put a pip into one.

    wheels: those that its ensurepip puts into one, pip's first; () = not found.
    """

    version: str
    path: str
    has_pip: bool = True
    wheels: tuple[str, ...] = ()


def find(wanted: str, name: str) -> Interpreter:
    """The interpreter for `3.11`, the agent's own for "".

    name: of the environment. Raises RefusedError with the versions that are there.
    """
    own = _own()
    if _fits(own.version, wanted) and own.has_pip:
        return own
    best = own if _fits(own.version, wanted) else None
    for path in _candidates(wanted):
        found = ask(path)
        if found and _fits(found.version, wanted):
            best = best or found
            if found.has_pip:
                return found
    if best is None:
        there = ", ".join(versions()) or "none"
        raise RefusedError(
            f"environment {name} wants Python {wanted}, and this node has {there}",
            fix=f"Install Python {wanted} on every node (pyenv install {wanted}; apt-get install python{wanted}-venv), "
            "or ask for one that is there.",
        )
    return best


def ask(path: str) -> Interpreter | None:
    """What an interpreter says of itself; None = it doesn't run (a version manager's shim, say)."""
    try:
        done = child_processes.run([path, "-I", "-c", _ASKS], _ASK_S)
        done.check_returncode()
        version, base, has_pip, *folders = json.loads(done.stdout)
    except (OSError, subprocess.SubprocessError, ValueError):
        return None
    return Interpreter(version, base, has_pip, _wheels(version, *folders))


def versions() -> list[str]:
    """The versions of all that are there, oldest first, the agent's own among them."""
    paths = {path for folder in _folders() for path in glob.glob(f"{glob.escape(folder)}/python3.*") if _is_named(path)}
    found = {_own().version, *(one.version for path in sorted(paths) if (one := ask(path)))}
    return sorted(found, key=lambda one: [int(part) for part in re.findall(r"\d+", one)])


def _own() -> Interpreter:
    import importlib.util
    import platform
    import sysconfig

    has_pip = all(importlib.util.find_spec(name) is not None for name in ("ensurepip", "venv"))
    base = getattr(sys, "_base_executable", "") or sys.executable
    version = platform.python_version()
    wheels = _wheels(version, sysconfig.get_path("stdlib"), sysconfig.get_config_var("WHEEL_PKG_DIR"))
    return Interpreter(version, base, has_pip, wheels)


def _wheels(version: str, stdlib: str, elsewhere: str | None) -> tuple[str, ...]:
    """Python's own, or where a distribution keeps them instead."""
    kept = [elsewhere] if elsewhere else []
    return bundled(version, [f"{stdlib}/ensurepip/_bundled", *kept, "/usr/share/python-wheels"])


def bundled(version: str, folders: Iterable[str]) -> tuple[str, ...]:
    """What ensurepip of this Python puts into an environment, of the first folder that has a pip; () = none has.

    Up to 3.11 setuptools is part of it (What's New in Python 3.12).
    """
    is_old = [int(part) for part in version.split(".")[:2]] < [3, 12]
    for folder in folders:
        found = [_newest(folder, name) for name in (("pip", "setuptools") if is_old else ("pip",))]
        if found[0]:
            return tuple(one for one in found if one)
    return ()


def _newest(folder: str, name: str) -> str:
    there = glob.glob(f"{glob.escape(folder)}/{name}-*.whl")
    return max(there, key=lambda one: [int(part) for part in re.findall(r"\d+", os.path.basename(one))], default="")


def _fits(version: str, wanted: str) -> bool:
    """Whether 3.11.7 is a 3.11; each is one of ""."""
    found = _VERSION.match(wanted)
    parts = found[0].split(".") if found else []
    return version.split(".")[: len(parts)] == parts


def _candidates(wanted: str) -> Iterable[str]:
    """Paths that may be one, each once, the likeliest first."""
    names = [f"python{'.'.join(wanted.split('.')[:2])}", "python3", "python"] if wanted else ["python3", "python"]
    paths = [os.path.join(folder, name) for name in names for folder in _folders()]
    return {os.path.realpath(path): path for path in paths if os.access(path, os.X_OK)}.values()


def _folders() -> list[str]:
    """Where interpreters are looked for: PATH first. Shims are slow, and what they stand for is found without them."""
    on_path = [one for one in os.environ.get("PATH", os.defpath).split(os.pathsep) if one and "/shims" not in one]
    pyenv = os.environ.get("PYENV_ROOT")
    patterns = [f"{pyenv}/versions/*/bin", *_KEPT] if pyenv else _KEPT
    kept = [found for one in patterns for found in sorted(glob.glob(os.path.expanduser(one)), reverse=True)]
    return list(dict.fromkeys([*on_path, *kept]))


def _is_named(path: str) -> bool:
    return _NAMED.fullmatch(os.path.basename(path)) is not None and os.access(path, os.X_OK)

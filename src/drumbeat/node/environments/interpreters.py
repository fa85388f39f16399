"""The choice of an environment's Python: the agent's own, one on PATH, or one of a version manager."""

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
"""The folders of pyenv, uv, mise, asdf and images of build machines."""


@dataclass(frozen=True)
class Interpreter:
    """A Python on this node. path: its own, not that of an environment. has_pip: it can install pip into an
    environment. wheels: those that its ensurepip installs, pip's first; () = not found.
    """

    version: str
    path: str
    has_pip: bool = True
    wheels: tuple[str, ...] = ()


def find(wanted: str, name: str) -> Interpreter:
    """The interpreter for `3.11`, the agent's own for "".

    name: the environment's. Raises RefusedError with the available versions.
    """
    own = _own()
    if _fits(own.version, wanted) and own.has_pip:
        return own
    best = own if _fits(own.version, wanted) else None
    for path in _candidates(wanted):
        candidate = ask(path)
        if candidate and _fits(candidate.version, wanted):
            best = best or candidate
            if candidate.has_pip:
                return candidate
    if best is None:
        available = ", ".join(versions()) or "none"
        raise RefusedError(
            f"environment {name} requires Python {wanted}, and this node has {available}",
            fix=f"Install Python {wanted} on every node (pyenv install {wanted}; apt-get install python{wanted}-venv), "
            "or request an available one.",
        )
    return best


def ask(path: str) -> Interpreter | None:
    """The interpreter at a path; None = it doesn't run (such as a version manager's shim)."""
    try:
        done = child_processes.run([path, "-I", "-c", _ASKS], _ASK_S)
        done.check_returncode()
        version, base, has_pip, *folders = json.loads(done.stdout)
    except (OSError, subprocess.SubprocessError, ValueError):
        return None
    return Interpreter(version, base, has_pip, _wheels(version, *folders))


def versions() -> list[str]:
    """The available versions, oldest first, including the agent's own."""
    paths = {path for folder in _folders() for path in glob.glob(f"{glob.escape(folder)}/python3.*") if _is_named(path)}
    available = {_own().version, *(one.version for path in sorted(paths) if (one := ask(path)))}
    return sorted(available, key=lambda one: [int(part) for part in re.findall(r"\d+", one)])


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
    """The wheels of Python's ensurepip, or of the folder that the distribution uses instead."""
    kept = [elsewhere] if elsewhere else []
    return bundled(version, [f"{stdlib}/ensurepip/_bundled", *kept, "/usr/share/python-wheels"])


def bundled(version: str, folders: Iterable[str]) -> tuple[str, ...]:
    """The wheels that this Python's ensurepip installs, from the first folder with pip; () = none.

    Up to 3.11 they include setuptools (What's New in Python 3.12).
    """
    is_old = [int(part) for part in version.split(".")[:2]] < [3, 12]
    for folder in folders:
        wheels = [_newest(folder, name) for name in (("pip", "setuptools") if is_old else ("pip",))]
        if wheels[0]:
            return tuple(one for one in wheels if one)
    return ()


def _newest(folder: str, name: str) -> str:
    wheels = glob.glob(f"{glob.escape(folder)}/{name}-*.whl")
    return max(wheels, key=lambda one: [int(part) for part in re.findall(r"\d+", os.path.basename(one))], default="")


def _fits(version: str, wanted: str) -> bool:
    """Whether a version such as 3.11.7 fits 3.11; every version fits ""."""
    match = _VERSION.match(wanted)
    parts = match[0].split(".") if match else []
    return version.split(".")[: len(parts)] == parts


def _candidates(wanted: str) -> Iterable[str]:
    """Candidate paths of an interpreter, without duplicates, the likeliest first."""
    names = [f"python{'.'.join(wanted.split('.')[:2])}", "python3", "python"] if wanted else ["python3", "python"]
    paths = [os.path.join(folder, name) for name in names for folder in _folders()]
    return {os.path.realpath(path): path for path in paths if os.access(path, os.X_OK)}.values()


def _folders() -> list[str]:
    """The folders that may have interpreters: PATH first. Slow shims are skipped, as their targets are found anyway."""
    on_path = [one for one in os.environ.get("PATH", os.defpath).split(os.pathsep) if one and "/shims" not in one]
    pyenv = os.environ.get("PYENV_ROOT")
    patterns = [f"{pyenv}/versions/*/bin", *_KEPT] if pyenv else _KEPT
    kept = [folder for one in patterns for folder in sorted(glob.glob(os.path.expanduser(one)), reverse=True)]
    return list(dict.fromkeys([*on_path, *kept]))


def _is_named(path: str) -> bool:
    return _NAMED.fullmatch(os.path.basename(path)) is not None and os.access(path, os.X_OK)

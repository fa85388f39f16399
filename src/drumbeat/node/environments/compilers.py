"""The tools for a build from source on this node: programs, and a C++ compiler with a minimum language standard."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from collections.abc import Mapping, Sequence

from drumbeat.model.errors import RefusedError
from drumbeat.node.platform import child_processes, machine_memory

_ASK_S = 20.0
_DEBIAN = {
    "c++": "g++", "cc": "gcc", "mpicc": "libopenmpi-dev", "mpicxx": "libopenmpi-dev", "mpirun": "openmpi-bin",
    "nvcc": "nvidia-cuda-toolkit", "ninja": "ninja-build",
}  # fmt: skip
"""Packages of Debian and Ubuntu whose names differ from the program's."""
_OLDER = {11: ("98", "03", "0x"), 14: ("11", "1y"), 17: ("14", "1z"), 20: ("17", "2a"), 23: ("20", "2b", "2c")}
"""The names of each standard's predecessor, and of the standard itself before it was final."""
MIB_A_JOB = 2048
"""The maximum memory of one compiler, measured with PyTorch's headers."""


def require(programs: Sequence[str], path: str, what: str, source: str) -> None:
    """Raises RefusedError when a program isn't on `path`. what: what requires them; source: where it is requested."""
    missing = [name for name in programs if shutil.which(name, path=path) is None]
    if not missing:
        return
    names = " and no ".join(missing)
    packages = " ".join(dict.fromkeys(_DEBIAN.get(name, name) for name in missing))
    fix = f"Install it on every node: apt-get install {packages} (Debian, Ubuntu)."
    raise RefusedError(f"{what} is built from source, and this node has no {names} on its PATH", where=source, fix=fix)


def version(program: str, path: str) -> str:
    """The first line of a program's `--version`, "" = it is missing or prints nothing."""
    executable = shutil.which(program, path=path)
    if executable is None:
        return ""
    try:
        done = child_processes.run([executable, "--version"], _ASK_S, env={**os.environ, "PATH": path})
    except (OSError, subprocess.SubprocessError):
        return ""
    return next(iter(done.stdout.decode(errors="replace").strip().splitlines()), "")


def at_once(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables for the number of parallel compilers of make, CMake and torch's builds, unless they are set.

    No more than fit in memory: a container or a scheduler's job may have less of it than its machine.
    """
    left, _ = machine_memory.left()
    count = str(max(1, min(len(os.sched_getaffinity(0)), (left >> 20) // MIB_A_JOB)))
    wanted = {"MAKEFLAGS": f"-j{count}", "CMAKE_BUILD_PARALLEL_LEVEL": count, "MAX_JOBS": count}
    return {name: value for name, value in wanted.items() if name not in environ}


def wrapper(standard: int, environ: Mapping[str, str]) -> str:
    """A shell script that runs the node's C++ compiler and replaces standards older than C++`standard`."""
    path = environ.get("PATH", os.defpath)
    named = shlex.split(environ.get("CXX", "")) or [shutil.which("c++", path=path) or "c++"]
    older = [name for until in _OLDER if until <= standard for name in _OLDER[until]]
    words = "|".join(f"-std={kind}++{name}" for kind in ("c", "gnu") for name in older)
    return (
        "#!/bin/sh\n"
        "for word do\n"
        "    shift\n"
        f"    case $word in {words}) word=$(printf %s \"$word\" | sed 's/++.*/++{standard}/') ;; esac\n"
        '    set -- "$@" "$word"\n'
        "done\n"
        f'exec {shlex.join(named)} "$@"\n'
    )

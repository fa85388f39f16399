"""The Python environment that the lab's Ray runs in: made once, and kept apart from drumbeat's own."""

from __future__ import annotations

import fcntl
import shutil
import subprocess
import sys
from functools import cache
from hashlib import sha256

from tools.installer import run_installer
from tools.kept_folder import KEPT

PACKAGES = ("ray[default]==2.60.0",)
INSTALL_TIMEOUT_S = 900
_MARK = "\n".join((*PACKAGES, sys.version))
FOLDER = KEPT / f"cluster-of-ray-{sha256(_MARK.encode()).hexdigest()[:8]}"
PYTHON = FOLDER / "bin" / "python"


def missing() -> str:
    """Why tests on the cluster can't run now, "" = they can."""
    if (FOLDER / "made").exists():
        return ""
    return "needs an environment with Ray: `make thorough` or `make demo ENGINE=ray` makes it"


@cache
def made() -> str:
    """Makes it unless it is kept; gives the sentence of why that failed, "" = it is there."""
    KEPT.mkdir(parents=True, exist_ok=True)
    with (KEPT / "cluster-of-ray.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return missing() and _make()


def _make() -> str:
    shutil.rmtree(FOLDER, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "venv", str(FOLDER)], check=True)
    pip = [str(PYTHON), "-m", "pip", "install", "-q", "--disable-pip-version-check", "--only-binary", ":all:"]
    done = run_installer([*pip, *PACKAGES], timeout_s=INSTALL_TIMEOUT_S)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["?"])[-1]
        return f"needs {', '.join(PACKAGES)} from the package registry: {last[:200]}"
    (FOLDER / "made").write_text(_MARK)
    return ""

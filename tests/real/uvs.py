"""The uv that the tests run, whether or not the machine has one of its own; made once."""

from __future__ import annotations

import fcntl
import subprocess
import sys
from pathlib import Path

import pytest

from tools.kept import KEPT

PACKAGE = "uv==0.13.9"


def provide() -> Path:
    """The folder that it alone is in. Skips the test, saying what is missing, when it can't be had."""
    folder = KEPT / PACKAGE.replace("==", "-")
    KEPT.mkdir(parents=True, exist_ok=True)
    with Path(f"{folder}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "bin" / "uv").exists():
            pip = [
                sys.executable,
                "-m",
                "pip",
                "install",
                "-q",
                "--disable-pip-version-check",
                "--only-binary",
                ":all:",
            ]
            done = subprocess.run([*pip, "--target", str(folder), PACKAGE], capture_output=True, text=True, check=False)
            if done.returncode:
                last = (done.stderr.strip().splitlines() or ["?"])[-1]
                pytest.skip(f"needs {PACKAGE} from the package registry: {last[:200]}")
    return folder / "bin"

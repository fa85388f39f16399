"""Debian packages that tests and demos need: installed where root runs them, asked for elsewhere."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from pathlib import Path

from tools.installer import run_installer


def install(*packages: str) -> None:
    """Tries to; whoever asked looks again for what they need. One at a time on a machine."""
    if os.geteuid() or shutil.which("apt-get") is None:
        return
    command = ["apt-get", "install", "-y", "--no-install-recommends", *packages]
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    with Path(tempfile.gettempdir(), "drumbeat-tests-apt.lock").open("w") as lock, contextlib.suppress(OSError):
        fcntl.flock(lock, fcntl.LOCK_EX)
        run_installer(command, environment=environment, timeout_s=240)

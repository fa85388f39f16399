"""Scripts of other Unix users of this machine: they have the standard library, and no right to anything."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Generator

import pytest

STRANGER = 65534
"""The uid of `nobody`."""

PRELUDE = f"""
# Whatever the script may need: what these modules are read from, only root may be able to.
import base64, encodings.idna, errno, http.client, json, os, pathlib, select, signal, socket, struct, sys, time
os.setgroups([]), os.setgid({STRANGER}), os.setuid({STRANGER}), os.chdir("/")
"""

needs_stranger = pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as another Unix user")


def run_as_stranger(script: str, *arguments: object, timeout_s: float = 60.0) -> str:
    """What a script of another user prints; `sys.argv[1:]` are the arguments. The test fails where the script fails."""
    done = subprocess.run(_command(script, arguments), capture_output=True, text=True, timeout=timeout_s, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@contextlib.contextmanager
def stranger(script: str, *arguments: object) -> Generator[subprocess.Popen[str]]:
    """A script of another user that runs meanwhile; what it prints can be read, line by line."""
    with subprocess.Popen(_command(script, arguments), stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def _command(script: str, arguments: tuple[object, ...]) -> list[str]:
    return [sys.executable, "-I", "-c", PRELUDE + script, *map(str, arguments)]

"""The uv that the tests run, whether or not the machine has one of its own; made once."""

from __future__ import annotations

import sys
from pathlib import Path

from tools.kept_folder import KEPT

from .started import installed

VERSION = "0.13.9"


def provide() -> Path:
    """The folder that it alone is in. Skips the test, saying what is missing, when it can't be had."""
    folder = KEPT / f"uv-{VERSION}"
    pip = [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--only-binary", ":all:"]
    installed([*pip, "--target", str(folder), f"uv=={VERSION}"], folder / "bin" / "uv")
    return folder / "bin"

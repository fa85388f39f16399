"""MLflow's own client, unmodified, in a folder of its own; made once."""

from __future__ import annotations

import sys
from pathlib import Path

from tools.kept import KEPT

from .started import installed

SKINNY = "3.17.2"


def provide() -> Path:
    """The folder to put on PYTHONPATH. Skips the test, saying what is missing, when it can't be had."""
    folder = KEPT / f"mlflow-skinny-{SKINNY}"
    pip = [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--only-binary", ":all:"]
    installed([*pip, "--target", str(folder), f"mlflow-skinny=={SKINNY}"], folder / "mlflow" / "__init__.py")
    return folder

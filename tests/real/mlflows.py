"""MLflow's own clients, unmodified, each in a folder of its own; made once."""

from __future__ import annotations

import sys
from pathlib import Path

from tools.kept_folder import KEPT

from .started import installed

NEWEST, OLDEST = "3.17.2", "2.22.1"
SKINNY = NEWEST


def provide(package: str = "mlflow-skinny", version: str = SKINNY) -> Path:
    """The folder to put on PYTHONPATH. Skips the test, saying what is missing, when it can't be had."""
    return packages(f"{package}-{version}", [f"{package}=={version}"], Path("mlflow/__init__.py"))


def packages(name: str, wanted: list[str], file: Path) -> Path:
    """A folder of KEPT with these packages, of which this file is one."""
    folder = KEPT / name
    pip = [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--only-binary", ":all:"]
    installed([*pip, "--target", str(folder), *wanted], folder / file)
    return folder

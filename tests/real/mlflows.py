"""MLflow's own clients, unmodified, each in a folder of its own; made once."""

from __future__ import annotations

from pathlib import Path

from tools.kept_folder import KEPT
from tools.kept_programs import MLFLOW_VERSION, pip_program

from . import started

NEWEST, OLDEST = MLFLOW_VERSION, "2.22.1"


def provide(package: str = "mlflow-skinny", version: str = NEWEST) -> Path:
    """The folder to put on PYTHONPATH. Skips the test, saying what is missing, when it can't be had."""
    return packages(f"{package}-{version}", [f"{package}=={version}"], Path("mlflow/__init__.py"))


def packages(name: str, wanted: list[str], file: Path) -> Path:
    """A folder of KEPT with these packages, of which this file is one."""
    started.provide(pip_program(name, str(file), wanted))
    return KEPT / name

"""MLflow's own clients, unmodified, each in a folder of its own; made once."""

from __future__ import annotations

from pathlib import Path

from tools.kept_programs import MLFLOW_CLIENTS, MLFLOW_VERSION, OLDEST_MLFLOW_VERSION

from . import started

NEWEST, OLDEST = MLFLOW_VERSION, OLDEST_MLFLOW_VERSION


def provide(package: str = "mlflow-skinny", version: str = NEWEST) -> Path:
    """The folder to put on PYTHONPATH. Skips the test, saying what is missing, when it can't be had."""
    return started.provide(MLFLOW_CLIENTS[package, version]).parents[1]

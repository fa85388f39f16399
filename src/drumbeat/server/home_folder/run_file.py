"""The artifacts of MLflow's runs and models."""

from __future__ import annotations

from dataclasses import dataclass

RUN_FILES = "mlflow-artifacts"
"""The folder among a job's outputs that holds them. No output has this name: names of outputs have no hyphen."""


@dataclass(frozen=True)
class RunFile:
    """A file or a folder in a folder of artifacts. size: in bytes, None for a folder."""

    name: str
    size: int | None

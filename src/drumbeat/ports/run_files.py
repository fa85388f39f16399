"""The artifacts of MLflow's runs and models."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

RUN_FILES = "mlflow-artifacts"
"""The folder among a job's outputs that holds them. No output has this name: names of outputs have no hyphen."""


@dataclass(frozen=True)
class RunFile:
    """A file or a folder in a folder of artifacts. size: in bytes, None for a folder."""

    name: str
    size: int | None


class RunFiles(Protocol):
    """Artifacts that MLflow's clients log. job: the job that the run belongs to; "" = it was created outside of jobs.

    A job's artifacts are among its outputs, below `outputs/mlflow-artifacts`. Every path is relative and contained: one
    that would leave its folder raises ForbiddenError. A disk that refuses raises StorageError.
    """

    def put(self, job: str, path: str, pieces: Iterable[bytes]) -> None:
        """Writes a file, whole or not at all; it replaces an earlier one. Raises ConflictError where a folder is."""
        ...

    def remove(self, job: str, path: str) -> None:
        """Removes a file, or a folder with all that is in it. One that doesn't exist is removed already."""
        ...

    def entries(self, job: str, path: str) -> list[RunFile] | None:
        """Returns what a folder holds, by name; None if the path is no folder. path: "" = the outermost folder."""
        ...

    def locate(self, job: str, path: str) -> Path:
        """Returns the place of a file. Raises NotFoundError."""
        ...

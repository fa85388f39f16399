"""Artifacts of runs on the node's disk: they are stored among the job's outputs, and uploaded with them."""

from __future__ import annotations

import contextlib
import mimetypes
import os
import secrets
import shutil
from typing import BinaryIO

from drumbeat.model import folder_layout
from drumbeat.model.metrics import JsonObject
from drumbeat.model.mlflow_calls import FULL, MlflowRefusal, invalid
from drumbeat.model.sparse_files import write_at

_PIECE = 1 << 20


class NodeArtifacts:
    """The artifacts of runs that ranks of this node write. root: the attempt's folder; parts: the folder for partial
    ones.
    """

    def __init__(self, root: str, parts: str) -> None:
        self._folder, self._parts = folder_layout.output_path(root, folder_layout.RUN_ARTIFACTS), parts
        shutil.rmtree(parts, ignore_errors=True)  # Left by a process that was killed.
        os.makedirs(parts, mode=0o700)

    def path(self, run: str, name: str) -> str:
        """Returns the path of an artifact. Raises MlflowRefusal for a name that leads out of the run's folder."""
        parts = [part for part in name.split("/") if part not in ("", ".")]
        if ".." in parts or "\0" in name:
            raise invalid(f"Invalid path: {name!r}")
        return "/".join([self._folder, run, *parts])

    def keep(self, run: str, name: str, body: BinaryIO) -> None:
        """Stores an artifact atomically. Raises MlflowRefusal."""
        path, part = self.path(run, name), f"{self._parts}/{secrets.token_hex(8)}"
        try:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(part, "wb") as file:
                while piece := body.read(_PIECE):
                    write_at(file.fileno(), piece, os.fstat(file.fileno()).st_size)
                os.fsync(file.fileno())
            os.replace(part, path)
        except OSError as error:
            with contextlib.suppress(OSError):
                os.unlink(part)
            raise MlflowRefusal(FULL, f"The node's disk refuses {name!r}: {error.strerror or error}") from None

    def open(self, run: str, name: str) -> tuple[BinaryIO, int, str]:
        """Returns an artifact as an open file, its size and its type. Raises FileNotFoundError."""
        path = self.path(run, name)
        try:
            file = open(path, "rb")  # noqa: SIM115 (the caller sends and closes it)
        except OSError:
            raise FileNotFoundError(name) from None
        return file, os.fstat(file.fileno()).st_size, mimetypes.guess_type(path)[0] or "application/octet-stream"

    def remove(self, run: str, name: str) -> None:
        """Removes an artifact, or a folder of them. Raises FileNotFoundError."""
        path = self.path(run, name)
        if os.path.isdir(path):
            shutil.rmtree(path, ignore_errors=True)
            return
        try:
            os.unlink(path)
        except OSError:
            raise FileNotFoundError(name) from None

    def files(self, run: str, folder: str) -> list[JsonObject]:
        """Returns MLflow's `FileInfo` of a folder's entries, with paths relative to the run; [] = none."""
        path = self.path(run, folder)
        inside = folder.strip("/")
        try:
            with os.scandir(path) as entries:
                listed = sorted(entries, key=lambda one: one.name)
        except OSError:
            return []
        infos = [_file_info(one, f"{inside}/{one.name}" if inside else one.name) for one in listed]
        return [info for info in infos if info]


def _file_info(entry: os.DirEntry[str], path: str) -> JsonObject:
    """Returns MLflow's `FileInfo` of an artifact; {} = it is gone, or is a broken link."""
    if entry.is_dir():
        return {"path": path, "is_dir": True}
    try:
        return {"path": path, "is_dir": False, "file_size": entry.stat().st_size}
    except FileNotFoundError:
        return {}

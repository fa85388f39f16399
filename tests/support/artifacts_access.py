"""What the contracts of places for files have in common: how their data is opened, and what is seen in it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import pytest

from drumbeat.model.logs import LogName
from drumbeat.server.home_folder import FolderArtifacts
from drumbeat.server.home_folder.stored_files import LogChunk

Open = Callable[[], FolderArtifacts]

LOG = LogName(1, 1, 0, 0).path
HOSTILE = (
    *("", ".", "..", "../x", "a/../../x", "a/..", "/etc/passwd", "a//b", "a/./b", "a/", "/", "a\0b", "a/b\0"),
    *("x" * 256, "a/" + "é" * 200, "/".join(["deep"] * 2000), "x" * 10_000, "\udcff"),
)
"""Paths and names that mustn't lead anywhere."""


class ArtifactsAccess:
    """FolderArtifacts over data that can be opened again."""

    @pytest.fixture
    def open_artifacts(self) -> Open:
        raise NotImplementedError("the subclass says how its data is opened")

    @pytest.fixture
    def artifacts(self, open_artifacts: Open) -> FolderArtifacts:
        return open_artifacts()


def sha(data: bytes) -> str:
    """SHA-256 in hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def described(files: dict[str, bytes]) -> dict[str, tuple[int, str]]:
    """Files as `commit_outputs` is told of them."""
    return {path: (len(data), sha(data)) for path, data in files.items()}


def give(artifacts: FolderArtifacts, attempt: int, node: int, files: dict[str, bytes], *, is_sent: bool = True) -> None:
    """Sends a node's outputs of job `a`, and has them shown."""
    for path, data in files.items() if is_sent else ():
        artifacts.append_output("a", attempt, node, path, 0, data)
    assert artifacts.commit_outputs("a", attempt, node, described(files)) == []


def text(chunks: list[LogChunk]) -> dict[LogName, bytes]:
    """Each log's bytes; each piece must begin where the one before it ended."""
    texts: dict[LogName, bytes] = {}
    for chunk in chunks:
        assert chunk.offset == len(texts.get(chunk.log, b""))
        texts[chunk.log] = texts.get(chunk.log, b"") + chunk.data
    return texts


def contents(artifacts: FolderArtifacts, job: str) -> dict[str, bytes]:
    """Path to bytes of every file that is listed, sizes checked."""
    found = {one.path: artifacts.open_file(job, one.path).read_bytes() for one in artifacts.files(job)}
    assert [one.size for one in artifacts.files(job)] == [len(data) for data in found.values()]
    return found

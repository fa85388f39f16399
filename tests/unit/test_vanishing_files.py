"""Folders are listed and measured while other processes remove files in them: what has gone counts nothing."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self

import pytest

from drumbeat.client.snapshot import Subject, list_entries
from drumbeat.node.environments.garbage_collection import folder_size
from drumbeat.node.inputs.cache_usage import LocalCaches
from drumbeat.node.metrics.artifacts import NodeArtifacts
from drumbeat.server.home_folder.artifacts import FolderArtifacts
from drumbeat.server.home_folder.run_files import FolderRunFiles

pytestmark = pytest.mark.feature("M9")

BLOCKS = b"x" * 100_000


class Listing:
    """The entries of a folder as they were, as `os.scandir` gives them."""

    def __init__(self, entries: list[os.DirEntry[str]]) -> None:
        self._entries = iter(entries)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...

    def __iter__(self) -> Iterator[os.DirEntry[str]]:
        return self._entries

    def __next__(self) -> os.DirEntry[str]:
        return next(self._entries)

    def close(self) -> None:
        """It is read already."""


@pytest.fixture
def removes_listed(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Has entries of a name removed as soon as their folder was listed, as by a process that was waiting for it."""

    def arm(name: str) -> None:
        real = os.scandir

        def scandir(folder: Any = ".") -> Listing:
            with real(folder) as entries:
                listed: list[os.DirEntry[str]] = list(entries)
            for entry in listed:
                if entry.name != name:
                    continue
                if entry.is_dir():
                    shutil.rmtree(entry.path)
                else:
                    Path(entry.path).unlink()
            return Listing(listed)

        monkeypatch.setattr(os, "scandir", scandir)

    return arm


def put(file: Path) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(BLOCKS)
    return file


def test_size_of_a_folder_leaves_out_a_file_that_has_just_gone(tmp_path: Path, removes_listed: Callable[[str], None]):
    put(tmp_path / "env/lib/kept.so")
    put(tmp_path / "env/lib/pip.tmp")
    removes_listed("pip.tmp")
    assert len(BLOCKS) <= folder_size(str(tmp_path / "env")) < 2 * len(BLOCKS)


def test_usage_of_caches_leaves_out_a_wheel_that_has_just_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, removes_listed: Callable[[str], None]
):
    monkeypatch.setenv("DRUMBEAT_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("DRUMBEAT_DATA_CACHE", raising=False)
    put(tmp_path / "cache/wheels/kept-1/kept.whl")
    put(tmp_path / "cache/wheels/built-1.part/built.whl")
    removes_listed("built-1.part")
    assert [item.name for item in LocalCaches(str(tmp_path)).usage()] == ["kept-1"]


def test_usage_of_a_database_still_counts_it_when_its_log_has_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, removes_listed: Callable[[str], None]
):
    monkeypatch.setenv("DRUMBEAT_CACHE", str(tmp_path / "none"))
    monkeypatch.delenv("DRUMBEAT_DATA_CACHE", raising=False)
    database = put(tmp_path / "jobs.db")
    put(tmp_path / "jobs.db-wal")
    removes_listed("jobs.db-wal")
    [item] = LocalCaches(str(tmp_path), [("database", "jobs", str(database))]).usage()
    assert item.size >= len(BLOCKS)


def test_space_of_jobs_leaves_out_one_that_is_just_removed(tmp_path: Path, removes_listed: Callable[[str], None]):
    artifacts = FolderArtifacts(tmp_path)
    for job in ("kept", "removed"):
        artifacts.write_text(job, "plan.json", "{}")
    removes_listed("removed")
    assert set(artifacts.job_space()) == {"kept"}
    assert artifacts.job_space("removed") == {}


def test_files_of_runs_leave_out_one_that_is_just_removed(tmp_path: Path, removes_listed: Callable[[str], None]):
    files = FolderRunFiles(tmp_path)
    for name in ("kept.png", "removed.png"):
        files.put("a", f"run/{name}", [BLOCKS])
    removes_listed("removed.png")
    assert [entry.name for entry in files.entries("a", "run") or ()] == ["kept.png"]


def test_artifacts_on_a_node_leave_out_one_that_is_just_removed(tmp_path: Path, removes_listed: Callable[[str], None]):
    artifacts = NodeArtifacts(str(tmp_path / "root"), str(tmp_path / "parts"))
    for name in ("kept.png", "removed.png"):
        put(Path(artifacts.path("run", name)))
    removes_listed("removed.png")
    assert [info["path"] for info in artifacts.files("run", "")] == ["kept.png"]


def test_snapshot_of_code_leaves_out_an_editors_file_that_has_just_gone(
    tmp_path: Path, removes_listed: Callable[[str], None]
):
    put(tmp_path / "train.py")
    put(tmp_path / ".train.py.swp")
    removes_listed(".train.py.swp")
    assert [entry.path for entry in list_entries(tmp_path, Subject("code"))] == ["train.py"]

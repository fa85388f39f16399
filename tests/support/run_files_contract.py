"""What every place for the artifacts of runs promises: the docstrings of `FolderRunFiles`.

A test module subclasses `RunFilesContract` and gives the fixture `open_artifacts`; each call opens the same data.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import pytest

from drumbeat.model.errors import ConflictError, ForbiddenError, NotFoundError
from drumbeat.server.home_folder.run_file import RunFile
from tests.support.artifacts_access import HOSTILE, Open

JOBS = ("", "train-1")
RUN = "0" * 32


class RunFilesContract:
    """Artifacts of runs of jobs and of runs outside of jobs."""

    @pytest.fixture
    def open_artifacts(self) -> Open:
        raise NotImplementedError("the subclass says how its data is opened")

    @pytest.mark.parametrize("job", JOBS)
    def test_an_artifact_is_read_back_and_replaced(self, open_artifacts: Open, job: str) -> None:
        for content in (b"first", b"2", b""):
            open_artifacts().of_runs.put(job, f"{RUN}/a/b.txt", [content])
            assert open_artifacts().of_runs.locate(job, f"{RUN}/a/b.txt").read_bytes() == content

    @pytest.mark.parametrize("job", JOBS)
    def test_entries_are_those_of_one_folder(self, open_artifacts: Open, job: str) -> None:
        files = open_artifacts().of_runs
        for path in ("top.txt", "a/x.txt", "a/y.txt", "a/b/z.txt"):
            files.put(job, f"{RUN}/{path}", [b"12345"])
        assert files.entries(job, RUN) == [RunFile("a", None), RunFile("top.txt", 5)]
        assert files.entries(job, f"{RUN}/a") == [RunFile("b", None), RunFile("x.txt", 5), RunFile("y.txt", 5)]
        assert files.entries(job, f"{RUN}/top.txt") is None
        assert files.entries(job, "other") is None

    @pytest.mark.parametrize("job", JOBS)
    def test_a_removed_folder_takes_its_files_along(self, open_artifacts: Open, job: str) -> None:
        files = open_artifacts().of_runs
        for path in ("a/x", "a/b/y", "c"):
            files.put(job, f"{RUN}/{path}", [b"1"])
        for path in ("a", "a", "c", "c/d", "missing"):
            files.remove(job, f"{RUN}/{path}")
        assert files.entries(job, RUN) == []
        with pytest.raises(NotFoundError):
            files.locate(job, f"{RUN}/a/x")

    @pytest.mark.parametrize("job", JOBS)
    def test_a_file_and_a_folder_cannot_share_a_path(self, open_artifacts: Open, job: str) -> None:
        files = open_artifacts().of_runs
        files.put(job, "a/b", [b"1"])
        for path in ("a", "a/b/c"):
            with pytest.raises(ConflictError):
                files.put(job, path, [b"2"])
        assert files.locate(job, "a/b").read_bytes() == b"1"

    @pytest.mark.parametrize("job", JOBS)
    def test_an_interrupted_upload_leaves_the_earlier_file(self, open_artifacts: Open, job: str) -> None:
        def pieces() -> Iterator[bytes]:
            yield b"half"
            raise RuntimeError

        files = open_artifacts().of_runs
        files.put(job, "a", [b"whole"])
        with pytest.raises(RuntimeError):
            files.put(job, "a", pieces())
        assert files.locate(job, "a").read_bytes() == b"whole"

    @pytest.mark.parametrize("path", HOSTILE)
    def test_a_hostile_path_is_refused(self, open_artifacts: Open, path: str) -> None:
        files = open_artifacts().of_runs
        for job in JOBS:
            with pytest.raises(ForbiddenError):
                files.put(job, path, [b"1"])
            with pytest.raises(ForbiddenError):
                files.locate(job, path)
            with pytest.raises(ForbiddenError):
                files.remove(job, path)

    def test_artifacts_are_among_the_files_of_the_job(self, open_artifacts: Open) -> None:
        artifacts = open_artifacts()
        artifacts.of_runs.put("j", f"{RUN}/m/model.bin", [b"123"])
        path = f"outputs/mlflow-artifacts/{RUN}/m/model.bin"
        assert [(one.path, one.size) for one in artifacts.files("j")] == [(path, 3)]
        assert artifacts.open_file("j", path).read_bytes() == b"123"

    def test_artifacts_remain_when_a_node_shows_its_outputs(self, open_artifacts: Open) -> None:
        artifacts = open_artifacts()
        artifacts.of_runs.put("j", f"{RUN}/m", [b"123"])
        for attempt in (1, 2):
            artifacts.append_output("j", attempt, 0, "default/x", 0, b"x")
            kept = {"default/x": (1, hashlib.sha256(b"x").hexdigest())}
            assert artifacts.commit_outputs("j", attempt, 0, kept) == []
            assert artifacts.of_runs.locate("j", f"{RUN}/m").read_bytes() == b"123"
        assert len(artifacts.files("j")) == 2

    def test_artifacts_of_a_removed_job_are_removed(self, open_artifacts: Open) -> None:
        artifacts = open_artifacts()
        artifacts.of_runs.put("j", f"{RUN}/m", [b"123"])
        artifacts.set_aside_job("j")
        assert artifacts.of_runs.entries("j", RUN) is None

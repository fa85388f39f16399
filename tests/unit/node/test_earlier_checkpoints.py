"""The copy of an earlier job's checkpoints with which a job begins."""

from __future__ import annotations

import os
import shutil
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from drumbeat.model.agent import Enrolment
from drumbeat.model.errors import RefusedError, StorageError
from drumbeat.model.plan import Plan, Resumption
from drumbeat.node.inputs.earlier_checkpoints import bring
from drumbeat.node.inputs.missing_share import MissingShareError
from drumbeat.node.platform import locks

pytestmark = pytest.mark.feature("M16")


@pytest.fixture
def earlier(tmp_path: Path) -> Path:
    """The folder of the job `first`: two checkpoints, a copy of a file, and what is no checkpoint."""
    folder = tmp_path / "jobs" / "first" / "checkpoints"
    for name in ("step-000000000200", "step-000000000300", ".partial-000000000400-1.1", ".last-good/files"):
        (folder / name).mkdir(parents=True)
        (folder / name / "part").write_text(name)
    (folder / "last.pt").write_bytes(b"w" * 1000)
    (folder / ".generation.json").write_text("{}")
    (folder / ".last-good" / "watch.lock").write_text("")
    (folder / "latest").symlink_to("step-000000000300")
    return folder


def enrolment(tmp_path: Path, *folders: Path, node: int = 0, is_per_machine: bool = False) -> Enrolment:
    begins = Resumption("first", tuple(map(str, folders)), 300, is_per_machine)
    plan = Plan("second", "e", "pytorch", 1, 1, "true", (), resumption=begins)
    own = tmp_path / "jobs" / "second" / "checkpoints"
    return Enrolment("second", 1, node, (), "s", str(tmp_path / "root"), str(own), plan)


def names(folder: str | Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in Path(folder).rglob("*") if path.is_file() or path.is_symlink()}


def test_job_gets_a_copy_of_its_own_without_what_is_no_checkpoint(tmp_path: Path, earlier: Path) -> None:
    one, said = enrolment(tmp_path, tmp_path / "nowhere", earlier), list[str]()
    before = {path: path.read_bytes() for path in earlier.rglob("*") if path.is_file()}
    copied = bring(one, said.append)
    assert names(one.checkpoints) == {
        "step-000000000200/part", "step-000000000300/part", ".last-good/files/part", "last.pt", "latest",
    }  # fmt: skip
    assert copied == "the checkpoints of first were copied: 4 files, 0.0 MiB"
    assert said[-1] == "copying the checkpoints of first: 0 MiB"
    (Path(one.checkpoints) / "last.pt").write_bytes(b"of the new job")
    assert {path: path.read_bytes() for path in before} == before
    assert [path.name for path in (tmp_path / "jobs" / "second").iterdir()] == ["checkpoints"]


def test_what_the_job_has_saved_since_is_not_replaced(tmp_path: Path, earlier: Path) -> None:
    one = enrolment(tmp_path, earlier)
    bring(one, str)
    (Path(one.checkpoints) / "last.pt").write_bytes(b"newer")
    assert bring(one, str) == ""
    assert (Path(one.checkpoints) / "last.pt").read_bytes() == b"newer"


def test_copy_that_a_killed_node_began_is_made_again(tmp_path: Path, earlier: Path) -> None:
    one = enrolment(tmp_path, earlier)
    part = Path(f"{one.checkpoints}.part")
    part.mkdir(parents=True)
    (part / "half").write_text("half")
    bring(one, str)
    assert "half" not in names(one.checkpoints)
    assert not part.exists()


def test_nodes_that_share_the_folder_make_one_copy(tmp_path: Path, earlier: Path) -> None:
    first, second = (enrolment(tmp_path, earlier, node=node) for node in (0, 1))
    Path(first.checkpoints).parent.mkdir(parents=True)
    Path(first.checkpoints).mkdir()
    lock = locks.take(f"{first.checkpoints}.lock")
    assert lock is not None
    waits, told = threading.Event(), list[str]()

    def progress(sentence: str) -> None:
        told.append(sentence)
        waits.set()

    results = list[str]()
    thread = threading.Thread(target=lambda: results.append(bring(second, progress)))
    thread.start()
    assert waits.wait(60)
    (Path(first.checkpoints) / "last.pt").write_text("copied by the other node")
    Path(f"{first.checkpoints}.lock").unlink()
    os.close(lock)
    thread.join(60)
    assert results == [""]
    assert told[0] == "another node copies the checkpoints of first"
    assert names(first.checkpoints) == {"last.pt"}


def test_checkpoints_that_are_gone_are_not_replaced_by_a_beginning(tmp_path: Path, earlier: Path) -> None:
    gone = tmp_path / "gone"
    with pytest.raises(RefusedError, match="the checkpoints of first are gone") as caught:
        bring(enrolment(tmp_path, gone), str)
    assert caught.value.where == str(gone)
    (gone / ".partial-1").mkdir(parents=True)
    (gone / ".partial-1" / "x").write_text("x")
    (gone / ".generation.json").write_text("{}")
    with pytest.raises(MissingShareError, match="aren't on this machine"):
        bring(enrolment(tmp_path, gone, is_per_machine=True), str)


def test_machine_of_a_rank_that_saved_nothing_serves_nodes_beside_node_0(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    with pytest.raises(MissingShareError):
        bring(enrolment(tmp_path, empty, node=1, is_per_machine=True), str)
    empty.mkdir()
    assert bring(enrolment(tmp_path, empty, node=1, is_per_machine=True), str) == ""


def test_what_the_earlier_jobs_agent_removes_meanwhile_is_left_out(tmp_path: Path, earlier: Path) -> None:
    one = enrolment(tmp_path, earlier)
    (earlier / "latest").unlink()

    def remove_others(_sentence: str) -> None:
        for path in earlier.iterdir():
            if not (Path(f"{one.checkpoints}.part") / path.name).exists():
                shutil.rmtree(path) if path.is_dir() else path.unlink()

    bring(one, remove_others)
    assert len(names(one.checkpoints)) >= 1


def test_disk_error_names_the_file_and_leaves_nothing_half(tmp_path: Path, earlier: Path) -> None:
    os.mkfifo(earlier / "pipe")
    one = enrolment(tmp_path, earlier)
    with pytest.raises(StorageError, match="can't be copied"):
        bring(one, str)
    assert names(one.checkpoints) == set()


def test_job_that_continues_none_copies_nothing(tmp_path: Path) -> None:
    one = enrolment(tmp_path)
    assert bring(replace(one, plan=replace(one.plan, resumption=None)), str) == ""
    assert not Path(one.checkpoints).exists()

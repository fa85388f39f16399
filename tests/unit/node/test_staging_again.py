"""What of a folder is believed that an agent, or the whole machine, left in the middle."""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import tarfile
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from drumbeat.model.agent import Enrolment
from drumbeat.model.plan import InputPlan, OutputPlan, Plan
from drumbeat.node.inputs.input_stager import InputStager, forget
from drumbeat.node.platform import completion_marks as marking
from tests.nobody import run_as_nobody

pytestmark = pytest.mark.feature("D5")

AGAIN = """
import shutil
from drumbeat.node.platform import completion_marks
from drumbeat.node.inputs.input_stager import InputStager
from drumbeat.model.agent import Enrolment
from drumbeat.node.host.machine import boot
from drumbeat.model.plan import InputPlan, Plan
boot()  # As the imports.
become_nobody()
os.makedirs("data/deep")
open("data/deep/file", "wb").close()
os.chmod("data/deep", 0o555)
os.makedirs("root/inputs")
shutil.copytree("data", "root/inputs/train.part")
completion_marks.put("root/staging")
plan = Plan("j", "e", "pytorch", 1, 1, "true", (), inputs=(InputPlan("train", "uri_folder", "file:data", "download"),))
InputStager(Enrolment("j", 1, 0, (), "s", "root", "checkpoints", plan), None, lambda _: None).stage()
assert os.listdir("root/inputs") == ["train"]
assert os.listdir("root/inputs/train/deep") == ["file"]
"""


def test_a_read_only_folder_that_was_copied_halfway_is_copied_anew(tmp_path: Path):
    run_as_nobody(AGAIN, tmp_path)


def a_tar(files: dict[str, str]) -> bytes:
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w") as archive:
        for name, text in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text.encode()))
    return written.getvalue()


CODE = a_tar({"train.py": "train()", "outputs/first.csv": "1,2", "outputs/log/begun": "0", "outputs/notes": "as sent"})
INPUT = a_tar({"x.csv": "3,4"})


class Server:
    """As much of a Link as is needed."""

    def __init__(self) -> None:
        self.has = {hashlib.sha256(data).hexdigest(): data for data in (CODE, INPUT)}
        self.asked: list[str] = []

    @contextlib.contextmanager
    def snapshot(self, digest: str) -> Generator[io.BytesIO]:
        self.asked.append(digest)
        yield io.BytesIO(self.has[digest])


def staging(folder: Path, server: Any) -> InputStager:
    (folder / "data").mkdir(exist_ok=True)
    (folder / "data" / "y").write_text("5,6")
    code, given = server.has
    inputs = (
        InputPlan("sent", "uri_folder", f"snapshot:{given}", "ro_mount"),
        InputPlan("copied", "uri_folder", f"file:{folder}/data", "download"),
    )
    plan = Plan("j", "e", "pytorch", 1, 1, "true", (), code=code, inputs=inputs)
    enrolment = Enrolment("j", 1, 0, (), "s", str(folder / "root"), str(folder / "checkpoints"), plan)
    return InputStager(enrolment, server, lambda _: None)


def lose_power(root: Path, *marks: str) -> None:
    """As ext4 leaves it: the names are there, and nothing of what was written within the last seconds."""
    for path in ("code/train.py", "inputs/sent/x.csv", "inputs/copied/y", "outputs/default/first.csv"):
        time = (root / path).stat().st_mtime_ns
        (root / path).write_text("")
        os.utime(root / path, ns=(time, time))
    for mark in ("staging", "staged"):
        (root / mark).unlink(missing_ok=True)
    for mark in marks:
        (root / mark).write_text("an earlier start of the machine")


def staging_clean(folder: Path, server: Any) -> InputStager:
    plan = Plan("j", "e", "pytorch", 1, 1, "true", (), code=next(iter(server.has)), clean_rounds=True)
    enrolment = Enrolment("j", 1, 0, (), "s", str(folder / "root"), str(folder / "checkpoints"), plan)
    return InputStager(enrolment, server, lambda _: None)


def names(folder: Path) -> list[str]:
    return sorted(one.name for one in folder.iterdir())


def leave(root: Path) -> None:
    """What a round leaves behind."""
    for name in ("code/made", "outputs/default/run", "outputs/mlflow-artifacts/r/model", "../checkpoints/step"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("of the round")
    (root / "code/train.py").write_text("changed")
    (root / "outputs/default/first.csv").write_text("changed")


@pytest.mark.parametrize("cut_off", [False, True])
def test_clean_round_begins_with_code_and_outputs_as_sent_and_with_checkpoints(tmp_path: Path, cut_off: bool):
    server, root = Server(), tmp_path / "root"
    staging_clean(tmp_path, server).stage(1)
    leave(root)
    staging_clean(tmp_path, server).stage(1)  # Another agent in the same round.
    assert (root / "code/made").exists()
    if cut_off:  # The agent is killed when it has taken the code away.
        (root / "code").rename(root / "gone")
    staging_clean(tmp_path, server).stage(2)
    assert names(root / "code") == ["outputs", "train.py"]
    assert (root / "code/train.py").read_text() == "train()"
    assert names(root / "code/outputs") == ["first.csv", "log", "notes"]
    assert (root / "outputs/default/first.csv").read_text() == "1,2"
    assert (root / "outputs/mlflow-artifacts/r/model").read_text() == "of the round"
    assert (tmp_path / "checkpoints/step").read_text() == "of the round"
    assert not (root / "left").exists()


def test_clean_round_is_prepared_again(tmp_path: Path):
    server, root = Server(), tmp_path / "root"
    staging_clean(tmp_path, server).stage(1)
    (root / marking.PREPARED).touch()
    staging_clean(tmp_path, server).stage(2)
    assert not (root / marking.PREPARED).exists()
    leave(root)
    staging_clean(tmp_path, server).stage(2)
    assert (root / "code/made").exists()


@pytest.mark.feature("D3")
def test_outputs_of_the_ranks_are_the_output_artifacts_where_it_stands_for_the_default_one(tmp_path: Path):
    plan = Plan("j", "e", "pytorch", 1, 1, "true", (), outputs=(OutputPlan("artifacts", "uri_folder", "rw_mount"),))
    root = tmp_path / "root"
    InputStager(Enrolment("j", 1, 0, (), "s", str(root), str(tmp_path / "kept"), plan), Server(), print).stage()
    (root / "code" / "outputs" / "model").write_text("weights")
    assert [one.name for one in (root / "outputs").iterdir()] == ["artifacts"]
    assert (root / "outputs" / "artifacts" / "model").read_text() == "weights"


@pytest.mark.parametrize("marks", [("staging", "staged"), ("staging",), ()])
def test_after_another_start_of_the_machine_code_and_inputs_are_brought_anew(tmp_path: Path, marks: tuple[str, ...]):
    server, root = Server(), tmp_path / "root"
    staging(tmp_path, server).stage()
    for name, text in (("log/epoch", "9"), ("notes", "by the job"), ("model", "weights")):
        (root / "code" / "outputs" / name).write_text(text)
    (tmp_path / "checkpoints" / "step").write_text("100")
    mounted = root / "inputs" / "mounted"
    for folder in (mounted, root / "mounts" / "mounted"):
        folder.mkdir(parents=True)
    (root / "prepared").touch()
    lose_power(root, *marks)
    staging(tmp_path, server).stage()
    assert (root / "code" / "train.py").read_text() == "train()"
    assert (root / "inputs" / "sent" / "x.csv").read_text() == "3,4"
    assert (root / "inputs" / "copied" / "y").read_text() == "5,6"
    kept = {name: (root / "code" / "outputs" / name).read_text() for name in ("first.csv", "log/begun", "log/epoch")}
    assert kept == {"first.csv": "1,2", "log/begun": "0", "log/epoch": "9"}
    assert (root / "outputs" / "default" / "notes").read_text() == "by the job"
    assert (root / "outputs" / "default" / "model").read_text() == "weights"
    assert (tmp_path / "checkpoints" / "step").read_text() == "100"
    assert mounted.is_dir(), "whoever mounts sees to it"
    assert not (root / "prepared").exists(), "what it made is gone"
    asked = len(server.asked)
    staging(tmp_path, server).stage()
    assert len(server.asked) == asked


def test_an_agent_that_follows_while_the_machine_stays_up_brings_nothing_again(tmp_path: Path):
    server, root = Server(), tmp_path / "root"
    staging(tmp_path, server).stage()
    assert len(server.asked) == 2
    (root / "code" / "own").touch()
    staging(tmp_path, server).stage()
    forget(str(root))  # Its mounts are gone, say.
    staging(tmp_path, server).stage()
    assert len(server.asked) == 2
    assert (root / "code" / "own").exists()


def test_mark_of_an_earlier_version_since_boot_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Its marks were empty, and it had one for all of the staging."""
    monkeypatch.setattr(time, "clock_gettime", lambda _: 3600.0)
    server, root = Server(), tmp_path / "root"
    staging(tmp_path, server).stage()
    (root / "staging").unlink()
    (root / "staged").write_text("")
    (root / "code" / "own").touch()
    staging(tmp_path, server).stage()
    forget(str(root))
    staging(tmp_path, server).stage()
    assert len(server.asked) == 2
    assert (root / "code" / "own").exists()


@pytest.mark.parametrize(
    ("age_s", "is_believed"),
    [(0.0, True), (3000.0, True), (3590.0, False), (3601.0, False), (86400.0, False), (-60.0, False)],
)
def test_an_empty_mark_counts_when_it_is_clearly_of_this_start_of_the_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, age_s: float, is_believed: bool
):
    monkeypatch.setattr(time, "clock_gettime", lambda _: 3600.0)
    mark = tmp_path / "staged"
    mark.touch()
    at = mark.stat().st_mtime - age_s
    os.utime(mark, (at, at))
    assert marking.is_put(str(mark)) == is_believed
    mark.write_text("an earlier start of the machine")
    assert not marking.is_put(str(mark))

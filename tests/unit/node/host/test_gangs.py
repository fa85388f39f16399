"""What is left of a gang on this machine, and its removal."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest

from drumbeat.node.host import gangs as module
from drumbeat.node.host.gangs import Gangs
from drumbeat.node.host.machine import TRANSIENT
from drumbeat.node.host.node_holder import own_folder
from tests.nobody import run_as_nobody

pytestmark = pytest.mark.feature("F6")

STOP = """
from pathlib import Path
from drumbeat.node.host.gangs import Gangs
become_nobody()
root = Path("j.1", "0", "root")
for folder in ("inputs/data/deep", "code/cache"):
    (root / folder).mkdir(parents=True)
    (root / folder / "file").touch()
    (root / folder).chmod(0o555)
    (root / folder).parent.chmod(0o500)
(root / "code" / "cache").chmod(0o000)
Gangs(Path(), leave_s=0.0).stop("j.1")
"""


def test_a_folder_that_the_job_has_made_read_only_is_removed(tmp_path: Path):
    run_as_nobody(STOP, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_what_is_mounted_in_a_gangs_folder_is_not_removed_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    ours = tmp_path / "j.1" / "0" / "root" / "code"
    ours.mkdir(parents=True)
    (ours / "theirs").touch()
    gangs = Gangs(tmp_path, leave_s=0.0)
    with monkeypatch.context() as patch:
        patch.setattr(module, "_has_mounts", lambda _: True)
        gangs.stop("j.1")
    assert [path.name for path in tmp_path.rglob("theirs")] == ["theirs"]
    gangs.tidy()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.feature("F5")
def test_a_folder_that_a_stopped_server_holds_is_not_waited_for_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(module, "LOCK_TIMEOUT_S", 0.05)
    gangs, held = Gangs(tmp_path), os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    fcntl.flock(held, fcntl.LOCK_EX)
    with pytest.raises(OSError, match="another server has held the folder") as raised:
        gangs.look("j.1", [])
    assert raised.value.errno in TRANSIENT
    os.close(held)
    assert gangs.look("j.1", []) == {}


def test_nodes_that_share_their_scratch_disk_have_a_folder_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    names = iter(("rack1", "rack2"))
    monkeypatch.setattr(os, "uname", lambda: os.uname_result(("Linux", next(names), "6", "1", "x86_64")))
    assert own_folder() != own_folder()

"""What control groups tell of the kernel's kills at their memory limits."""

from __future__ import annotations

from pathlib import Path

import pytest

from drumbeat.agent.keeper import memory

pytestmark = pytest.mark.feature("F1")

V1 = "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n"
V2 = "low 0\nhigh 0\nmax 31\noom 4\noom_kill 3\n"


def test_kills_are_counted_in_both_versions_of_control_groups(tmp_path: Path):
    for name, text in (("memory.oom_control", V1), ("memory.events", V2)):
        folder = tmp_path / name.partition(".")[2]
        folder.mkdir()
        (folder / name).write_text(text)
    folders = [str(tmp_path / name) for name in ("oom_control", "events", "none")]
    assert memory.kernel_kills(folders[:1]) == 2
    assert memory.kernel_kills(folders) == 5


def test_group_that_says_nothing_of_kills_has_none(tmp_path: Path):
    (tmp_path / "memory.oom_control").write_text("oom_kill_disable 0\nunder_oom 0\n")
    assert memory.kernel_kills([str(tmp_path)]) == 0
    assert memory.limit() >= 0

"""What control groups tell of the kernel's kills at their memory limits."""

from __future__ import annotations

from pathlib import Path

import pytest

from drumbeat.node.platform import machine_memory

pytestmark = pytest.mark.feature("F1")

V1 = "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n"
V2 = "low 0\nhigh 0\nmax 31\noom 4\noom_kill 3\n"


def test_kills_in_the_own_group_are_counted_in_both_versions_of_control_groups(tmp_path: Path):
    for name, text in (("memory.oom_control", V1), ("memory.events", V2)):
        folder = tmp_path / name.partition(".")[2]
        folder.mkdir()
        (folder / name).write_text(text)
    version_1, version_2 = str(tmp_path / "oom_control"), str(tmp_path / "events")
    assert machine_memory.kernel_kills([version_1]) == 2
    assert machine_memory.kernel_kills([version_2]) == 3


def test_kills_of_processes_of_others_in_the_groups_above_do_not_count(tmp_path: Path):
    own, above = tmp_path / "above" / "own", tmp_path / "above"
    own.mkdir(parents=True)
    (own / "memory.events").write_text("oom_kill 0\n")
    (above / "memory.events").write_text(V2)
    assert machine_memory.kernel_kills([str(own), str(above)]) == 0


def test_group_that_says_nothing_of_kills_has_none(tmp_path: Path):
    (tmp_path / "memory.oom_control").write_text("oom_kill_disable 0\nunder_oom 0\n")
    assert machine_memory.kernel_kills([str(tmp_path)]) == 0
    assert 0 < machine_memory.limit() <= machine_memory.left()[1]


def test_kill_is_seen_in_a_container_that_knows_its_group_by_the_hosts_name(tmp_path: Path):
    (tmp_path / "memory.oom_control").write_text("oom_kill_disable 0\nunder_oom 0\noom_kill 1\n")
    assert machine_memory.kernel_kills([f"{tmp_path}/kubepods/pod1/rank", f"{tmp_path}/kubepods", str(tmp_path)]) == 1

"""A machine says that it leaves: by a scheduled shutdown, by /run/nologin, by what its compute names."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from drumbeat.node.host import machine_notice, processes
from drumbeat.node.host.machine_notice import Notice, notice

pytestmark = pytest.mark.feature("C6")


def write(file: Path, text: str) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


def test_a_machine_without_a_notice_stays(tmp_path: Path):
    assert notice("", tmp_path) is None
    assert notice(f"{tmp_path}/notice", tmp_path) is None
    assert notice("exit 3", tmp_path) is None


def test_a_scheduled_shutdown_is_a_notice_with_its_time(tmp_path: Path):
    at = int((time.time() + 600) * 1e6)
    write(tmp_path / "run/systemd/shutdown/scheduled", f"USEC={at}\nWARN_WALL=1\nMODE=reboot\n")
    said = notice("", tmp_path)
    assert said is not None
    assert said.why == "a reboot is scheduled"
    assert said.in_s is not None
    assert 590 < said.in_s <= 600


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("System is going down.\nUnprivileged users may not log in.", Notice("System is going down.")),
        ("", Notice("users can no longer log in (/run/nologin)")),
        ("System is booting up. Unprivileged users are not permitted to log in yet.", None),
        ("This node is still booting.", None),
        ("The system is going down for reboot NOW!", Notice("The system is going down for reboot NOW!")),
        ("Node reboots for maintenance at 18:00", Notice("Node reboots for maintenance at 18:00")),
        ("Rebooting up to three times", Notice("Rebooting up to three times")),
    ],
)
def test_nologin_is_a_notice_unless_the_machine_starts(tmp_path: Path, text: str, said: Notice | None):
    write(tmp_path / "run/nologin", text)
    assert notice("", tmp_path) == said


def test_file_of_the_compute_is_a_notice_once_it_exists(tmp_path: Path):
    file = write(tmp_path / "spot", "\nreclaimed at 12:00\n")
    assert notice(str(file), tmp_path) == Notice("reclaimed at 12:00")


def test_command_of_the_compute_is_a_notice_once_it_succeeds(tmp_path: Path):
    file = tmp_path / "spot"
    command = f"test -e {file} && echo the spot market takes it"
    assert notice(command, tmp_path) is None
    write(file, "")
    assert notice(command, tmp_path) == Notice("the spot market takes it")


def test_command_of_the_compute_s_that_hangs_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(machine_notice, "COMMAND_TIMEOUT_S", 0.5)
    file = tmp_path / "pid"
    assert notice(f"sleep 600 & echo $! > {file}; wait", tmp_path) is None
    pid = int(file.read_text())
    deadline = time.monotonic() + 10
    while processes.is_alive(pid):
        assert time.monotonic() < deadline
        time.sleep(0.01)

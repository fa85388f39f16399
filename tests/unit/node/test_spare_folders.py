"""Folders of spare supervisors: who may take one, which is one too many, and how a dead one is cleared."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from drumbeat.node.host.machine import boot
from drumbeat.node.supervisor import listener, spare_folders
from drumbeat.node.supervisor.machine import SupervisorMachine


class Home(SupervisorMachine):
    """A machine whose spare supervisors are in a folder of the test."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.cleared: list[str] = []
        self.locks: list[int] = []

    def spares_home(self) -> str:
        return str(self.folder / "spares")

    def end_rest(self, folder: str) -> list[int]:
        self.cleared.append(folder)
        return []

    def spare(self, name: str, since: float, *, is_alive: bool = True) -> Path:
        """A spare supervisor's folder."""
        path = self.folder / "spares" / name
        path.mkdir(parents=True)
        spare = {"pid": 1, "interpreters": [], "commands": [], "since": since}
        (path / "spare.json").write_text(json.dumps(spare))
        lock = listener.hold_folder(str(path))
        assert lock is not None
        if is_alive:
            self.locks.append(lock)
        else:
            os.close(lock)
        return path


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    machine = Home(tmp_path)
    yield machine
    for lock in machine.locks:
        os.close(lock)


def test_agent_leaves_a_spare_supervisor_where_its_own_supervisor_begins(home: Home, tmp_path: Path) -> None:
    path, own = home.spare("key-1", 1.0), tmp_path / "keeper"
    own.mkdir()
    lock = listener.hold_folder(str(own))
    assert lock is not None
    assert not spare_folders.claim("key", str(own), home)
    assert (path / "spare.json").exists()
    os.close(lock)
    assert spare_folders.claim("key", str(own), home)
    assert (own / "spare.json").exists()


def test_dead_spare_supervisor_is_moved_away_before_it_is_cleared(home: Home, tmp_path: Path) -> None:
    path = home.spare("key-1", 1.0, is_alive=False)
    assert not spare_folders.claim("key", str(tmp_path / "keeper"), home)
    assert len(home.cleared) == 1
    assert Path(home.cleared[0]).parent == path.parent
    assert home.cleared[0] != str(path)
    assert not list(path.parent.iterdir())


def test_oldest_of_five_spare_supervisors_is_surplus(home: Home) -> None:
    paths = [home.spare(f"key-{number}", float(9 - number)) for number in range(5)]
    assert [spare_folders.is_surplus(str(path), home) for path in paths] == [False, False, False, False, True]
    home.spare("key-dead", 99.0, is_alive=False)
    assert not spare_folders.is_surplus(str(paths[3]), home)


def test_spare_supervisor_of_another_machine_with_this_home_is_not_taken_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lock is seen through NFS, the socket answers on its own machine only."""
    monkeypatch.setenv("DRUMBEAT_CACHE", str(tmp_path))
    homes = {"": False, "another-boot": False, boot(): True}
    for number, (name, is_own) in enumerate(homes.items()):
        path = tmp_path / "spares" / name / "key-1"
        path.mkdir(parents=True)
        lock = listener.hold_folder(str(path))
        assert lock is not None
        assert spare_folders.claim("key", str(tmp_path / f"supervisor-{number}")) is is_own
        assert path.exists() is not is_own
        os.close(lock)


def test_remains_of_earlier_boots_are_removed_when_they_are_old(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DRUMBEAT_CACHE", str(tmp_path))
    old, new = tmp_path / "spares" / "old", tmp_path / "spares" / "new"
    for folder in (old, new, Path(SupervisorMachine().spares_home())):
        (folder / "key-1").mkdir(parents=True)
    os.utime(old, (0, 0))
    spare_folders.new_folder("key")
    assert (old.exists(), new.exists()) == (False, True)

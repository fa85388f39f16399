"""Whose pins count, and who has a lock: where machines share a folder, and where one was started anew."""

from __future__ import annotations

import json
import os
import shutil
import socket
import time
from pathlib import Path

import pytest

from drumbeat.model.input_listing import ListedFile
from drumbeat.node.host.machine import boot
from drumbeat.node.inputs.cache.eviction import CacheSpace
from drumbeat.node.inputs.cache.files import Files, name_of
from drumbeat.node.platform import locks
from drumbeat.node.platform import pins as pinning
from drumbeat.node.platform.pins import SILENT_S, PinRenewal, Pins, renew

WEEK = 7 * 86400.0
HERE = os.uname().nodename


def write(folder: Path, text: str, age_s: float = 0.0) -> None:
    folder.mkdir(exist_ok=True)
    (folder / "pin").write_text(text)
    at = time.time() - age_s
    os.utime(folder / "pin", (at, at))


@pytest.mark.feature("D5", "E1")
def test_a_pin_counts_as_long_as_its_attempts_folder_is_there(tmp_path: Path):
    root = tmp_path / "attempt \udcff"
    root.mkdir()
    pins = Pins(str(tmp_path / "pins"), WEEK)
    pins.put(str(root), {"job": "old"})
    pins.put(str(root), {"job": "new"})
    [found] = pins.read(time.time() + 10 * WEEK)
    assert (found["root"], found["job"]) == (str(root), "new")
    shutil.rmtree(root)
    assert pins.read(time.time()) == []
    assert list((tmp_path / "pins").iterdir()) == []


@pytest.mark.feature("D5", "E1")
@pytest.mark.parametrize(
    ("host", "started", "age_s", "counts"),
    [
        ("another", "another", WEEK / 2, True),  # Of a machine whose folders can't be seen from here.
        ("another", "another", WEEK * 2, False),
        (HERE, "another", 0.0, False),  # From before this machine's last start.
        ("another", boot(), 0.0, False),  # Of a node with a name of its own on this machine.
    ],
)
def test_a_pin_of_another_machine_is_believed_for_a_while(
    tmp_path: Path, host: str, started: str, age_s: float, counts: bool
):
    write(tmp_path / "pins", json.dumps({"root": "/nowhere/there", "host": host, "boot": started}), age_s)
    found = Pins(str(tmp_path / "pins"), WEEK).read(time.time())
    assert bool(found) is counts
    assert (tmp_path / "pins" / "pin").exists() is counts


@pytest.mark.feature("D5", "E1")
@pytest.mark.parametrize("text", ["", "{", '{"root": "/nowh'])
def test_half_a_pin_is_none(tmp_path: Path, text: str):
    write(tmp_path / "pins", text)
    assert Pins(str(tmp_path / "pins"), WEEK).read(time.time()) == []


class Pod:
    """A node that shares a cache with others, and has a folder of its own at the path where they have theirs."""

    def __init__(self, name: str, folder: Path, patch: pytest.MonkeyPatch, boot: str = "one machine") -> None:
        self.name, self.folder, self.boot, self._patch = name, folder, boot, patch
        (folder / f"work of {name}" / "root").mkdir(parents=True)

    def enter(self) -> str:
        """What runs from now on runs in this pod; gives the path of its attempt's folder, the same in all pods."""
        self._patch.setattr(socket, "gethostname", lambda: self.name)
        self._patch.setattr(pinning, "boot", lambda: self.boot)
        work = self.folder / "work"
        work.unlink(missing_ok=True)
        work.symlink_to(f"work of {self.name}")
        return str(work / "root")


@pytest.fixture(params=["one machine", "another machine"])
def pods(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Pod, Pod]:
    return Pod("first", tmp_path, monkeypatch), Pod("second", tmp_path, monkeypatch, str(request.param))


@pytest.mark.feature("D5")
def test_pod_leaves_files_in_a_shared_cache_that_another_pod_uses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pods: tuple[Pod, Pod]
):
    """Their folders have the same path; an input on another disk is links, which must not lead nowhere."""
    monkeypatch.setenv("DRUMBEAT_CACHE_BYTES", "10")
    files = Files(str(tmp_path / "cache"))
    used, wanted = (ListedFile(letter, 6, letter * 64) for letter in "ab")
    put_whole(files, used)
    assert CacheSpace(files).take("first", pods[0].enter(), [used]) == ""
    said = CacheSpace(files).take("second", pods[1].enter(), [wanted])
    assert said == "the cache is full: 6 bytes of it are in use by first"
    assert files.has(name_of(used), 6)
    assert CacheSpace(files).take("first", pods[0].enter(), [used]) == "", "its own pin doesn't stand in its way"


@pytest.mark.feature("D5")
def test_pin_of_another_pod_counts_while_it_is_renewed(tmp_path: Path, pods: tuple[Pod, Pod]):
    first, second = pods
    pins, root = Pins(str(tmp_path / "pins"), WEEK), first.enter()
    pins.put(root, {"job": "first"})
    [file] = (tmp_path / "pins").iterdir()
    os.utime(file, (0, 0))
    renew(root)
    second.enter()
    now = time.time()
    assert [pin["job"] for pin in pins.read(now + SILENT_S / 2)] == ["first"]
    assert pins.read(now + 2 * SILENT_S) == []


@pytest.mark.feature("D5")
def test_pins_of_an_attempt_end_with_its_agent(tmp_path: Path, pods: tuple[Pod, Pod]):
    first, second = pods
    pins, root = [Pins(str(tmp_path / name), WEEK) for name in ("data", "environment")], first.enter()
    for each in pins:
        each.put(root, {})
    renewal = PinRenewal(root)
    renewal.begin()
    renewal.end()
    second.enter()
    assert [each.read(time.time()) for each in pins] == [[], []]


@pytest.mark.feature("D5")
def test_pin_ends_at_once_where_its_folder_was_seen_to_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A node of a netlab has a name of its own, and sees the same folders."""
    root = tmp_path / "j.1" / "0" / "root"
    root.mkdir(parents=True)
    pins = Pins(str(tmp_path / "pins"), WEEK)
    pins.put(str(root), {})
    monkeypatch.setattr(socket, "gethostname", lambda: "another")
    assert len(pins.read(time.time())) == 1
    shutil.rmtree(tmp_path / "j.1")
    assert pins.read(time.time()) == []


@pytest.mark.feature("D5")
def test_pin_that_is_put_for_a_folder_that_has_gone_does_not_count(tmp_path: Path):
    pins = Pins(str(tmp_path / "pins"), WEEK)
    pins.put(str(tmp_path / "gone" / "root"), {})
    assert pins.read(time.time()) == []


@pytest.mark.feature("D5")
def test_pin_that_is_being_written_is_not_removed(tmp_path: Path):
    write(tmp_path / "pins", "")
    part = (tmp_path / "pins" / "pin").rename(tmp_path / "pins" / "pin.new")
    pins = Pins(str(tmp_path / "pins"), WEEK)
    assert pins.read(time.time()) == []
    assert part.exists()
    assert pins.read(time.time() + 2 * SILENT_S) == []
    assert not part.exists()


def put_whole(files: Files, file: ListedFile) -> None:
    name = name_of(file)
    part = files.part(name)
    Path(part).write_bytes(b"x" * file.size)
    descriptor = os.open(part, os.O_RDWR)
    files.take_in(descriptor, part, name)
    os.close(descriptor)


@pytest.mark.feature("D5")
def test_a_lock_of_a_file_that_was_replaced_is_not_the_files(tmp_path: Path):
    path = str(tmp_path / "lock")
    assert locks.take(path, create=False) is None
    assert not locks.is_held(path)
    first = locks.take(path)
    assert first is not None
    assert locks.take(path) is None
    assert locks.is_held(path)
    os.unlink(path)  # noqa: PTH108 (as the holder of a part does)
    second = locks.take(path)
    assert second is not None
    os.close(first)
    assert locks.is_held(path)
    os.close(second)
    assert not locks.is_held(path)

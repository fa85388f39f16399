"""Whose pins count, and who has a lock: where machines share a folder, and where one was started anew."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from drumbeat.agent.ground import locks
from drumbeat.agent.ground.pins import Pins
from drumbeat.host.machine import boot

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
    root.rmdir()
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


@pytest.mark.feature("D5", "F1")
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

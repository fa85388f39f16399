"""A cache in a folder that several machines share: what another one has just put there isn't taken from it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from drumbeat.model.input_listing import ListedFile
from drumbeat.node.inputs.cache import files as cached
from drumbeat.node.inputs.cache.eviction import CacheSpace
from drumbeat.node.inputs.cache.files import Files, name_of
from drumbeat.node.inputs.cache.partial_file import read_piece

pytestmark = pytest.mark.feature("D5")
FILE = ListedFile("train.bin", 4, "a" * 64)
NAME = name_of(FILE)


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Files:
    """With a file in it that another machine put there and hasn't on its disk for certain."""
    files = Files(str(tmp_path / "cache"))
    with monkeypatch.context() as there:
        there.setattr(cached, "_fresh_ns", lambda: 12345)
        put(files)
    assert not files.has(NAME, FILE.size)
    return files


def put(files: Files) -> None:
    part = files.part(NAME)
    Path(part).write_bytes(b"data")
    descriptor = os.open(part, os.O_RDWR)
    files.take_in(descriptor, part, NAME)
    os.close(descriptor)


def test_what_another_machine_has_in_use_stays_until_it_is_put_there_anew(files: Files, tmp_path: Path):
    pin = {"job": "j", "root": "/far/j.1/0/root", "host": "elsewhere", "boot": "its own", "files": {NAME: FILE.size}}
    Path(files.folder, "pins", "far").write_text(json.dumps(pin))
    assert CacheSpace(files).take("j", str(tmp_path), [FILE]) == ""
    assert Path(files.place(NAME)).read_bytes() == b"data"
    put(files)
    assert files.has(NAME, FILE.size)


def test_what_nobody_uses_makes_way(files: Files, tmp_path: Path):
    assert CacheSpace(files).take("j", str(tmp_path), [FILE]) == ""
    assert not Path(files.place(NAME)).exists()


def test_file_that_was_modified_in_the_cache_is_not_passed_on(tmp_path: Path):
    """Some stores know no sum of a file's content, by which the next node would notice it."""
    files = Files(str(tmp_path / "cache"))
    put(files)
    assert read_piece(files, NAME, 1, 2) == b"at"
    place = Path(files.place(NAME))
    place.chmod(0o600)
    place.write_bytes(b"evil")
    assert read_piece(files, NAME, 1, 2) is None

"""A part that can't be begun leaves nothing on a full disk and nothing open, and what came before is kept otherwise."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from drumbeat.model.input_listing import ListedFile
from drumbeat.node.inputs.cache.files import Files
from drumbeat.node.inputs.cache.partial_file import PIECE, Part, claim

pytestmark = pytest.mark.feature("D5")

FILE = ListedFile("big", 2 * PIECE + 1, "a" * 64)


def refuse(monkeypatch: pytest.MonkeyPatch, call: str, number: int) -> None:
    def refused(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, call, refused)


def opened() -> list[Path]:
    return [*Path("/proc/self/fd").iterdir()]


@pytest.mark.feature("F10")
def test_a_disk_that_is_full_when_a_part_is_begun_keeps_nothing_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    files, before = Files(str(tmp_path)), opened()
    refuse(monkeypatch, "pwrite", errno.ENOSPC)
    with pytest.raises(OSError, match="No space left"):
        claim(files, FILE)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
    assert len(opened()) == len(before)


def test_another_error_leaves_what_was_fetched_and_lets_the_next_one_have_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    files = Files(str(tmp_path))
    part = claim(files, FILE)
    assert isinstance(part, Part)
    part.write(0, b"x" * PIECE)
    part.have(0)
    part.close()
    with monkeypatch.context() as broken:
        refuse(broken, "pread", errno.EIO)
        with pytest.raises(OSError, match="Input/output"):
            claim(files, FILE)
    again = claim(files, FILE)
    assert isinstance(again, Part)
    assert again.missing() == [1, 2]
    again.close()

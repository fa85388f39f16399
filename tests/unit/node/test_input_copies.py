"""Inputs that a node copies from a folder of its own, and what can't be copied."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any, cast

import pytest

from drumbeat.model.agent import Enrolment
from drumbeat.model.errors import DrumbeatError, RefusedError, StorageError
from drumbeat.model.plan import InputPlan, Plan
from drumbeat.node.inputs.input_stager import InputStager

pytestmark = pytest.mark.feature("D2")


def stage(folder: Path) -> DrumbeatError | None:
    """Copies the folder `data`; gives what it is refused with."""
    (folder / "data/deep").mkdir(parents=True, exist_ok=True)
    (folder / "data/deep/a").write_text("1")
    planned = InputPlan("train", "uri_folder", f"file:{folder}/data", "download")
    plan = Plan("j", "e", "pytorch", 1, 1, "true", (), inputs=(planned,))
    enrolment = Enrolment("j", 1, 0, (), "s", str(folder / "root"), str(folder / "checkpoints"), plan)
    try:
        InputStager(enrolment, cast("Any", None), lambda _: None).stage()
    except DrumbeatError as error:
        return error
    return None


def test_pipe_in_an_input_is_named(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    os.mkfifo(tmp_path / "data/pipe")
    error = stage(tmp_path)
    assert isinstance(error, RefusedError)
    assert (error.what, error.where) == (
        "input train has something that is neither a file nor a folder", f"{tmp_path}/data/pipe",
    )  # fmt: skip


def test_link_to_nothing_in_an_input_is_named(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data/link").symlink_to("gone")
    error = stage(tmp_path)
    assert isinstance(error, RefusedError)
    assert (error.what, error.where) == (
        "input train has a link to gone, and nothing is there", f"{tmp_path}/data/link",
    )  # fmt: skip
    (tmp_path / "data/gone").write_text("2")
    assert stage(tmp_path) is None
    assert (tmp_path / "root/inputs/train/link").read_text() == "2"


def test_full_disk_ends_the_copy_at_the_first_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def fill(source: str, _target: str) -> None:
        asked.append(source)
        raise OSError(28, "No space left on device", source)

    (tmp_path / "data").mkdir()
    (tmp_path / "data/b").write_text("2")
    monkeypatch.setattr(shutil, "copy2", fill)
    error = stage(tmp_path)
    assert isinstance(error, StorageError)
    assert error.what == "input train can't be copied: No space left on device"
    assert [error.where] == asked

"""An install for the tests is run again after a failure."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tools import installer
from tools.installer import run_installer

TRIES = """
import pathlib, sys
tries = pathlib.Path(sys.argv[1])
tries.write_text(tries.read_text() + "x" if tries.exists() else "x")
sys.exit(len(tries.read_text()) < int(sys.argv[2]))
"""


@pytest.fixture(autouse=True)
def pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installer, "PAUSES_S", (0, 0, 0))


def command(tries: Path, succeeds_at: int) -> list[str]:
    return [sys.executable, "-c", TRIES, str(tries), str(succeeds_at)]


def test_install_is_tried_until_it_succeeds(tmp_path: Path):
    assert run_installer(command(tmp_path / "tries", 3)).returncode == 0
    assert (tmp_path / "tries").read_text() == "xxx"


def test_install_that_fails_four_times_is_not_tried_a_fifth_time(tmp_path: Path):
    wanted = command(tmp_path / "tries", 9)
    assert [run_installer(wanted).returncode for _ in range(2)] == [1, 1]
    assert (tmp_path / "tries").read_text() == "xxxx"

"""A home is told from a copy of it, whose unfinished jobs are another server's."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from drumbeat.model.errors import RefusedError
from drumbeat.server.home_copy import PLACE, HomePlace, require_original

NOTED = HomePlace("/var/drumbeat", 7, "m1")


@pytest.mark.parametrize(
    ("here", "inode_there", "is_original"),
    [
        (NOTED, 7, True),
        (replace(NOTED, path="/srv/drumbeat"), 0, True),  # Renamed.
        (replace(NOTED, machine="m2"), 7, True),  # Seen by another machine over a network file system.
        (replace(NOTED, inode=8), 8, True),  # Put back into its place.
        (replace(NOTED, path="/mnt/drumbeat", inode=8), 0, True),  # Moved to another disk.
        (replace(NOTED, path="/mnt/drumbeat", inode=8), 7, False),
        (replace(NOTED, path="/mnt/drumbeat", inode=8, machine="m2"), 0, False),
        (replace(NOTED, inode=8, machine="m2"), 8, False),
    ],
)
def test_home_is_the_original_if_its_folder_or_place_matches_the_note(
    here: HomePlace, inode_there: int, is_original: bool
):
    assert here.is_original(NOTED, lambda _: inode_there) == is_original


def test_copy_with_unfinished_jobs_is_refused_without_restore(tmp_path: Path):
    home, copy = tmp_path / "home", tmp_path / "copy"
    home.mkdir()
    require_original(home, lambda: ["cifar-1"])
    shutil.copytree(home, copy)
    with pytest.raises(RefusedError) as caught:
        require_original(copy, lambda: ["cifar-1", "cifar-2"])
    assert f"a copy of {home}, and unfinished jobs are those of the server there: cifar-1 and cifar-2" in str(
        caught.value
    )
    assert f"rm {copy}/{PLACE}" in caught.value.fix
    (copy / PLACE).unlink()
    require_original(copy, lambda: ["cifar-1"])
    assert json.loads((copy / PLACE).read_text())["path"] == str(copy)


def test_copy_without_unfinished_jobs_becomes_a_home_of_its_own(tmp_path: Path):
    home, copy = tmp_path / "home", tmp_path / "copy"
    home.mkdir()
    require_original(home, list)
    shutil.copytree(home, copy)
    require_original(copy, list)
    assert json.loads((copy / PLACE).read_text())["path"] == str(copy)

"""What half a file is called: short enough for a disk, and no other file's."""

from pathlib import Path

import pytest

from drumbeat.client.partial_file_names import clear, partial_path

VERSION = "0123456789ab"


@pytest.mark.parametrize("letter", ["x", "é", "数", "\udcff"])
def test_a_partials_name_fits_a_disk_whatever_the_letters(letter: str):
    longest = letter * (255 // len(letter.encode("utf-8", "surrogateescape")))
    assert len(partial_path(Path(longest), VERSION).name.encode("utf-8", "surrogateescape")) <= 255


def test_files_that_begin_the_same_have_partials_of_their_own():
    names = [
        "a" * 230,
        "a" * 231,
        "a" * 200,
        "a" * 201,
        "a\udcff",
        "a",
        "a." + VERSION,
        "数" * 80 + "甲",
        "数" * 80 + "乙",
    ]
    assert len({partial_path(Path(name), VERSION) for name in names}) == len(names)


def test_a_partial_is_found_again_by_name_and_version():
    assert partial_path(Path("there/log"), VERSION) == Path(f"there/.log.{VERSION}.part")


def test_partials_of_whole_files_go_and_what_only_looks_like_one_stays(tmp_path: Path):
    log, listed = tmp_path / "log", tmp_path / f".log.{VERSION}.part"
    long = [tmp_path / ("a" * 230), tmp_path / ("a" * 231)]
    stays = [
        log,
        listed,
        long[0],
        partial_path(long[1], VERSION),
        tmp_path / f".other.{VERSION}.part",
        tmp_path / ".log.part",
    ]
    goes = [partial_path(log, "ba9876543210"), partial_path(long[0], VERSION)]
    for place in (*stays, *goes):
        place.touch()
    clear([log, listed, long[0], tmp_path / "none" / "there"])
    assert sorted(tmp_path.iterdir()) == sorted(stays)

import re
from pathlib import PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drumbeat.model.errors import ForbiddenError
from drumbeat.model.logs import LogName
from drumbeat.server.home_folder.paths import inside, log_at, split_path

pytestmark = pytest.mark.feature("X5")

texts = st.text(st.characters() | st.sampled_from("/.\0\\~$% "), max_size=60)


@given(texts)
def test_whatever_is_let_through_stays_inside(path):
    try:
        parts = split_path(path)
    except ForbiddenError:
        return
    assert "/".join(parts) == path
    joined = PurePosixPath("/root/folder").joinpath(*parts)
    assert joined.parts == ("/", "root", "folder", *parts)
    assert not {"", ".", "..", "/"} & set(parts)


@pytest.mark.parametrize("path", ["../\udcff", "a\nb/../c", "\x1b[31m/..", "ü/" * 5000, "..\u2028"])
def test_a_refusal_can_be_printed_anywhere(path):
    with pytest.raises(ForbiddenError) as refused:
        split_path(path + "/..")
    assert str(refused.value).replace("…", "").isascii()
    assert str(refused.value).isprintable()
    assert len(str(refused.value)) < 400


@given(*[st.integers(0, 10**9 - 1)] * 4)
def test_a_log_is_found_by_its_name(attempt, round_, node, rank):
    assert log_at(LogName(attempt, round_, node, rank).path) == (attempt, round_, node, rank)


@given(st.from_regex(re.compile(r"logs/[^/]{1,4}\.[^/]{1,4}/[^/]{1,4}/[^/]{1,4}\.log"), fullmatch=True) | texts)
def test_each_log_has_one_name(path):
    try:
        place = log_at(path)
    except ForbiddenError:
        return
    assert place.path == path


def test_only_links_that_leave_the_folder_are_refused(tmp_path):
    folder, outside = tmp_path / "folder", tmp_path / "folder-outside"
    for one in (folder / "real", outside):
        one.mkdir(parents=True)
    (folder / "away").symlink_to(outside)
    (folder / "loose").symlink_to(outside / "nothing yet")
    (folder / "here").symlink_to(folder / "real")
    assert inside(folder, "here/x") == folder / "here" / "x"
    for path in ("away", "away/x", "loose", "here/../../x"):
        with pytest.raises(ForbiddenError):
            inside(folder, path)


def test_a_folder_behind_a_link_is_as_good_as_any(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert inside(tmp_path / "link", "a/b") == tmp_path / "link" / "a" / "b"

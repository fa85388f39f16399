"""What tells that a folder is still what it was: changes anywhere below it, and below its links."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from drumbeat.server.pipelines import earlier_results
from tests.nobody import run_as_nobody

pytestmark = pytest.mark.feature("P1")


def content_key(place: str) -> str:
    return earlier_results.content_key(place, lambda _place: True)


@pytest.fixture
def digits(tmp_path: Path) -> Path:
    folder = tmp_path / "digits"
    (folder / "small").mkdir(parents=True)
    (folder / "small" / "one").write_text("1")
    return folder


def test_unchanged_place_has_the_same_key(digits: Path):
    assert content_key(str(digits)) == content_key(str(digits))
    assert content_key(str(digits / "small" / "one")) == content_key(str(digits / "small" / "one"))


def test_changed_time_name_or_number_of_files_changes_the_key(digits: Path):
    keys = [content_key(str(digits))]
    os.utime(digits / "small" / "one", (0, 0))
    keys.append(content_key(str(digits)))
    (digits / "small" / "one").rename(digits / "small" / "two")
    keys.append(content_key(str(digits)))
    (digits / "large").mkdir()
    keys.append(content_key(str(digits)))
    assert len(set(keys)) == 4


def test_folder_without_files_is_not_every_such_folder(tmp_path: Path):
    places = [tmp_path / "a", tmp_path / "b"]
    for place in places:
        place.mkdir()
    assert len({content_key(str(place)) for place in places}) == 2


def test_absent_place_and_link_to_nothing_are_errors(digits: Path):
    with pytest.raises(FileNotFoundError):
        content_key(str(digits / "large"))
    (digits / "large").symlink_to("nothing")
    with pytest.raises(FileNotFoundError):
        content_key(str(digits))


def test_links_around_to_folders_above_are_followed_once(digits: Path, tmp_path: Path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (digits / "small" / "around").symlink_to(digits)
    (digits / "large").symlink_to(elsewhere)
    (elsewhere / "back").symlink_to(digits / "large")
    before = content_key(str(digits))
    (elsewhere / "two").write_text("2")
    assert content_key(str(digits)) != before


def test_link_to_a_folder_beside_it_differs_from_a_link_to_another(digits: Path):
    (digits / "large").mkdir()
    (digits / "latest").symlink_to("small")
    before = content_key(str(digits))
    (digits / "latest").unlink()
    (digits / "latest").symlink_to("large")
    assert content_key(str(digits)) != before


@pytest.mark.parametrize("link", ["", "latest"], ids=["place_itself", "link_in_it"])
@pytest.mark.parametrize("name", ["", "one"], ids=["folder", "file"])
def test_link_that_leads_elsewhere_changes_the_key(tmp_path: Path, link: str, name: str):
    place = tmp_path / "digits"
    at = place / link
    at.parent.mkdir(exist_ok=True)
    keys: list[str] = []
    for version in ("v1", "v2"):
        folder = tmp_path / version
        folder.mkdir()
        (folder / "one").write_text(version)
        os.utime(folder / "one", (0, 0))  # As an archive's files have it that were packed reproducibly.
        at.unlink(missing_ok=True)
        at.symlink_to(folder / name)
        keys.append(content_key(str(place)))
    assert keys[0] != keys[1]


@pytest.mark.parametrize("name", ["", "one"], ids=["folder", "file"])
def test_link_to_what_nodes_do_not_have_is_an_error(digits: Path, tmp_path: Path, name: str):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "one").write_text("1")
    (digits / "more").symlink_to(elsewhere / name)
    with pytest.raises(FileNotFoundError, match="nodes don't see the server's files there"):
        earlier_results.content_key(str(digits), lambda place: not place.startswith(str(elsewhere)))


def test_file_whose_name_is_no_utf_8_has_a_key(digits: Path):
    before = content_key(str(digits))
    (digits / os.fsdecode(b"\xff")).write_text("x")
    assert content_key(str(digits)) != before


def test_unreadable_folder_is_an_error(digits: Path, tmp_path: Path):
    (digits / "small").chmod(0)
    script = (
        "from drumbeat.server.pipelines.earlier_results import content_key\n"
        "become_nobody()\n"
        "try:\n"
        "    content_key('digits', bool)\n"
        "except PermissionError:\n"
        "    raise SystemExit(0)\n"
        "raise SystemExit('it has a key')\n"
    )
    try:
        run_as_nobody(script, tmp_path)
    finally:
        (digits / "small").chmod(0o755)

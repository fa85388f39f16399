"""The server's home folder."""

from pathlib import Path

import pytest

from drumbeat.model.errors import RefusedError
from drumbeat.server.home import LONGEST, check_length, default_home, shared_folder


def test_a_home_may_begin_with_a_tilde():
    assert default_home({"DRUMBEAT_HOME": "~/x"}) == Path("~/x").expanduser()
    assert shared_folder(Path("/h"), {"DRUMBEAT_SHARED": "~/y"}) == Path("~/y").expanduser()


def test_a_home_whose_database_could_not_be_opened_is_refused_in_words():
    check_length(Path("/" + "x" * (LONGEST - 1)))
    with pytest.raises(RefusedError, match="path of the home folder is too long: 481 bytes; the maximum is 480"):
        check_length(Path("/" + "x" * LONGEST))

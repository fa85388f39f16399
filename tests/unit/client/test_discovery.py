"""The server of a home is found by the file that it writes there."""

import json
import os
import shutil
from pathlib import Path

from drumbeat.client.discovery import ServerLocation, find, here
from drumbeat.model.errors import UnauthorizedError


def announce(folder: Path, **more: object) -> None:
    folder.mkdir()
    address = {"url": "http://127.0.0.1:1", "host": here().host, "boot_id": here().boot_id, "pid": os.getpid(), **more}
    (folder / "server.json").write_text(json.dumps(address))


def test_server_of_the_original_is_not_found_in_a_copy_of_its_home(tmp_path: Path):
    home, copy = tmp_path / "home", tmp_path / "copy"
    announce(home, home=str(home))
    shutil.copytree(home, copy)
    assert find(home)
    assert find(copy) is None


def test_server_is_found_in_a_renamed_home_and_where_it_noted_none(tmp_path: Path):
    announce(tmp_path / "before", home=str(tmp_path / "before"))
    assert find((tmp_path / "before").rename(tmp_path / "after"))
    announce(tmp_path / "old")
    assert find(tmp_path / "old")


def test_refusal_of_the_token_of_the_home_by_a_named_server_says_that_none_was_set(tmp_path: Path):
    error = ServerLocation(tmp_path, "http://there:1").refusal(UnauthorizedError("that token is wrong, or was removed"))
    assert error.what.startswith("DRUMBEAT_TOKEN isn't set")
    assert str(tmp_path / "token") in error.what
    assert error.where == "http://there:1"


def test_refusal_of_a_token_that_was_set_says_which_variable_takes_another(tmp_path: Path):
    error = ServerLocation(tmp_path, "http://there:1", "mine").refusal(
        UnauthorizedError("that token is wrong, or was removed")
    )
    assert error.what == "that token is wrong, or was removed"
    assert error.fix.startswith("Sign in again: drumbeat login http://there:1, or set DRUMBEAT_TOKEN to your token")

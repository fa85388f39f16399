"""The socket in a server's home: paths of any length, one server after the other, and whose the other end is."""

import os
import socket
from pathlib import Path

import pytest

from drumbeat.model import home_socket


@pytest.mark.parametrize("length", [1, 200])
def test_socket_in_a_folder_of_any_length_connects_both_ends(tmp_path: Path, length: int):
    home = tmp_path / ("d" * length)
    home.mkdir()
    path = home_socket.socket_path(home_socket.address_in(home))
    with home_socket.listen(path) as listener, home_socket.connect(path, 5.0) as caller, listener.accept()[0] as called:
        called.sendall(b"word")
        assert caller.recv(9) == b"word"
        assert (home_socket.peer(caller), home_socket.peer(called)) == (os.geteuid(), os.geteuid())
        assert Path(path).stat().st_mode & 0o777 == 0o600
        assert [one.name for one in home.iterdir()] == [home_socket.NAME]


def test_socket_of_a_server_that_is_gone_refuses_and_the_next_server_takes_its_place(tmp_path: Path):
    path = str(tmp_path / home_socket.NAME)
    home_socket.listen(path).close()
    with pytest.raises(ConnectionRefusedError):
        home_socket.connect(path, 5.0)
    with home_socket.listen(path), home_socket.connect(path, 5.0):
        pass


def test_connecting_to_a_full_queue_ends_with_its_time_limit(tmp_path: Path):
    path = str(tmp_path / "full.sock")
    with socket.socket(socket.AF_UNIX) as deaf:
        deaf.bind(path)
        deaf.listen(0)
        with home_socket.connect(path, 5.0), pytest.raises(BlockingIOError):
            home_socket.connect(path, 0.05)


@pytest.mark.parametrize("address", ["http://127.0.0.1:1", "https://unix:1", "/home/server.sock", ""])
def test_address_of_another_kind_has_no_path(address: str):
    assert home_socket.socket_path(address) == ""

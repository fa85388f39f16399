"""Whose program listens at a port."""

import socket

import pytest

from drumbeat.node.platform.port_owners import require_own, users_in

TABLE = """  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 100 1 0 100 0 0 10 0
   1: 00000000:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 101 1 0 100 0 0 10 0
   2: 0100007F:1F90 0100007F:D2F0 01 00000000:00000000 00:00000000 00000000  1001        0 102 1 0 100 0 0 10 0
   3: 0100007F:1F91 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1002        0 103 1 0 100 0 0 10 0
"""


@pytest.mark.parametrize(("port", "users"), [(8080, {0, 1000}), (8081, {1002}), (80, set())])
def test_users_are_those_that_listen_at_the_port_not_those_connected(port: int, users: set[int]):
    assert users_in(TABLE, port) == users


def test_port_of_this_user_is_its_own():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        require_own(listener.getsockname()[1])

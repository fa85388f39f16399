"""While a server is down, another Unix user takes its place: nobody tells that user anything, and nobody obeys."""

from __future__ import annotations

import json
import os
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from drumbeat import Client
from drumbeat.model import home_socket
from drumbeat.model.agent import Enrolment
from drumbeat.model.errors import DrumbeatError, UnreachableError
from drumbeat.model.plan import Plan
from drumbeat.model.states import State
from drumbeat.node.platform.server_link import ServerLink
from tests.attacks.strangers import STRANGER, needs_stranger, stranger
from tests.attacks.targets import start_job
from tests.real.house import House, a_house, until

# Takes each port of the list and, where a folder lets it, the socket; says so, and prints what it is sent.
TAKES_PLACE = """
listeners = []
for port in sys.argv[2:]:
    listeners.append(socket.create_server(("127.0.0.1", int(port))))
try:
    listeners.append(socket.socket(socket.AF_UNIX))
    listeners[-1].bind(sys.argv[1])
    os.chmod(sys.argv[1], 0o777)
    listeners[-1].listen()
    print("socket", flush=True)
except OSError as error:
    listeners.pop()
    print(type(error).__name__, flush=True)
poll = select.poll()
for each in listeners:
    poll.register(each)
while True:
    for descriptor, _ in poll.poll():
        connection, _ = next(each for each in listeners if each.fileno() == descriptor).accept()
        connection.settimeout(5)
        try:
            print("heard", connection.recv(4096), flush=True)
        except OSError as error:
            print("nothing", error, flush=True)
        connection.close()
"""


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    with a_house(tmp_path) as there:
        yield there


@pytest.fixture
def open_home() -> Iterator[Path]:
    """A home that is open to everybody, as no server leaves it, and whose server is gone."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o777)
        yield Path(folder)


@needs_stranger
@pytest.mark.feature("X8")
def test_other_user_at_the_port_of_a_killed_server_hears_nothing_and_the_job_ends(house: House):
    start_job(house, "job", "until [ -e $DRUMBEAT_TEST_GO ]; do sleep 0.1; done; echo done", **_go(house))
    before = house.client.status()
    port = int(before.url.rpartition(":")[2])
    os.kill(before.pid, signal.SIGKILL)
    until(lambda: not Path(f"/proc/{before.pid}").exists() or _is_zombie(before.pid), what="the end of the server")
    with stranger(TAKES_PLACE, house.home / home_socket.NAME, port) as process:
        assert process.stdout
        assert process.stdout.readline() == "PermissionError\n"
        assert house.run("list").returncode == 0, "it starts another server, which takes another port"
        after = house.client.status()
        assert (after.pid != before.pid, after.url != before.url) == (True, True)
        (house.folder / "go").touch()
        assert house.client.wait("job", 120).state is State.COMPLETED
        process.kill()
        assert process.stdout.read() == ""
    assert "".join(house.logs("job").values()) == "done\n"


@needs_stranger
@pytest.mark.feature("X8")
def test_token_isnt_sent_to_another_user_at_the_socket_of_a_home(open_home: Path):
    home = open_home
    (home / "token").write_text("the-token")
    about = {"url": "http://127.0.0.1:9", "host": os.uname().nodename, "pid": os.getpid()}
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    (home / "server.json").write_text(json.dumps({**about, "boot_id": boot}))
    with stranger(TAKES_PLACE, home / home_socket.NAME) as process:
        assert process.stdout
        assert process.stdout.readline() == "socket\n"
        with Client(home, autostart=False) as client, pytest.raises(DrumbeatError, match=f"user {STRANGER} is at"):
            client.list()
        assert process.stdout.readline() == "heard b''\n"


@needs_stranger
@pytest.mark.feature("X8")
def test_agent_tells_another_user_at_its_servers_socket_nothing(open_home: Path):
    address, plan = home_socket.address_in(open_home), Plan("j", "e", "pytorch", 1, 1, "", ())
    with stranger(TAKES_PLACE, home_socket.socket_path(address)) as process:
        assert process.stdout
        assert process.stdout.readline() == "socket\n"
        link = ServerLink(Enrolment("j", 1, 0, (address,), "the-secret", str(open_home), "/c", plan))
        with pytest.raises(UnreachableError, match=f"user {STRANGER} is at the other end"):
            link.sync({}, "", 0)
        link.close()
        assert process.stdout.readline() == "heard b''\n"


def _go(house: House) -> dict[str, object]:
    return {"environment_variables": {"DRUMBEAT_TEST_GO": str(house.folder / "go")}}


def _is_zombie(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True

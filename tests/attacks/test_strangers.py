"""Another Unix user of the server's machine: learns no secret, reaches no file of the home, starts nothing."""

from __future__ import annotations

import json

import pytest

from drumbeat.launchers.services import ServicePlace
from drumbeat.model.errors import ConflictError
from drumbeat.node.sidecars import node_tunnels
from tests.attacks.strangers import STRANGER, needs_stranger, run_as_stranger, stranger
from tests.attacks.targets import Attempt
from tests.real.house import House

READS = """
for path in sys.argv[1:]:
    try:
        pathlib.Path(path).read_bytes()
    except PermissionError:
        print("refused")
"""

ASKS = """
host, port, path = sys.argv[1], int(sys.argv[2]), sys.argv[3]
connection = http.client.HTTPConnection(host, port, timeout=10)
connection.request("GET", path)
print(connection.getresponse().status)
"""


@needs_stranger
@pytest.mark.feature("X8")
def test_other_user_reads_no_file_of_the_home(house: House, attempt: Attempt):
    enrolment = next(house.home.glob(f"nodes/*/{attempt.node}/enrolment.json"))
    secrets = [house.home / name for name in ("token", "key", "server.json", "drumbeat.db")]
    assert run_as_stranger(READS, *secrets, enrolment).split() == ["refused"] * 5


@needs_stranger
def test_other_user_without_a_token_is_told_nothing(house: House):
    url = json.loads((house.home / "server.json").read_text())["url"]
    host, _, port = url.removeprefix("http://").partition(":")
    assert run_as_stranger(ASKS, host, port, "/api/v1/jobs").split() == ["401"]


LISTENS = """
listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
while True:
    connection, _ = listener.accept()
    print(connection.recv(4096), flush=True)
"""


@needs_stranger
@pytest.mark.feature("X8")
def test_tunnel_leads_to_no_program_of_another_user_at_the_port_of_a_service():
    with stranger(LISTENS) as process:
        assert process.stdout
        port = int(process.stdout.readline())
        with pytest.raises(ConflictError, match=f"user {STRANGER} listens at port {port}"):
            node_tunnels._connected("tensorboard", ServicePlace(port))
        assert process.stdout.readline() == "b''\n"


SEES = """
for entry in pathlib.Path("/proc").glob("[0-9]*"):
    try:
        print((entry / "cmdline").read_bytes().replace(bytes(1), b" ").decode(errors="replace"))
    except OSError:
        pass
"""


@needs_stranger
@pytest.mark.feature("X8")
def test_no_secret_is_in_the_arguments_of_a_process(house: House, attempt: Attempt):
    seen = run_as_stranger(SEES)
    assert str(house.home) in seen
    assert not [one for one in ((house.home / "token").read_text(), attempt.secret) if one in seen]

"""An older command line and a newer server, and the other way round, over a real connection."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from drumbeat.server.context import PROTOCOL, Identity

from .api_house import TOKEN, House, house_in

LIST = """
import sys
from drumbeat.client import discovery
discovery.PROTOCOL = int(sys.argv.pop(1))
from drumbeat.cli.main import main
main()
"""


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with house_in(tmp_path_factory.mktemp("house")) as there:
        yield there


def listed(house: House, protocol: int) -> subprocess.CompletedProcess[str]:
    """`drumbeat list` by a command line that speaks that protocol."""
    environment = {**os.environ, "DRUMBEAT_SERVER": house.url, "DRUMBEAT_TOKEN": TOKEN, "NO_COLOR": "1"}
    command = [sys.executable, "-c", LIST, str(protocol), "list"]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("version", ["0.0.1", "99.0"])
def test_other_version_of_the_same_protocol_is_accepted(house: House, version: str) -> None:
    house.submit(f"of-{version[0]}")
    house.context.identity = Identity(version=version)
    told = listed(house, PROTOCOL)
    assert (told.returncode, told.stderr) == (0, "")
    assert f"of-{version[0]}" in told.stdout


NEWER_SERVER = (
    "error: the server is newer than the client: the server (9.9) speaks protocol {}, this client speaks {}\n"
)
NEWER_CLIENT = (
    "error: the client is newer than the server: the server (9.9) speaks protocol {}, this client speaks {}\n"
)


@pytest.mark.parametrize(
    ("server", "client", "says", "updated"),
    [
        (PROTOCOL, PROTOCOL - 1, NEWER_SERVER, "client"),
        (PROTOCOL, PROTOCOL + 1, NEWER_CLIENT, "server"),
        (PROTOCOL + 1, PROTOCOL, NEWER_SERVER, "client"),
        (PROTOCOL - 1, PROTOCOL, NEWER_CLIENT, "server"),
    ],
)
def test_other_protocol_is_refused_with_what_to_update(
    house: House, server: int, client: int, says: str, updated: str
) -> None:
    house.context.identity = Identity(version="9.9", protocol=server)
    told = listed(house, client)
    assert (told.returncode, told.stdout) == (1, "")
    fix = f"  → Update the {updated}; a running server is replaced after `drumbeat server stop`.\n"
    assert told.stderr == says.format(server, client) + fix


def test_a_home_on_a_network_file_system_is_refused_in_a_sentence(tmp_path: Path) -> None:
    """A mount table that says so stands in for the network: /proc is private to the command."""
    if os.geteuid() != 0:
        pytest.skip("needs root, to show the command another mount table")
    (tmp_path / "job.yml").write_text("command: 'true'\ndrumbeat: {environment: current}\n")
    (tmp_path / "home").mkdir()
    table = tmp_path / "mountinfo"
    table.write_text(f"1 1 0:1 / / rw - ext4 disk rw\n2 1 0:2 / {tmp_path} rw - nfs4 storage:/home rw\n")
    script = (
        "boot=$(cat /proc/sys/kernel/random/boot_id) && mount -t tmpfs tmpfs /proc && "
        "mkdir -p /proc/self /proc/sys/kernel/random && cp $TABLE /proc/self/mountinfo && "
        "echo $boot > /proc/sys/kernel/random/boot_id && "
        "exec $PYTHON -c 'from drumbeat.cli.main import main; main()' run job.yml"
    )
    environment = {
        **os.environ, "DRUMBEAT_HOME": str(tmp_path / "home"), "TABLE": str(table), "PYTHON": sys.executable,
        "NO_COLOR": "1",
    }  # fmt: skip
    told = subprocess.run(
        ["unshare", "--mount", "sh", "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True,
        timeout=60, check=False,
    )  # fmt: skip
    assert told.returncode == 4, told
    file = tmp_path / "home" / "drumbeat.db"
    assert f"the server didn't start: {file}: {file} is on a network file system (nfs4)" in told.stderr
    assert "Name a folder on a local disk" in told.stderr

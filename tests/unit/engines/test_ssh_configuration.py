"""How hosts are logged in to whose address and port are in ssh's configuration, by an ssh that a test plays."""

from __future__ import annotations

from pathlib import Path

import pytest

from drumbeat.engines.remote_host import Host
from drumbeat.engines.ssh.engine import SshEngine
from drumbeat.engines.ssh.login import Destination, Login
from drumbeat.engines.ssh.ssh_host import SshReach
from drumbeat.jobfile.compute.ssh import SshCompute
from drumbeat.model.errors import UnreachableError

pytestmark = pytest.mark.feature("C4")


@pytest.fixture
def ssh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An ssh that says what its file has, and notes what it was asked."""
    program = tmp_path / "ssh"
    program.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/asked\ncat {tmp_path}/says\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    return tmp_path


def says(ssh: Path, **settings: object) -> None:
    (ssh / "says").write_text("".join(f"{key} {value}\n" for key, value in settings.items()))


def test_port_is_ssh_s_own_unless_the_compute_has_one():
    compute = SshCompute.model_validate({"name": "x", "hosts": ["gpu-1"]})
    assert compute.port is None
    assert "-p" not in Login("gpu-1", compute.port).command()
    assert Login("gpu-1", compute.port, "me").by_hand() == "ssh me@gpu-1"
    assert Login("gpu-1", 22).command()[2:4] == ["-p", "22"], "the configuration may have another"


@pytest.mark.parametrize(
    ("settings", "destination", "known"),
    [
        ({"hostname": "10.0.0.1", "port": 22}, Destination("10.0.0.1", 22), "10.0.0.1"),
        ({"hostname": "10.0.0.1", "port": 2222}, Destination("10.0.0.1", 2222), "[10.0.0.1]:2222"),
        ({"hostname": "h", "port": 22, "hostkeyalias": "k"}, Destination("h", 22, "k"), "k"),
        ({}, Destination("gpu-1", 22), "gpu-1"),
    ],
)
def test_host_is_where_ssh_s_configuration_says(
    ssh: Path, settings: dict[str, object], destination: Destination, known: str
):
    says(ssh, **settings)
    assert Login("gpu-1").destination() == destination
    assert destination.known_as() == known
    assert (ssh / "asked").read_text().split()[-3:] == ["-G", "--", "gpu-1"]


def test_host_whose_ssh_tells_nothing_is_at_the_port_of_the_compute(ssh: Path):
    (ssh / "says").unlink(missing_ok=True)
    assert Login("gpu-1", 2222).destination() == Destination("gpu-1", 2222)


def test_server_s_address_is_on_the_route_to_where_an_alias_leads(ssh: Path):
    engine = SshEngine([Host("gpu-1", SshReach(Login("no-such-name.invalid"), "python3", "~/node"), "~/g", "~/j")])
    says(ssh, hostname="127.0.0.7", port=2222)
    assert engine.server_addresses() == ["127.0.0.1"]
    assert engine.server_addresses() == ["127.0.0.1"]
    assert len((ssh / "asked").read_text().splitlines()) == 1, "not at each question"
    other = SshEngine([Host("gpu-1", SshReach(Login("gpu-1"), "python3", "~/node"), "~/g", "~/j")])
    says(ssh, hostname="no-such-name.invalid", port=22)
    with pytest.raises(UnreachableError, match="no route"):
        other.server_addresses()

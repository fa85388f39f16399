"""The unit of a server for a team, and what its people are told."""

from dataclasses import replace
from pathlib import Path

import pytest

from drumbeat.cli.team_server.unit import TeamServer, instructions, unit
from drumbeat.model.errors import RefusedError

SERVER = TeamServer(("train.example.org", "10.0.0.1"), "0.0.0.0", 8470, "/opt/drumbeat/bin/python")
FILES = TeamServer(("train",), "10.0.0.1", 443, "/opt/my env/bin/python", Path("/etc/c.pem"), Path("/etc/k.pem"))


@pytest.mark.feature("X7")
def test_unit_starts_the_server_by_tls_under_a_user_of_its_own_and_leaves_jobs_alone() -> None:
    lines = unit(SERVER).splitlines()
    assert {"User=drumbeat", "KillMode=process", "Restart=always", "StateDirectory=drumbeat"} <= set(lines)
    (start,) = (line for line in lines if line.startswith("ExecStart="))
    assert start == (
        "ExecStart=/opt/drumbeat/bin/python -m drumbeat.server --home /var/lib/drumbeat --host 0.0.0.0 --allow-remote "
        "--port 8470 --allow-host train.example.org --allow-host 10.0.0.1 --tls own --idle-stop 0"
    )
    assert "ExecStart='/opt/my env/bin/python' -m" in unit(FILES)
    assert "--tls-cert /etc/c.pem --tls-key /etc/k.pem" in unit(FILES)
    assert "--tls own --scoring 0.0.0.0:8443 --idle-stop 0" in unit(replace(SERVER, scoring="0.0.0.0:8443"))


@pytest.mark.feature("X7")
def test_deployed_unit_is_what_the_command_writes() -> None:
    deployed = Path(__file__).parents[3] / "deploy" / "systemd" / "drumbeat.service"
    named = TeamServer(("train.example.org",), "0.0.0.0", 8470, "/opt/drumbeat/bin/python")
    assert deployed.read_text() == unit(named)


@pytest.mark.parametrize(
    ("server", "told"),
    [
        (TeamServer(("a b",), "10.0.0.1", 1, "/p"), "'a b' is no host name or address"),
        (TeamServer(("a\nUser=root",), "10.0.0.1", 1, "/p"), "is no host name or address"),
        (TeamServer(("a",), "train", 1, "/p"), "--host needs an IP address"),
        (TeamServer(("a",), "10.0.0.1", 1, "/p", Path("/c")), "--tls-cert and --tls-key go together"),
        (TeamServer(("a",), "10.0.0.1", 1, "/p%n"), "a systemd unit can't name this path"),
        (replace(SERVER, scoring="train:8443"), "'train:8443' isn't an IP address and a port"),
        (replace(SERVER, scoring="0.0.0.0"), "isn't an IP address and a port"),
        (replace(SERVER, scoring="0.0.0.0:8470"), "the server itself listens at port 8470"),
    ],
)
def test_what_no_server_can_have_is_refused(server: TeamServer, told: str) -> None:
    with pytest.raises(RefusedError) as refused:
        server.check()
    assert told in str(refused.value)


def test_people_are_told_the_address_and_the_fingerprint_to_type() -> None:
    told = instructions(SERVER, "sha256:ab", is_running=True)
    assert told.endswith("drumbeat login https://train.example.org:8470 --fingerprint sha256:ab")
    assert instructions(FILES, "", is_running=True).endswith("drumbeat login https://train:443")
    scoring = instructions(replace(SERVER, scoring="[::]:8443"), "", is_running=True)
    assert "  endpoints https://train.example.org:8443/endpoints/…; open this port, too" in scoring

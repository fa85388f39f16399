"""Online endpoints whose replicas run on other machines, as ssh, Slurm and netlabs have them, and dial the router."""

from __future__ import annotations

import json
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from drumbeat.model.endpoints import DeploymentExtension

from .clusters import kubernetes, ray
from .endpoints import Endpoint
from .house import House, until
from .places import Place, netlab, slurm, ssh

SCRIPT = """
import json, socket, time
def init():
    pass
def run(data):
    time.sleep(0.004)
    return {"sum": sum(json.loads(data)["data"]), "host": socket.gethostname()}
"""
PLACES = {"netlab": partial(netlab, cpus=1), "ssh": partial(ssh, cpus=1), "slurm": slurm}
"""A machine has room for one replica, so that two are on two."""


@pytest.fixture(params=[pytest.param(one, marks=() if one == "ssh" else pytest.mark.thorough) for one in PLACES])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    with PLACES[request.param](tmp_path) as made:
        yield made


@pytest.mark.feature("R2")
def test_requests_meet_no_failure_while_a_replica_and_the_machine_of_one_are_lost(place: Place) -> None:
    endpoint, hosts = _on_two_machines(place)
    with endpoint.load() as seen:
        endpoint.watch(seen, "steady")
        endpoint.replicas()[0].kill()
        endpoint.watch(seen, "a replica was killed", 500)
        endpoint.await_ready(2)
        place.switch_off(min(hosts))
        endpoint.await_ready(1)
        endpoint.watch(seen, "a machine was switched off", 500)
    _check_door(endpoint, place)


@pytest.mark.feature("R2")
@pytest.mark.thorough
def test_replica_of_a_machine_that_is_gone_is_started_on_another_one(tmp_path: Path) -> None:
    with ssh(tmp_path, cpus=1) as place:
        endpoint, hosts = _on_two_machines(place)
        with endpoint.load() as seen:
            endpoint.watch(seen, "steady")
            place.switch_off(min(hosts))
            endpoint.await_ready(1)
            endpoint.await_ready(2, 240)
            endpoint.watch(seen, "another machine has taken over")
        assert min(hosts) not in {endpoint.invoke().json()["host"] for _ in range(40)}


def _on_two_machines(place: Place) -> tuple[Endpoint, set[str]]:
    """An endpoint with a replica on each of two machines, and their names."""
    endpoint = Endpoint(place.house)
    endpoint.deploy(SCRIPT, instance_count=2, drumbeat=DeploymentExtension(compute=place.compute))
    endpoint.await_state("ready", seconds=300)
    endpoint.direct(blue=100)
    until(lambda: endpoint.invoke().status_code == 200)
    hosts = {endpoint.invoke().json()["host"] for _ in range(40)}
    assert len(hosts) == 2
    return endpoint, hosts


def _check_door(endpoint: Endpoint, place: Place) -> None:
    """The router's port for other machines takes nobody without a replica's secret."""
    folder = place.house.home / "router"
    table: dict[str, Any] = json.loads((folder / "table.json").read_text())
    (door,) = [one for one in table["listeners"] if one["for_replicas"]]
    context = ssl.create_default_context(cafile=str(place.house.home / "ca.pem"))
    plain = httpx.Client(verify=context)
    url = f"https://{door['host']}:{door['port']}"
    assert f"replicas     {url}" in place.house.run("server", "status").stdout
    assert plain.get(f"{url}/endpoints/ships/score").status_code == 400
    answer = plain.get(
        f"{url}/replica",
        headers={
            "Upgrade": "drumbeat-replica/1", "Connection": "Upgrade", "Authorization": f"Bearer {endpoint.key}",
            "Drumbeat-Endpoint": "ships", "Drumbeat-Deployment": "blue",
            "Drumbeat-Replica": f"{endpoint.show()['job']}_0",
        },
    )  # fmt: skip
    assert answer.status_code == 403
    with (
        socket.create_connection((door["host"], door["port"])) as connection,
        pytest.raises(ssl.SSLCertVerificationError),
    ):
        ssl.create_default_context().wrap_socket(connection, server_hostname=door["host"])


@pytest.mark.feature("R2")
@pytest.mark.thorough
@pytest.mark.timeout(600)
@pytest.mark.parametrize("make", [kubernetes, ray])
def test_replicas_in_pods_and_in_placements_of_ray_dial_the_router(
    make: Callable[[Path], AbstractContextManager[House]], tmp_path: Path
) -> None:
    with make(tmp_path) as house:
        endpoint = Endpoint(house)
        endpoint.deploy(SCRIPT, instance_count=2, drumbeat=DeploymentExtension(compute="rack"))
        endpoint.await_state("ready", seconds=300)
        endpoint.direct(blue=100)
        until(endpoint.answers)
        with endpoint.load() as seen:
            endpoint.watch(seen, "steady")
            endpoint.replicas()[0].kill()
            endpoint.watch(seen, "a replica was killed", 500)
            endpoint.await_ready(2)
        endpoint.direct()
        endpoint.call("DELETE", "/deployments/blue")
        until(lambda: not endpoint.call("GET", "/deployments"), 120)

"""Online endpoints for real: a server, its router, replicas that are jobs, and clients that send requests meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from collections.abc import Generator
from typing import Any

import httpx
import psutil
import pytest

from drumbeat.client.job_upload import snapshot_digest
from drumbeat.model import wire
from drumbeat.model.endpoints import DeployedModel, OnlineDeployment, OnlineEndpoint, RequestSettings, ScaleSettings
from tests.support.serving_load import Load, run_clients

from .house import House, line_of, until

SCRIPT = """
import json, os, time
def init():
    print("init of {version}", flush=True)
def run(data):
    time.sleep(0.004)
    return {{"version": "{version}", "sum": sum(json.loads(data)["data"]), "job": os.environ["DRUMBEAT_JOB"]}}
"""
BODY = json.dumps({"data": [1, 2, 3]})


class Endpoint:
    """The endpoint `ships` of a house, and what a test does with it."""

    def __init__(self, house: House) -> None:
        self.house = house
        self.call("PUT", "", wire.to_wire(OnlineEndpoint("ships")))
        until(lambda: self.call("GET", "")["state"] == "ready", 120, "the router")
        self.key = self.call("GET", "/keys")["primary"]
        self.url = self.call("GET", "")["scoring_uri"]

    def call(self, method: str, path: str, body: object = None) -> Any:
        options = {} if body is None else {"json": body}
        return self.house.client.connection.call(method, f"/online-endpoints/ships{path}", **options)

    def deploy(self, script: str, name: str = "blue", **settings: Any) -> Any:
        """Creates or changes a deployment of a script's source. One replica takes all requests of a test's load."""
        folder = self.house.folder / f"code-{abs(hash(script))}"
        folder.mkdir(exist_ok=True)
        (folder / "score.py").write_text(script)
        code = snapshot_digest(self.house.client.connection, folder, "code", is_sending=True)
        settings = {"request_settings": RequestSettings(20_000, 4, max_queue_wait_ms=20_000), **settings}
        definition = OnlineDeployment(name, "ships", code=code, scoring_script="score.py", **settings)
        return self.call("PUT", f"/deployments/{name}", wire.to_wire(definition))

    def show(self, name: str = "blue") -> Any:
        return self.call("GET", f"/deployments/{name}")

    def await_state(self, state: str, name: str = "blue", seconds: float = 180) -> Any:
        seen: dict[str, Any] = {}

        def is_there() -> bool:
            seen.update(self.show(name))
            return seen["state"] == state

        try:
            until(is_there, seconds)
        except AssertionError:
            pytest.fail(f"{name} isn't {state}: {seen}\n{self.house.run('list', '--all').stdout}")
        return seen

    def direct(self, **traffic: int) -> None:
        self.call("PUT", "", wire.to_wire(OnlineEndpoint("ships", traffic=traffic)))

    def invoke(self, key: str = "", headers: dict[str, str] | None = None) -> httpx.Response:
        sent = {"Authorization": f"Bearer {key or self.key}", **(headers or {})}
        return httpx.post(self.url, content=BODY, headers=sent, timeout=60)

    def replicas(self) -> list[psutil.Process]:
        """The scoring processes, without the shells around them."""
        return [one for one in self.house.processes() if " -m drumbeat.scoring" in line_of(one)]

    def router(self) -> psutil.Process:
        return next(one for one in self.house.processes() if "-m drumbeat.router" in line_of(one))

    @contextlib.contextmanager
    def load(self, clients: int = 4) -> Generator[Load]:
        """Clients that send requests until the end of the block, none of which may fail."""
        address = httpx.URL(self.url)
        head = f"POST {address.path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {self.key}\r\n"
        request = f"{head}Content-Length: {len(BODY)}\r\n\r\n{BODY}".encode()
        seen = Load()
        sender = threading.Thread(target=lambda: asyncio.run(run_clients(address.port or 0, request, clients, seen)))
        sender.start()
        try:
            yield seen
        finally:
            seen.is_ending = True
            sender.join(60)
        assert not seen.failures, f"{seen.failures[:5]}\n{seen.report()}"

    def watch(self, seen: Load, phase: str, count: int = 100) -> None:
        """Waits until that many requests were answered in a phase."""
        seen.phase = phase
        until(lambda: len(seen.latencies.get(phase, ())) >= count, 180, f"{count} requests of {phase}")


@pytest.fixture
def endpoint(own_house: House) -> Endpoint:
    return Endpoint(own_house)


def test_deployment_with_two_replicas_answers_and_is_deleted(endpoint: Endpoint) -> None:
    assert httpx.post(endpoint.url, content=BODY).status_code == 401
    assert endpoint.invoke().status_code == 404  # It has no deployment with traffic.
    endpoint.deploy(SCRIPT.format(version="one"), instance_count=2)
    shown = endpoint.await_state("ready")
    assert (shown["ready"], shown["wanted"], shown["generation"]) == (2, 2, 1)
    endpoint.direct(blue=100)
    until(lambda: endpoint.invoke().status_code == 200)
    assert endpoint.invoke().json()["sum"] == 6
    assert len({endpoint.invoke().json()["job"] for _ in range(20)}) == 2
    assert "init of one" in endpoint.call("GET", "/deployments/blue/logs")["text"]
    endpoint.direct()
    endpoint.call("DELETE", "/deployments/blue")
    until(lambda: not endpoint.call("GET", "/deployments"))
    assert not endpoint.replicas()
    endpoint.call("DELETE", "")
    until(lambda: not endpoint.house.client.connection.call("GET", "/online-endpoints"))
    until(lambda: not any("drumbeat.router" in line_of(one) for one in endpoint.house.processes()))


@pytest.mark.feature("R2")
def test_requests_meet_no_failure_while_a_replica_and_the_server_are_killed(endpoint: Endpoint) -> None:
    endpoint.deploy(SCRIPT.format(version="one"), instance_count=2)
    endpoint.await_state("ready")
    endpoint.direct(blue=100)
    until(lambda: endpoint.invoke().status_code == 200)
    with endpoint.load() as seen:
        endpoint.watch(seen, "steady")
        for number in range(2):
            endpoint.replicas()[0].kill()
            endpoint.watch(seen, f"replica {number} was killed")
            until(lambda: endpoint.show()["ready"] == 2, 120)
        endpoint.house.server().kill()
        endpoint.watch(seen, "the server was killed")
        endpoint.house.client.connection.call("GET", "/online-endpoints")  # Starts it again.
        endpoint.await_state("ready")
        endpoint.watch(seen, "the server is back")
    assert endpoint.show()["generation"] == 1


@pytest.mark.feature("R2")
def test_killed_router_is_back_at_the_same_address_and_replicas_dial_it(endpoint: Endpoint) -> None:
    endpoint.deploy(SCRIPT.format(version="one"))
    endpoint.await_state("ready")
    endpoint.direct(blue=100)
    until(lambda: endpoint.invoke().status_code == 200)
    before = endpoint.router().pid
    endpoint.router().kill()

    def answers() -> bool:
        try:
            return endpoint.invoke().status_code == 200
        except httpx.TransportError:
            return False

    until(answers, 60, "an answer of the next router")
    assert endpoint.router().pid != before
    assert endpoint.show()["state"] == "ready"


@pytest.mark.feature("R2")
def test_next_version_replaces_the_one_before_without_a_failed_request(endpoint: Endpoint) -> None:
    endpoint.deploy(SCRIPT.format(version="one"), instance_count=2)
    endpoint.await_state("ready")
    endpoint.direct(blue=100)
    until(lambda: endpoint.invoke().status_code == 200)
    with endpoint.load() as seen:
        endpoint.watch(seen, "version one")
        endpoint.deploy(SCRIPT.format(version="two"), instance_count=2)
        endpoint.await_state("ready", seconds=300)
        endpoint.watch(seen, "version two")
        assert endpoint.invoke().json()["version"] == "two"
        endpoint.deploy(RAISES, instance_count=2)
        failed = endpoint.await_state("failed", seconds=300)
        endpoint.watch(seen, "version three failed")
    assert "was given up" in failed["sentence"]
    assert "generation 2 goes on" in failed["sentence"]
    assert endpoint.invoke().json()["version"] == "two"


RAISES = """
def init():
    raise RuntimeError("no weights here")
def run(data):
    return 1
"""


@pytest.mark.feature("R2")
def test_first_version_whose_init_raises_fails_with_its_own_words(endpoint: Endpoint) -> None:
    endpoint.deploy(RAISES)
    failed = endpoint.await_state("failed")
    assert "no replica became ready" in failed["sentence"]
    assert "no weights here" in endpoint.call("GET", "/deployments/blue/logs")["text"]
    assert endpoint.deploy(SCRIPT.format(version="one"))["job"] != failed["job"]
    endpoint.await_state("ready")


@pytest.mark.feature("R2")
def test_deployment_without_requests_ends_its_replicas_and_the_next_request_starts_one(endpoint: Endpoint) -> None:
    scale = ScaleSettings("target_utilization", min_instances=0, max_instances=1)
    endpoint.deploy(SCRIPT.format(version="one"), scale_settings=scale)
    endpoint.direct(blue=100)
    until(lambda: endpoint.show()["wanted"] == 0 and not endpoint.replicas(), 180, "no replica")
    assert endpoint.invoke().json()["sum"] == 6
    assert endpoint.show()["wanted"] == 1


READS_MODEL = """
import os
def init():
    global weights
    folder = os.environ["AZUREML_MODEL_DIR"]
    with open(f"{folder}/weights/w.txt") as by_name, open(f"{folder}/w.txt") as directly:
        weights = by_name.read() + directly.read()
def run(data):
    return {"sum": 6, "weights": weights}
"""


@pytest.mark.feature("R2")
def test_registered_model_has_its_own_name_inside_of_azureml_model_dir(endpoint: Endpoint) -> None:
    folder = endpoint.house.folder / "weights"
    folder.mkdir()
    (folder / "w.txt").write_text("41")
    endpoint.house.client.create_model({"name": "wts", "path": str(folder), "type": "custom_model"})
    endpoint.deploy(READS_MODEL, model=DeployedModel("azureml:wts@latest"))
    endpoint.await_state("ready")
    endpoint.direct(blue=100)
    until(lambda: endpoint.invoke().status_code == 200)
    assert endpoint.invoke().json()["weights"] == "4141"

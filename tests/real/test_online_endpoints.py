"""Online endpoints for real: a server, its router, replicas that are jobs, and clients that send requests meanwhile."""

from __future__ import annotations

import json
import socket
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from drumbeat.model.endpoints import DeployedModel, DeploymentExtension, ProbeSettings, ScaleSettings
from drumbeat.model.errors import ConflictError, RefusedError

from .endpoints import BODY, SCRIPT, Endpoint
from .house import House, line_of, until


@pytest.fixture
def endpoint(own_house: House) -> Endpoint:
    return Endpoint(own_house)


@pytest.mark.feature("R2")
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
    sample = endpoint.call("POST", "/requests", {"body": BODY, "deployment": "blue"})
    assert (sample["status"], json.loads(sample["body"])["sum"], sample["deployment"]) == (200, 6, "blue")
    assert endpoint.call("POST", "/requests", {"body": "{"})["status"] == 424
    until(lambda: endpoint.requests()["curve"]["times"] and endpoint.requests()["errors"])
    assert endpoint.requests()["requests"] > endpoint.requests()["errors"]
    assert all(one["is_ready"] for one in endpoint.requests()["replicas"])
    assert "init of one" in endpoint.call("GET", "/deployments/blue/logs")["text"]
    _delete_while_a_request_runs(endpoint)
    assert not endpoint.replicas()
    endpoint.call("DELETE", "")
    until(lambda: not endpoint.house.client.connection.call("GET", "/online-endpoints"))
    until(lambda: not any("drumbeat.router" in line_of(one) for one in endpoint.house.processes()))


def _delete_while_a_request_runs(endpoint: Endpoint) -> None:
    """Deletes `blue`: what runs is answered, and requests that name it are told why they aren't."""
    with pytest.raises(ConflictError, match="blue has 100 percent of the endpoint's traffic"):
        endpoint.call("DELETE", "/deployments/blue")
    endpoint.direct()
    named, go = {"azureml-model-deployment": "blue"}, endpoint.house.folder / "go"
    told: list[tuple[int, str]] = []
    with ThreadPoolExecutor(1) as sender:
        slow = sender.submit(endpoint.invoke, headers=named, body=json.dumps({"data": [7], "awaits": str(go)}))
        until(lambda: endpoint.requests()["running"], what="the slow request runs")
        endpoint.call("DELETE", "/deployments/blue")

        def is_refused() -> bool:
            try:
                answer = endpoint.invoke(headers=named, timeout_s=2)
            except httpx.ReadTimeout:
                return False  # It was sent before the router knew, and waits at a replica for the slow one's end.
            told.append((answer.status_code, answer.json().get("message", "")))
            return answer.status_code != 200

        until(is_refused)
        assert told[-1] == (404, "The deployment blue of ships is being deleted.")
        with pytest.raises(RefusedError, match="the deployment blue is being deleted, and takes no requests"):
            endpoint.direct(blue=100)
        assert not slow.done()
        go.touch()
        answer = slow.result(30)
    assert (answer.status_code, answer.json()["sum"]) == (200, 7)
    until(lambda: not endpoint.call("GET", "/deployments"))
    gone = (404, "The endpoint ships has no deployment named 'blue'.")
    until(lambda: is_refused() and told[-1] == gone, what="the router knows that it is gone")


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

    until(endpoint.answers, 60, "an answer of the next router")
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
    assert "no weights here" in endpoint.call("GET", "/deployments/blue/logs")["text"]
    assert "was given up" in failed["sentence"]
    assert "generation 2 goes on" in failed["sentence"]
    assert endpoint.invoke().json()["version"] == "two"


RAISES = """
def init():
    raise RuntimeError("no weights here")
def run(data):
    return 1
"""


HANGS = """
import time
def init():
    time.sleep(3600)
def run(data):
    return 1
"""


@pytest.mark.feature("R2")
@pytest.mark.thorough
def test_killed_agents_and_a_version_whose_init_hangs_fail_no_request(endpoint: Endpoint) -> None:
    endpoint.deploy(SCRIPT.format(version="one"), instance_count=2)
    endpoint.await_state("ready")
    endpoint.direct(blue=100)
    until(lambda: endpoint.invoke().status_code == 200)
    with endpoint.load() as seen:
        endpoint.watch(seen, "steady")
        agents = [one for one in endpoint.house.processes() if "drumbeat.node.agent" in line_of(one)]
        assert len(agents) >= 2
        for agent in agents:
            agent.kill()
        endpoint.watch(seen, "all agents were killed", 300)
        endpoint.deploy(HANGS, readiness_probe=ProbeSettings(1, 1, failure_threshold=8), instance_count=2)
        failed = endpoint.await_state("failed")
        endpoint.watch(seen, "the next version hung")
    assert "generation 1 goes on" in failed["sentence"]
    assert endpoint.invoke().json()["version"] == "one"


@pytest.mark.feature("R2")
@pytest.mark.thorough
def test_first_version_whose_init_raises_fails_with_its_own_words(endpoint: Endpoint) -> None:
    endpoint.deploy(RAISES)
    failed = endpoint.await_state("failed")
    assert "no replica became ready" in failed["sentence"]
    assert "no weights here" in endpoint.call("GET", "/deployments/blue/logs")["text"]
    assert endpoint.deploy(SCRIPT.format(version="one"))["job"] != failed["job"]
    endpoint.await_state("ready")


@pytest.mark.feature("R2")
@pytest.mark.thorough
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


@pytest.mark.feature("R2")
@pytest.mark.thorough
def test_clients_of_other_machines_call_by_tls_at_the_scoring_address_which_is_kept(own_house: House) -> None:
    house = own_house
    with socket.create_server(("127.0.0.2", 0)) as taken:
        port = taken.getsockname()[1]
        for address, problem in (
            ("127.0.0.2", "isn't HOST:PORT"),
            ("example.org:8443", "isn't an IP address"),
            ("0.0.0.0:8443", "needs a name"),
            ("192.0.2.1:8443", "Cannot assign requested address"),
            (f"127.0.0.2:{port}", "Address already in use"),
        ):
            refused = house.run("server", "start", "--scoring", address)
            assert refused.returncode != 0
            assert problem in refused.stderr, refused.stderr
    started = house.run("server", "start", "--scoring", f"127.0.0.2:{port}", "--idle-stop", "0")
    assert started.returncode == 0, started.stderr
    assert f"endpoints    https://127.0.0.2:{port}\n" in started.stdout
    endpoint = Endpoint(house)
    assert endpoint.url == f"https://127.0.0.2:{port}/endpoints/ships/score"
    endpoint.deploy(SCRIPT.format(version="one"))
    endpoint.await_state("ready")
    endpoint.direct(blue=100)
    until(lambda: endpoint.invoke().status_code == 200)
    assert endpoint.invoke("another").status_code == 401
    with pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
        httpx.post(endpoint.url, content=BODY)
    by_command = house.run("online-endpoint", "invoke", "ships", "--data", BODY)
    assert json.loads(by_command.stdout)["sum"] == 6, by_command.stderr
    assert house.run("server", "stop", "--force").returncode == 0
    assert endpoint.invoke().status_code == 200
    until(lambda: house.run("server", "start").returncode == 0)
    assert endpoint.call("GET", "")["scoring_uri"] == endpoint.url
    assert endpoint.invoke().status_code == 200
    house.run("server", "stop", "--force")
    until(lambda: house.run("server", "start", "--scoring", "off").returncode == 0)
    assert endpoint.call("GET", "")["scoring_uri"].startswith("http://127.0.0.1:")

    def is_closed() -> bool:
        with socket.socket() as tried:
            return tried.connect_ex(("127.0.0.2", port)) != 0

    until(is_closed)


TALKS = """
import sys
def init():
    pass
def run(data):
    sys.stdout.write(("x" * 99 + "\\n") * 2600)
    print("end of the request", flush=True)
    return {"sum": 6}
"""


@pytest.mark.feature("R2")
@pytest.mark.thorough
def test_logs_of_a_replica_are_a_ring_and_say_what_was_dropped(endpoint: Endpoint) -> None:
    endpoint.deploy(TALKS, drumbeat=DeploymentExtension(max_log_mib=1))
    job = endpoint.await_state("ready")["job"]
    endpoint.direct(blue=100)
    until(lambda: endpoint.invoke().status_code == 200)
    for _ in range(20):
        assert endpoint.invoke().status_code == 200

    def text() -> str:
        return "".join(piece.text for piece in endpoint.house.client.logs(f"{job}_0"))

    until(lambda: "of this job's logs before this line were dropped" in text())
    until(lambda: text().endswith("end of the request\n"))
    assert len(text()) < 3 << 19
    assert "were dropped" in endpoint.house.run("logs", f"{job}_0").stdout.splitlines()[0]
    shown = endpoint.house.run("online-deployment", "get-logs", "blue", "-e", "ships", "--lines", "100000").stdout
    assert "were dropped" in shown
    logs = [file.stat() for file in (endpoint.house.home / "jobs" / f"{job}_0" / "logs").rglob("*.log")]
    assert sum(one.st_size for one in logs) > 5 << 20
    assert sum(one.st_blocks * 512 for one in logs) < 2 << 20

"""Deployments whose image brings the server: its own entry point and command, in real containers without Python."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from drumbeat.model.endpoints import DeployedModel, DeploymentExtension, ProbeSettings

from .boxes import a_podman, make_image
from .boxes import podman as in_podman
from .endpoints import BODY, Endpoint
from .house import House, a_house, until

pytestmark = [pytest.mark.feature("R2")]

SERVES = "localhost/drumbeat-tests-serves:1"
FAILS = "localhost/drumbeat-tests-fails:1"
PORT = 8501
PREDICT = r"""#!/bin/sh
read -r body
case "$body" in *slow*) sleep 3 ;; esac
printf 'Content-Type: text/plain\r\n\r\n%s|%s|%s|%s' \
    "$body" "$(cat "$AZUREML_MODEL_DIR/weights/w.txt")" "$GREETING" "${DRUMBEAT_REPLICA_SECRET:-no secret}"
"""
SETTINGS = {
    SERVES: (
        'ENTRYPOINT ["/bin/bash", "-c"]',
        f'CMD ["echo served; trap exit TERM; busybox httpd -f -p {PORT} & wait"]',
    ),
    FAILS: ('ENTRYPOINT ["/bin/sh", "-c"]', 'CMD ["echo no weights in this image; exit 9"]'),
}


@pytest.fixture(scope="module")
def podman(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    folder = tmp_path_factory.mktemp("podman")
    with a_podman(folder) as variables:
        make_image(folder / "server.tar", {"www/index.html": b"well", "www/cgi-bin/predict": PREDICT.encode()})
        for name, changes in SETTINGS.items():
            words = [word for change in (*changes, "WORKDIR /www") for word in ("--change", change)]
            done = in_podman(variables, "import", *words, str(folder / "server.tar"), name)
            assert done.returncode == 0, done.stderr
        yield variables


@pytest.fixture(scope="module")
def endpoint(podman: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Endpoint]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in podman.items():
            patch.setenv(name, value)  # The server that the house starts passes them on.
        with a_house(tmp_path_factory.mktemp("servers")) as house:
            create_model(house)
            endpoint = Endpoint(house)
            yield endpoint
            endpoint.direct()
            endpoint.call("DELETE", "")
            until(lambda: in_podman(podman, "ps", "--all", "--quiet").stdout == "")


def create_model(house: House) -> None:
    folder: Path = house.folder / "weights"
    folder.mkdir()
    (folder / "w.txt").write_text("41")
    house.client.create_model({"name": "plus", "path": str(folder), "type": "custom_model"})


def deploy(endpoint: Endpoint, image: str = SERVES, *, greeting: str = "", count: int = 1, command: str = "") -> None:
    ready, scoring = ({"port": PORT, "path": path} for path in ("/index.html", "/cgi-bin/predict"))
    routes = {"liveness_route": ready, "readiness_route": ready, "scoring_route": scoring}
    endpoint.put(
        model=DeployedModel("azureml:plus:1"),
        environment={"image": image, "inference_config": routes},
        environment_variables={"GREETING": greeting},
        instance_count=count,
        readiness_probe=ProbeSettings(1, 1, failure_threshold=20),
        drumbeat=DeploymentExtension(retry=False, command=command),
    )


def await_answers(endpoint: Endpoint) -> None:
    endpoint.await_state("ready")
    endpoint.direct(blue=100)
    until(lambda: endpoint.invoke().status_code == 200)


def test_images_own_command_serves_in_two_replicas_and_is_replaced_while_it_answers(endpoint: Endpoint) -> None:
    deploy(endpoint, greeting="hello", count=2)
    await_answers(endpoint)
    assert endpoint.invoke().text == f"{BODY}|41|hello|no secret"
    bearer = {"Authorization": f"Bearer {endpoint.key}"}
    other = httpx.get(endpoint.url.replace("/score", "/index.html"), headers=bearer)
    assert (other.status_code, other.text) == (200, "well")
    until(lambda: endpoint.call("GET", "/deployments/blue/logs")["text"].count("served") == 2)
    slow: list[Future[httpx.Response]] = []
    with ThreadPoolExecutor(4) as clients:
        deploy(endpoint, greeting="bonjour", count=2)
        while (shown := endpoint.show())["state"] != "ready" or shown["generation"] != 2:
            slow.append(clients.submit(endpoint.invoke, body="slow"))
            time.sleep(0.5)
    answers = [one.result() for one in slow]
    assert {one.status_code for one in answers} == {200}, [one.text for one in answers if one.status_code != 200]
    assert endpoint.invoke().text == f"{BODY}|41|bonjour|no secret"


@pytest.mark.thorough
def test_image_whose_command_fails_leaves_the_one_before_serving_and_its_words_in_the_logs(endpoint: Endpoint) -> None:
    deploy(endpoint, greeting="before")
    await_answers(endpoint)
    deploy(endpoint, FAILS)
    until(lambda: "no weights in this image" in endpoint.call("GET", "/deployments/blue/logs")["text"])
    until(lambda: "server ended with 9 before it was ready" in endpoint.call("GET", "/deployments/blue/logs")["text"])
    failed = endpoint.await_state("failed")
    assert re.search("its last line is “no weights in this image”, then “.*server ended with 9", failed["sentence"])
    assert "goes on" in failed["sentence"]
    assert endpoint.invoke().text == f"{BODY}|41|before|no secret"


@pytest.mark.thorough
def test_command_of_the_deployment_runs_in_the_image_instead_of_its_own(endpoint: Endpoint) -> None:
    deploy(
        endpoint, FAILS, command=f"cd /www; trap exit TERM; busybox httpd -f -p {PORT} & wait", greeting="by command"
    )
    endpoint.await_state("ready")
    assert endpoint.invoke().text == f"{BODY}|41|by command|no secret"

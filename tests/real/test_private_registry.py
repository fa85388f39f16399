"""Images of a registry that asks for a password: a real one, and real Podman."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path

import pytest

from drumbeat.model.api.jobs import JobView

from .boxes import IMAGE, a_podman, podman
from .house import House, a_house, contents
from .registry_server import PASSWORD, USER, RegistryServer, a_registry

pytestmark = [pytest.mark.feature("E5")]


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RegistryServer]:
    with a_registry(tmp_path_factory.mktemp("registry")) as there:
        yield there


@pytest.fixture(scope="module")
def storage(tmp_path_factory: pytest.TempPathFactory, registry: RegistryServer) -> Iterator[dict[str, str]]:
    """Podman's variables. The image is in the registry, and not in the storage."""
    with a_podman(tmp_path_factory.mktemp("podman")) as variables:
        name = f"{registry.address}/team/tests:1"
        words = ("push", "--tls-verify=false", "--creds", f"{USER}:{PASSWORD}", IMAGE, name)
        pushed = podman(variables, *words)
        assert pushed.returncode == 0, pushed.stderr
        yield variables


@pytest.fixture
def house(storage: dict[str, str], tmp_path: Path) -> Iterator[House]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {**storage, "DRUMBEAT_CACHE": str(tmp_path / "cache")}.items():
            patch.setenv(name, value)
        with a_house(tmp_path) as there:
            yield there
    for image in podman(storage, "images", "--format", "{{.ID}} {{.Repository}}").stdout.splitlines():
        if not image.endswith("localhost/drumbeat-tests"):
            podman(storage, "image", "rm", "--force", image.split()[0])


def register(house: House, registry: RegistryServer, password: str = PASSWORD, *, insecure: bool = True) -> None:
    credentials = {"username": USER, "password": password}
    house.client.create_registry(
        {"name": "near", "target": f"{registry.address}/team", "insecure": insecure, "credentials": credentials}
    )


def run(house: House, environment: str, script: str = "id -u") -> JobView:
    path = house.job_file(
        command=f"'{script}'", environment=environment, drumbeat="{max_retries: 0}", resources="{instance_count: 2}"
    )
    found = house.client.wait(house.client.submit(path).name, 180)
    assert found is not None
    return found


def image_of(registry: RegistryServer) -> str:
    return f"{{image: '{registry.address}/team/tests:1'}}"


def test_an_image_is_pulled_with_the_credentials_that_were_stored_and_nothing_shows_them(
    house: House, registry: RegistryServer
):
    register(house, registry)
    found = run(house, image_of(registry))
    assert found.state == "completed", (found.sentence, house.logs(found.name))
    assert "pulling image" in house.logs(found.name)[-1]
    story = " ".join(line.sentence for line in house.client.story(found.name))
    assert f"in containers of {registry.address}/team/tests:1 (sha256:" in story
    shown = house.run("plan", house.folder / "job" / "job.yml").stdout
    assert "registries   near: their credentials are given to the nodes" in shown
    assert not containing(house.folder, PASSWORD, secret_of())


def secret_of() -> str:
    return base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()


def containing(folder: Path, *texts: str) -> list[Path]:
    """Files of the house, its database too, in which one of the texts stands."""
    wanted = [text.encode() for text in texts]
    return [path for path, told in contents(folder) if any(text in told for text in wanted)]


@pytest.mark.parametrize(
    ("password", "insecure", "says"),
    [
        pytest.param("wrong", True, "drumbeat registry create", marks=pytest.mark.thorough),
        pytest.param(PASSWORD, False, "server gave HTTP response to HTTPS client", marks=pytest.mark.thorough),
        ("", True, "drumbeat registry create"),
    ],
)
def test_a_registry_that_lets_nobody_in_is_told_in_its_words(
    house: House, registry: RegistryServer, password: str, insecure: bool, says: str
):
    if password:
        register(house, registry, password, insecure=insecure)
    else:
        house.client.create_registry({"name": "near", "target": registry.address, "insecure": True})
    found = run(house, image_of(registry))
    assert found.state == "failed"
    assert "podman can't pull image" in found.sentence
    assert says in found.sentence
    assert PASSWORD not in found.sentence


@pytest.mark.thorough
def test_a_build_pulls_what_it_is_made_from_with_them(house: House, registry: RegistryServer):
    register(house, registry)
    place = house.folder / "job" / "docker"
    place.mkdir(parents=True)
    (place / "Dockerfile").write_text(f"ARG BASE={registry.address}/team/tests:1\nFROM ${{BASE}}\nRUN touch /made\n")
    found = run(house, "{build: {path: docker}}", "ls /made")
    assert found.state == "completed", (found.sentence, house.logs(found.name))
    assert not containing(house.folder, PASSWORD, secret_of())

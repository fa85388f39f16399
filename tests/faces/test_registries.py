"""Registries of images, typed and asked for: kept sealed, shown without credentials, given to the nodes that pull."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from drumbeat.cli.terminal.connect import MAKER
from drumbeat.client import Client
from drumbeat.jobfile.environments.registries import Registry, RegistryCredentials
from tests.unit.cli.fake_server import Type, typing_in

from .api_house import TOKEN, House, house_in

pytestmark = pytest.mark.feature("E5")

SECRET = "correct-horse-battery"
AUTH = {"auth": base64.b64encode(f"robot:{SECRET}".encode()).decode()}
FILE = """\
$schema: https://azuremlschemas.azureedge.net/latest/workspaceConnection.schema.json
name: acme
type: container_registry
target: https://registry.acme.com/team/
credentials:
  type: username_password
  username: robot
  password: env:ACME_PASSWORD
"""


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    with house_in(tmp_path / "home") as there:
        yield there


@pytest.fixture
def drumbeat(house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Type]:
    monkeypatch.setenv("ACME_PASSWORD", SECRET)
    (tmp_path / "acme.yml").write_text(FILE)
    with Client(url=house.url, token=TOKEN) as client:
        token = MAKER.set(lambda _: client)
        yield typing_in(tmp_path, monkeypatch)
        MAKER.reset(token)


def test_registry_is_created_listed_and_deleted_without_showing_its_password(house: House, drumbeat: Type):
    made = drumbeat("registry", "create", "-f", "acme.yml")
    assert made.output.startswith("registry acme created: registry.acme.com/team, by password"), made.output
    shown = [made, drumbeat("registry", "show", "acme"), drumbeat("registry", "list")]
    shown += [drumbeat("registry", "list", "--json"), drumbeat("registry", "show", "acme", "--json")]
    assert all(one.exit_code == 0 and SECRET not in one.output and "robot" not in one.output for one in shown)
    assert json.loads(shown[-1].output)["target"] == "registry.acme.com/team"
    stored = house.control.store.resource("registry", "acme")
    assert SECRET.encode() not in stored.sealed
    assert SECRET not in str(stored.document)
    assert drumbeat("registry", "delete", "acme").exit_code == 0
    gone = drumbeat("registry", "show", "acme")
    assert gone.exit_code == 1
    assert "there is no registry acme" in gone.output


def test_push_registry_is_marked_and_the_first_by_name_used(house: House, drumbeat: Type):
    assert drumbeat("registry", "create", "-f", "acme.yml", "--set", "push_builds=true").output.endswith(
        "images of `build:` are built by one node of a job, pushed there, and pulled by all others\n"
    )
    registries = house.control.catalogs.registries
    assert registries.push_target() == "acme"
    assert "pushed there" in drumbeat("registry", "show", "acme").output
    drumbeat("registry", "create", "another", "-f", "acme.yml", "--set", "push_builds=true")
    assert registries.push_target() == "acme"
    drumbeat("registry", "create", "-f", "acme.yml")
    assert registries.push_target() == "another"
    assert "pushed there" not in drumbeat("registry", "show", "acme").output


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("target=https://robot:pw@acme.com", "this address has a user or a password in it"),
        ("target=Acme Registry", "this isn't what names of images begin with"),
        ("type=git", "container_registry"),
        ("credentials.password=env:NOT_SET", "the environment has no variable 'NOT_SET'"),
        ("credentials.token=x", "token"),
    ],
)
def test_invalid_registry_is_refused(drumbeat: Type, value: str, says: str):
    shown = drumbeat("registry", "create", "-f", "acme.yml", "--set", value)
    assert shown.exit_code == 2
    assert says in " ".join(shown.output.split())
    assert SECRET not in shown.output
    assert "robot:pw" not in shown.output


def test_only_nodes_of_jobs_with_an_image_of_the_registry_get_its_credentials(house: House):
    with Client(url=house.url, token=TOKEN) as client:
        given = RegistryCredentials(username="robot", password=SECRET)  # type: ignore[arg-type]
        client.create_registry(Registry(name="acme", target="registry.acme.com/team", credentials=given))
        client.create_registry({"name": "near", "target": "localhost:5000", "insecure": True})
        client.create_registry(
            {"name": "hub", "target": "docker.io", "credentials": {"username": "robot", "password": SECRET}}
        )
    images = {"a": "registry.acme.com/team/train:3", "b": "localhost:5000/x", "c": "ubuntu", "d": "ghcr.io/a/b"}
    told: dict[str, object] = {}
    for name, image in images.items():
        house.submit(name, environment={"image": image}, drumbeat={"max_retries": 0})
        agent = house.agent(name)
        told[name] = house.http.get(f"{agent.path}/registries", headers=agent.headers).json()
        page = house.http.get(f"/api/v1/jobs/{name}").text
        assert SECRET not in page
        assert AUTH["auth"] not in page
    assert told == {
        "a": {"auths": {"registry.acme.com/team": AUTH, "registry.acme.com": AUTH}, "insecure": []},
        "b": {"auths": {}, "insecure": ["localhost:5000"]},
        "c": {"auths": {"docker.io": AUTH, "https://index.docker.io/v1/": AUTH}, "insecure": []},
        "d": {"auths": {}, "insecure": []},
    }
    assert house.control.store.load("a").job.plan.container.registries == ("acme",)
    assert house.http.get(f"{house.agent('a').path}/registries").status_code == 401


def test_credentials_are_bound_to_their_address(house: House):
    with Client(url=house.url, token=TOKEN) as client:
        client.create_registry(
            {"name": "acme", "target": "acme.com", "credentials": {"username": "robot", "password": SECRET}}
        )
    store = house.control.store
    stored = store.resource("registry", "acme")
    store.put_resource(replace(stored, document={**stored.document, "target": "evil.com"}))
    assert house.control.catalogs.registries.access(["acme", "gone"]) == {"auths": {}, "insecure": []}

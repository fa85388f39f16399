"""A version that is archived in one way is archived in all: the client, the command line, Azure's API, and jobs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from drumbeat.client import Client
from drumbeat.model.errors import NotFoundError, RefusedError
from drumbeat.resources.component import COMPONENT
from drumbeat.resources.data import DATA
from drumbeat.resources.environment import ENVIRONMENT
from drumbeat.resources.kind import Kind
from drumbeat.resources.model import MODEL
from tests.faces.api_house import TOKEN, served
from tests.faces.azure_house import AzureHouse, azure_house
from tests.unit.cli.fake_server import Type, typing_in

pytestmark = pytest.mark.feature("A1", "J8")

KINDS = (DATA, ENVIRONMENT, COMPONENT, MODEL)
BY_KIND = pytest.mark.parametrize("kind", KINDS, ids=[kind.name for kind in KINDS])


@pytest.fixture
def house(tmp_path: Path) -> Iterator[AzureHouse]:
    with azure_house(tmp_path) as house, served(house.control, tmp_path):
        yield house


@pytest.fixture
def client(house: AzureHouse) -> Iterator[Client]:
    with Client(url=house.control.addresses.here[0], token=TOKEN) as made:
        yield made


def make(client: Client, kind: Kind[Any], folder: Path, number: int) -> Any:
    """Registers a version of `it` with a content of its own."""
    file = folder / f"{kind.name}-{number}.txt"
    file.write_text(str(number))
    create: dict[str, Callable[[], Any]] = {
        "data": lambda: client.create_data({"name": "it", "type": "uri_file", "path": str(file)}),
        "environment": lambda: client.create_environment({"name": "it", "image": f"python:3.{number}"}),
        "component": lambda: client.create_component({"name": "it", "command": f"echo {number}"}),
        "model": lambda: client.create_model({"name": "it", "path": str(file)}),
    }
    return create[kind.name]()


def seen(client: Client, kind: Kind[Any], *, archived: bool = False) -> list[str]:
    return [one.version for one in client.resources(kind, "it", archived=archived)]


def seen_by_azure(house: AzureHouse, kind: Kind[Any], view: str = "ActiveOnly") -> list[str]:
    listed = house.ask("GET", f"{kind.path}/it/versions", params={"listViewType": view})
    return [one["name"] for one in listed.json()["value"]]


def names_by_azure(house: AzureHouse, kind: Kind[Any], view: str) -> list[str]:
    return [one["name"] for one in house.ask("GET", kind.path, params={"listViewType": view}).json()["value"]]


@BY_KIND
def test_archived_version_is_hidden_everywhere_and_found_by_its_number(
    house: AzureHouse, client: Client, tmp_path: Path, kind: Kind[Any]
):
    make(client, kind, tmp_path, 1)
    make(client, kind, tmp_path, 2)
    client.archive_resource(kind, "it", "2")
    assert (seen(client, kind), seen(client, kind, archived=True)) == (["1"], ["2", "1"])
    assert (seen_by_azure(house, kind), seen_by_azure(house, kind, "ArchivedOnly")) == (["1"], ["2"])
    assert (client.resource(kind, "it").version, client.resource(kind, "it", "2").is_archived) == ("1", True)
    container = house.ask("GET", f"{kind.path}/it").json()["properties"]
    assert (container["latestVersion"], container["nextVersion"], container["isArchived"]) == ("1", "3", False)
    body = house.ask("GET", f"{kind.path}/it/versions/2").json()
    body["properties"]["isArchived"] = False
    assert house.ask("PUT", f"{kind.path}/it/versions/2", body).status_code == 200
    assert (seen(client, kind), client.resource(kind, "it").version) == (["2", "1"], "2")


@BY_KIND
def test_name_is_archived_with_all_its_versions(house: AzureHouse, client: Client, tmp_path: Path, kind: Kind[Any]):
    make(client, kind, tmp_path, 1)
    make(client, kind, tmp_path, 2)
    archived = house.ask("PUT", f"{kind.path}/it", {"properties": {"isArchived": True}})
    assert archived.json()["properties"]["isArchived"] is True
    assert (seen(client, kind), seen(client, kind, archived=True)) == ([], ["2", "1"])
    assert [one.name for one in client.resources(kind)] == []
    assert (names_by_azure(house, kind, "ActiveOnly"), names_by_azure(house, kind, "ArchivedOnly")) == ([], ["it"])
    assert client.resource(kind, "it").version == "2"  # Where all are archived, a name still means the newest.
    client.restore_resource(kind, "it")
    assert (seen(client, kind), seen_by_azure(house, kind)) == (["2", "1"], ["2", "1"])


@BY_KIND
def test_version_that_is_not_there_is_neither_archived_nor_restored(client: Client, tmp_path: Path, kind: Kind[Any]):
    make(client, kind, tmp_path, 1)
    for name, version in (("it", "7"), ("gone", "1"), ("gone", "")):
        for call in (client.archive_resource, client.restore_resource):
            with pytest.raises(NotFoundError, match=rf"there is no {kind.noun} gone|has no version 7"):
                call(kind, name, version)
    assert seen(client, kind) == ["1"]


@BY_KIND
def test_content_of_an_archived_version_becomes_a_new_version(client: Client, tmp_path: Path, kind: Kind[Any]):
    make(client, kind, tmp_path, 1)
    client.archive_resource(kind, "it", "1")
    again = make(client, kind, tmp_path, 1)
    assert (again.version, again.same_as, again.is_archived) == ("2", "1", False)
    assert make(client, kind, tmp_path, 1).version == "2"


def test_jobs_take_the_newest_that_is_not_archived_or_the_number_that_they_name(client: Client, tmp_path: Path):
    for kind in KINDS[:3]:
        make(client, kind, tmp_path, 1)
        make(client, kind, tmp_path, 2)
        client.archive_resource(kind, "it", "2")

    def planned(environment: str, data: str, component: str) -> tuple[object, ...]:
        job = {
            "command": "cat ${{inputs.it}}", "environment": environment,
            "inputs": {"it": {"type": "uri_file", "path": data}},
        }  # fmt: skip
        plan = client.plan(job).plan
        piped = client.plan({"type": "pipeline", "jobs": {"a": {"component": component}}})
        return plan.environment, plan.inputs[0].uri.rpartition("-")[2], piped.steps[0].command

    assert planned("it", "azureml:it@latest", "azureml:it@latest") == ("it:1", "1.txt", "echo 1")
    assert planned("azureml:it@latest", "azureml:it:1", "azureml:it:1") == ("it:1", "1.txt", "echo 1")
    assert planned("it:2", "azureml:it:2", "azureml:it:2") == ("it:2", "2.txt", "echo 2")


def test_environment_that_is_drumbeats_own_or_a_jobs_is_not_archived(house: AzureHouse, client: Client):
    with pytest.raises(RefusedError, match="environment sklearn is drumbeat's own, and stays in the list of these"):
        client.archive_environment("sklearn")
    path = "environments/CliV2AnonymousEnvironment/versions/abc"
    body = {"properties": {"image": "python:3.11", "isAnonymous": True}}
    assert house.ask("PUT", path, body).status_code == 201
    body["properties"]["isArchived"] = True
    refused = house.ask("PUT", path, body)
    assert (refused.status_code, "isn't archived" in refused.json()["error"]["message"]) == (400, True)


# --- the command line -----------------------------------------------------------------------------------------------
@pytest.fixture
def typed(client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Type:
    monkeypatch.setenv("DRUMBEAT_SERVER", client.connection.line.url)
    monkeypatch.setenv("DRUMBEAT_TOKEN", TOKEN)
    type_words = typing_in(tmp_path, monkeypatch)
    return lambda *line: type_words(*line[0].split())


@BY_KIND
def test_command_line_archives_restores_and_lists_with_all(
    client: Client, typed: Type, tmp_path: Path, kind: Kind[Any]
):
    make(client, kind, tmp_path, 1)
    make(client, kind, tmp_path, 2)
    family = f"drumbeat {kind.name}"
    of_it = "--name it" if kind in (ENVIRONMENT, COMPONENT) else "it"
    hidden = typed(f"{kind.name} archive it@latest")
    assert hidden.stdout == f"{kind.noun} it@latest is archived; see it: {family} list --all\n"
    listed = typed(f"{kind.name} list {of_it}").stdout
    assert ("it:1" in listed or "1" in listed.split(), "archived" in listed) == (True, False)
    everything = typed(f"{kind.name} list {of_it} --all --json").stdout
    assert everything.count('"is_archived": true') == 1
    assert "it:2 (archived)" in typed(f"{kind.name} show it:2").stdout
    typed(f"{kind.name} archive it")
    assert [one.version for one in client.resources(kind, "it")] == []
    assert typed(f"{kind.name} restore it:1").stdout == f"{kind.noun} it:1 is restored\n"
    assert [one.version for one in client.resources(kind, "it")] == ["1"]
    assert typed(f"{kind.name} archive nothing").exit_code == 1


@pytest.mark.parametrize("kind", [ENVIRONMENT, COMPONENT], ids=["environment", "component"])
def test_list_of_a_name_whose_versions_are_archived_says_so(
    client: Client, typed: Type, tmp_path: Path, kind: Kind[Any]
):
    make(client, kind, tmp_path, 1)
    client.archive_resource(kind, "it")
    shown = typed(f"{kind.name} list --name it")
    assert shown.stdout == f"all versions of it are archived: drumbeat {kind.name} list --name it --all\n"

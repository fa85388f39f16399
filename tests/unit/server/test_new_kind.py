"""A kind of named thing that is only a record and its model is served, called and typed like the others."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar, Literal, cast

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from typer import Typer
from typer.testing import CliRunner

from drumbeat.cli.commands.resource_family import resource_family
from drumbeat.cli.terminal.connect import MAKER
from drumbeat.client import Client
from drumbeat.client.calls.resources import ResourceCalls
from drumbeat.client.connection import api, checked
from drumbeat.control.catalog.catalogs import Catalogs
from drumbeat.control.catalog.datastores import Datastores
from drumbeat.control.catalog.notice_targets import NoticeTargets
from drumbeat.control.catalog.registries import Registries
from drumbeat.control.catalog.resources import ResourceService
from drumbeat.dialect.environments.registries import RegistryCredentials
from drumbeat.dialect.reading.field_types import Name, Text
from drumbeat.dialect.reading.frozen_model import Model
from drumbeat.dialect.reading.loader import DocumentKind
from drumbeat.protocol.errors import NotFoundError, SpecError, StorageError
from drumbeat.resources.kind import Kind, Sentences
from drumbeat.server import errors
from drumbeat.server.api.resources import resource_router
from drumbeat.server.openapi_description import add_routes
from tests.support.memory_store import MemoryStore

SECRET = "correct-horse-battery"
FILE = f"name: hello\ncolor: red\ncredentials: {{username: ada, password: {SECRET}}}\n"


# --- a record and its model --------------------------------------------------------------------------------------
class Badge(Model):
    noun: ClassVar[str] = "the badge"

    name: Name
    color: Literal["red", "blue"]
    description: Text | None = None
    credentials: RegistryCredentials | None = None


@dataclass(frozen=True)
class BadgeView:
    name: str
    color: str
    is_secret: bool


BADGE = Kind(
    name="badge",
    noun="badge of honour",
    plural="badges of honour",
    path="badges",
    view_type=BadgeView,
    view=lambda kept: BadgeView(kept.document["name"], kept.document["color"], kept.has_secrets),
    model=lambda: DocumentKind("a badge", lambda _document, _places: Badge, "`name:` and `color:`"),
    sealed_for=lambda document: f"{document['name']} in {document['color']}",
    sentences=Sentences(
        about="Create and inspect badges.",
        page="docs/badges.md",
        create="Create a badge.",
        list="List badges.",
        show="Show a badge.",
        delete="Delete a badge.",
        example="hello",
        create_example="-f hello.yml",
        columns=lambda one: {"badge": one.name, "color": one.color},
        details=lambda one: {"badge": one.name, "color": one.color, "secret": "yes" if one.is_secret else ""},
        empty="no badges",
        created=lambda made: f"badge {made.name} is {made.color}",
        deleted="badge {name} is deleted",
    ),
)


# --- what is made of it ------------------------------------------------------------------------------------------
class InProcess(ResourceCalls):
    """The client's calls, answered by an app in this process."""

    def __init__(self, http: TestClient) -> None:
        self.connection = cast("Any", self)
        self._http = http

    def call(self, method: str, path: str, **options: Any) -> Any:
        response = checked(self._http.request(method, api(path), **options))
        return response.json() if response.content else None


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def badges(store: MemoryStore) -> ResourceService[BadgeView]:
    return ResourceService(BADGE, store, b"k" * 32)


@pytest.fixture
def client(store: MemoryStore, badges: ResourceService[BadgeView]) -> InProcess:
    others: Any = SimpleNamespace()
    own = Datastores(store, b"k"), others, Registries(store, b"k"), others, NoticeTargets(store, b"k")
    app = FastAPI()
    app.state.context = SimpleNamespace(control=SimpleNamespace(catalogs=Catalogs(others, *own, (badges,))))
    errors.install(app)
    add_routes(app, resource_router(BADGE))
    return InProcess(TestClient(app))


@pytest.fixture
def family(client: InProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Typer]:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "hello.yml").write_text(FILE)
    token = MAKER.set(lambda _: cast("Client", client))
    yield resource_family(BADGE)
    MAKER.reset(token)


def test_new_kind_is_created_listed_shown_and_deleted_by_the_client(client: InProcess):
    made = client.create_resource(BADGE, {"name": "hello", "color": "red"})
    assert made == BadgeView("hello", "red", is_secret=False)
    credentials = {"username": "ada", "password": SECRET}
    client.create_resource(BADGE, {"name": "hello", "color": "blue", "credentials": credentials})
    assert client.resources(BADGE) == [client.resource(BADGE, "hello")] == [BadgeView("hello", "blue", is_secret=True)]
    with pytest.raises(SpecError, match=r"badge\.color"):
        client.create_resource(BADGE, {"name": "hello", "color": "green"})
    with pytest.raises(NotFoundError, match="there is no badge of honour hallo; there is hello"):
        client.resource(BADGE, "hallo")
    client.delete_resource(BADGE, "hello")
    assert client.resources(BADGE) == []


def test_new_kind_is_created_listed_shown_and_deleted_by_its_commands(family: Typer):
    def typed(*words: str) -> str:
        done = CliRunner().invoke(family, words)
        assert done.exit_code == 0, done.output
        assert SECRET not in done.output
        return done.output

    assert typed("list") == "no badges\n"
    assert typed("create", "-f", "hello.yml", "welcome", "--set", "color=blue") == "badge welcome is blue\n"
    assert typed("list").split() == ["badge", "color", "─" * 15, "welcome", "blue"]
    assert typed("show", "welcome").split() == ["badge", "welcome", "color", "blue", "secret", "yes"]
    assert json.loads(typed("list", "--json")) == [{"name": "welcome", "color": "blue", "is_secret": True}]
    assert "Delete a badge." in typed("delete", "--help")
    assert typed("delete", "welcome") == "badge welcome is deleted\n"


@pytest.mark.feature("X4")
def test_secret_of_a_new_kind_is_kept_sealed_and_opened_only_for_what_it_was_given(
    store: MemoryStore, badges: ResourceService[BadgeView]
):
    badges.create({"name": "hello", "color": "red", "credentials": {"username": "a", "password": SECRET}}, "b.yml")
    kept = store.resource("badge", "hello")
    assert SECRET not in str(kept.document)
    assert SECRET.encode() not in kept.sealed
    badge: Badge = badges.opened("hello")
    assert badge.credentials is not None
    assert badge.credentials.password.get_secret_value() == SECRET
    store.put_resource(replace(kept, document={**kept.document, "color": "blue"}))
    with pytest.raises(StorageError, match="badge of honour hello in blue can't be opened"):
        badges.opened("hello")

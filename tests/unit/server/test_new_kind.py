"""A kind of named thing that is only a record and its model is served, called and typed like the others."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar, Literal, cast

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from typer.testing import CliRunner

from drumbeat.cli.commands.resource_family import resource_family
from drumbeat.cli.terminal.connect import MAKER
from drumbeat.client import Client
from drumbeat.client.calls.resources import ResourceCalls
from drumbeat.client.connection import api, checked
from drumbeat.jobfile.environments.registries import RegistryCredentials
from drumbeat.jobfile.reading.field_types import Name, Text
from drumbeat.jobfile.reading.loader import DocumentKind
from drumbeat.jobfile.reading.model import Model
from drumbeat.model.errors import NotFoundError, SpecError, StorageError
from drumbeat.resources.kind import Kind, Sentences
from drumbeat.server import errors
from drumbeat.server.data.datastores import Datastores
from drumbeat.server.notices.notice_targets import NoticeTargets
from drumbeat.server.openapi_description import add_routes
from drumbeat.server.resources.catalogs import Catalogs
from drumbeat.server.resources.registries import Registries
from drumbeat.server.resources.resources import ResourceService
from drumbeat.server.resources.routes import resource_router
from drumbeat.server.resources.versions import VersionService
from tests.support.fake_clock import FakeClock
from tests.support.memory_store import MemoryStore

Typed = Callable[..., str]
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


class Patch(Model):
    noun: ClassVar[str] = "the patch"

    name: Name
    version: Text | None = None
    color: Literal["red", "blue"]


@dataclass(frozen=True)
class PatchView:
    name: str
    version: str
    color: str
    same_as: str = ""


PATCH = Kind(
    name="patch",
    noun="patch",
    plural="patches",
    path="patches",
    has_versions=True,
    view_type=PatchView,
    view=lambda kept: PatchView(kept.name, kept.version, kept.open().color),
    model=lambda: DocumentKind("a patch", lambda _document, _places: Patch, "`name:` and `color:`"),
    sentences=Sentences(
        about="Create and inspect patches.",
        page="docs/patches.md",
        create="Create a version of a patch.",
        list="List patches.",
        show="Show a patch.",
        delete="Delete a version of a patch.",
        example="hello:2",
        create_example="-f hello.yml",
        columns=lambda one: {"patch": f"{one.name}:{one.version}", "color": one.color},
        details=lambda one: {"patch": f"{one.name}:{one.version}", "color": one.color},
        empty="no patches",
        created=lambda made: f"patch {made.name}:{made.version} is {made.color}",
        deleted="patch {name} is deleted",
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
    none: Any = None
    own = none, Datastores(store, b"k"), none, Registries(store, b"k"), none, NoticeTargets(store, b"k")
    catalogs = Catalogs(none, *own, (badges, VersionService(PATCH, store, FakeClock())))
    app = FastAPI()
    app.state.context = SimpleNamespace(control=SimpleNamespace(catalogs=catalogs))
    errors.install(app)
    for kind in (BADGE, PATCH):
        add_routes(app, resource_router(kind))
    return InProcess(TestClient(app))


@pytest.fixture
def typed(client: InProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Typed]:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "hello.yml").write_text(FILE)
    families = {kind.name: resource_family(kind) for kind in (BADGE, PATCH)}

    def typed(kind: str, *words: str) -> str:
        done = CliRunner().invoke(families[kind], words)
        assert SECRET not in done.output
        return done.output

    token = MAKER.set(lambda _: cast("Client", client))
    yield typed
    MAKER.reset(token)


def test_new_kind_is_created_listed_shown_and_deleted_by_the_client(client: InProcess):
    made = client.create_resource(BADGE, {"name": "hello", "color": "red"})
    assert made == BadgeView("hello", "red", is_secret=False)
    credentials = {"username": "ada", "password": SECRET}
    client.create_resource(BADGE, {"name": "hello", "color": "blue", "credentials": credentials})
    assert client.resources(BADGE) == [client.resource(BADGE, "hello")] == [BadgeView("hello", "blue", is_secret=True)]
    with pytest.raises(SpecError, match=r"badge\.color"):
        client.create_resource(BADGE, {"name": "hello", "color": "green"})
    with pytest.raises(NotFoundError, match="there is no badge of honour hallo; known: hello"):
        client.resource(BADGE, "hallo")
    client.delete_resource(BADGE, "hello")
    assert client.resources(BADGE) == []


def test_new_kind_is_created_listed_shown_and_deleted_by_its_commands(typed: Typed):
    assert typed("badge", "list") == "no badges\n"
    assert typed("badge", "create", "-f", "hello.yml", "welcome", "--set", "color=blue") == "badge welcome is blue\n"
    assert typed("badge", "list").split() == ["badge", "color", "─" * 15, "welcome", "blue"]
    assert typed("badge", "show", "welcome").split() == ["badge", "welcome", "color", "blue", "secret", "yes"]
    assert json.loads(typed("badge", "list", "--json")) == [{"name": "welcome", "color": "blue", "is_secret": True}]
    assert "Delete a badge." in typed("badge", "delete", "--help")
    assert typed("badge", "delete", "welcome") == "badge welcome is deleted\n"


def test_new_kind_with_versions_numbers_them_and_recognizes_its_content(client: InProcess, typed: Typed):
    Path("patch.yml").write_text("name: hello\ncolor: red\n")
    assert typed("patch", "create", "-f", "patch.yml") == "patch hello:1 is red\n"
    assert typed("patch", "create", "-f", "patch.yml", "--set", "color=blue") == "patch hello:2 is blue\n"
    again = client.create_resource(PATCH, {"name": "hello", "color": "red"})
    assert again == PatchView("hello", "3", "red", same_as="1")
    assert client.create_resource(PATCH, {"name": "hello", "color": "red"}).version == "3"
    assert [one.version for one in client.resources(PATCH, "hello")] == ["3", "2", "1"]
    assert typed("patch", "show", "hello:2").split() == ["patch", "hello:2", "color", "blue"]
    assert typed("patch", "delete", "hello@latest") == "patch hello:3 is deleted\n"
    assert client.resource(PATCH, "hello").version == "2"
    assert typed("patch", "list", "--name", "hello").split()[-4:] == ["hello:2", "blue", "hello:1", "red"]
    with pytest.raises(NotFoundError, match="patch hello has no version 7"):
        client.resource(PATCH, "hello", "7")


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
    with pytest.raises(StorageError, match="badge of honour hello in blue can't be decrypted"):
        badges.opened("hello")

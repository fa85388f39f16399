"""Datastores as they are kept: sealed, shown without credentials, checked before they are anybody's."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from drumbeat.model.errors import ConflictError, NotFoundError, SpecError, UnreachableError
from drumbeat.server.data.datastores import Datastores
from tests.support.memory_store import MemoryStore

pytestmark = pytest.mark.feature("D1")

KEY = "c2VjcmV0LWtleS1vZi10aGUtYWNjb3VudA=="
BLOBS: dict[str, Any] = {
    "name": "blobs", "type": "azure_blob", "account_name": "acme", "container_name": "train",
    "credentials": {"account_key": KEY},
}  # fmt: skip


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def datastores(store: MemoryStore) -> Datastores:
    return Datastores(store, b"k" * 32, "/srv/data")


@pytest.mark.feature("X4")
def test_stored_and_shown_datastores_have_no_secret_and_data_access_has(datastores: Datastores, store: MemoryStore):
    view, is_new = datastores.create(BLOBS, "blobs.yml")
    assert (view.credentials, is_new) == ("account key", True)
    kept = store.resource("datastore", "blobs")
    for told in (repr(view), repr(kept), str(kept.document), kept.sealed.decode(), repr(datastores.all())):
        assert KEY not in told
    found: Any = Datastores(store, b"k" * 32).all()["blobs"]
    assert found.credentials.account_key.get_secret_value() == KEY


def test_a_variable_that_holds_a_secret_isnt_handed_on(datastores: Datastores):
    given = {
        "PATH": "/bin",
        "ACME_KEY": KEY,
        "ACME": f"AccountName=acme;AccountKey={KEY};",
        "HALF": KEY[:20],
        "S": "pw",
    }
    assert datastores.without_secrets(given) == given
    datastores.create(BLOBS, "blobs.yml")
    web = {"name": "web", "type": "http", "url": "https://h/x", "credentials": {"user": "me", "password": "pw"}}
    datastores.create(web, "web.yml")
    # A short one may be part of anything.
    assert datastores.without_secrets({**given, "WORDS": "spwn"}) == {"PATH": "/bin", "HALF": KEY[:20], "WORDS": "spwn"}


@pytest.mark.feature("X4")
def test_datastore_sealed_by_another_key_is_unusable_and_others_are_not(store: MemoryStore):
    Datastores(store, b"k" * 32).create(BLOBS, "blobs.yml")
    other = Datastores(store, b"j" * 32, "/srv/data")
    assert set(other.all()) == {"default", "workspaceblobstore", "workspaceartifactstore"}
    assert "encrypted with another key" in other.show("blobs").credentials


def test_folders_of_the_servers_own_are_always_there_and_can_be_replaced(datastores: Datastores):
    assert [(one.name, one.is_default, one.is_builtin) for one in datastores.list()] == [
        ("workspaceartifactstore", False, True), ("workspaceblobstore", True, True),
    ]  # fmt: skip
    with pytest.raises(ConflictError, match="built-in folder"):
        datastores.delete("workspaceblobstore")
    datastores.create({**BLOBS, "name": "workspaceblobstore"}, "d.yml")
    assert datastores.show("default").type == "azure_blob"
    assert datastores.all()["default"].type == "azure_blob"
    datastores.delete("workspaceblobstore")
    assert datastores.show("default").type == "folder"


def test_a_store_that_doesnt_answer_isnt_kept(datastores: Datastores):
    asked: list[str] = []

    def ask(uri: str) -> None:
        asked.append(uri)
        name = uri.split("/")[3]
        assert name in datastores.all()
        raise UnreachableError(f"it can't be listed: {name} gives no answer", where=name)

    datastores.ask = ask
    with pytest.raises(UnreachableError) as refused:
        datastores.create(BLOBS, "blobs.yml")
    assert str(refused.value) == (
        "blobs.yml: datastore blobs can't be reached: blobs gives no answer. "
        "To create it without this check: --no-check"
    )
    assert len(asked) == 1
    assert set(datastores.all()) == {"default", "workspaceblobstore", "workspaceartifactstore"}


def test_datastore_under_trial_is_invisible_to_others(datastores: Datastores):
    """A trial may last half a minute, and others' errors list the datastores that there are."""
    datastores.create({**BLOBS, "account_name": "before"}, "blobs.yml")
    seen: list[Any] = []

    def ask(uri: str) -> None:
        with ThreadPoolExecutor(1) as others:
            seen.extend([uri, datastores.all(), others.submit(datastores.all).result()])

    datastores.ask = ask
    datastores.create(BLOBS, "blobs.yml")
    uri, here, elsewhere = seen
    assert uri == "azureml://datastores/blobs/paths/"
    assert set(here) == set(elsewhere) == {"blobs", "default", "workspaceblobstore", "workspaceartifactstore"}
    assert (here["blobs"].account_name, elsewhere["blobs"].account_name) == ("acme", "before")


def test_datastore_of_the_same_name_is_replaced_with_new_credentials(datastores: Datastores):
    datastores.create(BLOBS, "blobs.yml")
    first: Any = datastores.all()["blobs"]
    _, is_new = datastores.create({**BLOBS, "credentials": {"sas_token": "sig=abc"}}, "blobs.yml")
    second: Any = datastores.all()["blobs"]
    assert (is_new, first.credentials.sas_token, second.credentials.account_key) == (False, None, None)


def test_missing_datastore_is_refused_with_the_nearest_name(datastores: Datastores):
    datastores.create(BLOBS, "blobs.yml")
    for ask in (datastores.show, datastores.delete):
        with pytest.raises(NotFoundError, match="there is no datastore blob; known: blobs") as refused:
            ask("blob")
        assert refused.value.fix == "Did you mean `blobs`?"
    with pytest.raises(SpecError, match="means workspaceblobstore"):
        datastores.create({**BLOBS, "name": "default"}, "d.yml")


def test_server_without_a_folder_has_only_created_datastores(store: MemoryStore):
    there = Datastores(store, b"k" * 32)
    assert (there.names(), there.list()) == ([], [])
    with pytest.raises(NotFoundError, match="there is no datastore default"):
        there.show("default")
    there.create(BLOBS, "blobs.yml")
    assert [one.name for one in there.list()] == ["blobs"]

"""`drumbeat datastore` and `drumbeat data` as a user types them, against a server in memory."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

from drumbeat.cli.commands.data import data_table, entry_table, format_data, format_transfer, render_data
from drumbeat.cli.terminal.connect import MAKER
from drumbeat.client.resource_files import described
from drumbeat.client.store_transfers import Transfer
from drumbeat.model.api.data import DatastoreView, DataUse, DataView, EntryView
from drumbeat.model.errors import NotFoundError
from drumbeat.resources.kind import Kind
from tests.unit.cli.fake_server import Type, typing_in
from tests.unit.cli.samples import sample

if TYPE_CHECKING:
    from rich.table import Table

AT = datetime(2026, 11, 22, 12, tzinfo=UTC)
BLOBS = (
    "name: blobs\ntype: azure_blob\naccount_name: acme\ncontainer_name: train\n"
    "credentials: {account_key: 'env:ACME_KEY'}\n"
)
DIGITS = sample(DataView,
    "digits", "3", "uri_folder", "azureml://datastores/blobs/paths/d", "abcdef0123456789", AT, "train-1", "Digits",
    {"from": "us"}, 2, 2048, (DataUse("train-2", "inputs.data"),),
)  # fmt: skip


class Data:
    """What of a server these commands use."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []

    def resources(self, _: Kind[DatastoreView]) -> list[DatastoreView]:
        return [
            sample(
                DatastoreView, "blobs", "azure_blob", {"account_name": "acme", "container_name": "train"}, "account key"
            ),
            sample(
                DatastoreView,
                "workspaceblobstore",
                "folder",
                {"path": "/srv/d"},
                "none",
                is_default=True,
                is_builtin=True,
            ),
        ]

    def resource(self, kind: Kind[DatastoreView], name: str) -> DatastoreView:
        return next(one for one in self.resources(kind) if one.name == name)

    def create_resource(
        self, kind: Kind[DatastoreView], given: Path, *, sets: Sequence[str] = (), check: bool = True
    ) -> DatastoreView:
        document, _ = described(kind, given, sets)
        self.calls.append(("create_datastore", document, check))
        return sample(DatastoreView, document["name"], document["type"], document, "account key")

    def delete_resource(self, _: Kind[DatastoreView], name: str) -> None:
        self.calls.append(("delete_datastore", name))

    def data(self, name: str | None = None, *, archived: bool = False) -> list[DataView]:
        self.calls.append(("data", name))
        return [DIGITS]

    def get_data(self, name: str, version: str = "") -> DataView:
        self.calls.append(("get_data", name, version))
        if name != "digits":
            raise NotFoundError(f"there is no data {name}")
        return DIGITS

    def create_data(
        self, data: object, *, sets: Sequence[str] = (), on_bytes: Callable[[int], None], on_note: Callable[[str], None]
    ) -> DataView:
        self.calls.append(("create_data", data, tuple(sets)))
        on_bytes(2048)
        on_note("1 link leads out of the folder and is followed: b\x1b[2Jig")
        return DIGITS

    def delete_data(self, name: str, version: str) -> None:
        self.calls.append(("delete_data", name, version))

    def entries(self, uri: str) -> list[EntryView]:
        self.calls.append(("entries", uri))
        return [sample(EntryView, "a.csv", 2048), sample(EntryView, "sub", is_folder=True)]

    def upload_data(
        self, local: Path, uri: str, *, on_bytes: Callable[[int], None], on_note: Callable[[str], None]
    ) -> Transfer:
        on_note("2 links lead out of the folder and are followed: a, b")
        self.calls.append(("upload_data", str(local), uri))
        on_bytes(1)
        return Transfer(uri, 3, 2048, 1)

    def download_data(self, uri: str, to: Path, *, on_bytes: Callable[[int], None]) -> Transfer:
        self.calls.append(("download_data", uri, str(to)))
        on_bytes(1)
        return Transfer(uri, 3, 2048, 3)


@pytest.fixture
def server():
    there = Data()
    token = MAKER.set(lambda _: there)
    yield there
    MAKER.reset(token)


@pytest.fixture
def drumbeat(server: Data, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Type:
    (tmp_path / "blobs.yml").write_text(BLOBS)
    monkeypatch.setenv("TZ", "UTC")
    monkeypatch.setenv("ACME_KEY", "a2V5LW9mLWFjbWU=")
    return typing_in(tmp_path, monkeypatch)


@pytest.mark.feature("D1")
def test_a_datastore_is_made_with_a_secret_from_the_environment(drumbeat: Type, server: Data):
    shown = drumbeat("datastore", "create", "-f", "blobs.yml", "--no-check")
    assert shown.stdout == (
        "datastore blobs created: azure_blob, by account key (not contacted)\n"
        "  to name data in it, write: azureml://datastores/blobs/paths/PATH\n"
    )
    (_, document, check) = server.calls[0]
    assert (document["credentials"], check) == ({"account_key": "a2V5LW9mLWFjbWU="}, False)


@pytest.mark.feature("D1")
def test_a_secret_can_be_set_and_come_from_a_file(drumbeat: Type, server: Data, tmp_path: Path):
    (tmp_path / "key").write_text("ZnJvbS1hLWZpbGU=\n")
    assert (
        drumbeat("datastore", "create", "-f", "blobs.yml", "--set", "credentials.account_key=file:key").exit_code == 0
    )
    assert server.calls[0][1]["credentials"] == {"account_key": "ZnJvbS1hLWZpbGU="}


@pytest.mark.feature("D1")
def test_missing_secret_is_refused_and_none_printed(drumbeat: Type, server: Data, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("ACME_KEY")
    shown = drumbeat("datastore", "create", "-f", "blobs.yml")
    assert (shown.exit_code, server.calls) == (2, [])
    assert "the environment has no variable 'ACME_KEY'" in shown.stderr
    wrong = drumbeat("datastore", "create", "-f", "blobs.yml", "--set", "credentials.acount_key=hush-hush")
    assert wrong.exit_code == 2
    assert "hush-hush" not in wrong.stderr


@pytest.mark.feature("D1")
def test_datastores_are_listed_and_shown_without_secrets(drumbeat: Type):
    lines = [line.split() for line in drumbeat("datastore", "list").stdout.splitlines()[2:]]
    assert lines == [
        ["blobs", "azure_blob", "acme/train", "account", "key"],
        ["workspaceblobstore", "(default)", "folder", "/srv/d", "none"],
    ]
    shown = drumbeat("datastore", "show", "blobs").stdout
    assert "credentials     account key" in shown
    assert json.loads(drumbeat("datastore", "show", "blobs", "--json").stdout)["credentials"] == "account key"


@pytest.mark.feature("D1")
def test_a_datastore_is_forgotten(drumbeat: Type, server: Data):
    assert drumbeat("datastore", "delete", "blobs").stdout == "datastore blobs deleted; the files in it stay\n"
    assert server.calls == [("delete_datastore", "blobs")]


@pytest.mark.feature("D4")
def test_data_is_made_from_options_or_from_a_file(drumbeat: Type, server: Data):
    shown = drumbeat("data", "create", "digits", "--path", "./d", "--version", "3")
    assert shown.stdout == (
        "data digits:3 registered: uri_folder, 2 files, 2.0 KiB\n"
        "  in azureml://datastores/blobs/paths/d\n"
        "  to use it, write in the job's file: path: azureml:digits:3\n"
    )
    assert shown.stderr == "note: 1 link leads out of the folder and is followed: b\\x1b[2Jig\n"
    assert drumbeat("data", "create", "-f", "d.yml", "--set", "type=mltable", "--version", "4").exit_code == 0
    assert server.calls == [
        ("create_data", {"name": "digits", "path": "./d", "version": "3"}, ()),
        ("create_data", Path("d.yml"), ("type=mltable", 'version="4"')),
    ]


@pytest.mark.feature("D1")
@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("create",), "drumbeat data create digits --path ./digits"),
        (("create", "digits", "--path", "d", "--set", "type=mltable"), "--set changes a value of a file"),
        (("show", "azureml://datastores/x/paths/y"), "isn't the name of data"),
        (("show", "a:b:c"), "'a:b:c' isn't the name of data"),
        (("show", "digits@stable"), "'digits@stable' isn't the name of data"),
    ],
)
def test_invalid_options_are_refused(drumbeat: Type, server: Data, words: tuple[str, ...], says: str):
    shown = drumbeat("data", *words)
    assert (shown.exit_code, server.calls) == (2, [])
    assert says in shown.stderr


@pytest.mark.feature("D4")
def test_data_is_listed_shown_and_forgotten(drumbeat: Type, server: Data):
    assert "digits:3" in drumbeat("data", "list").stdout
    assert drumbeat("data", "list", "digits", "--json").stdout.startswith("[")
    shown = drumbeat("data", "show", "digits@latest").stdout
    for part in ("by job       train-1", "2 files, 2.0 KiB, abcdef012345", "from=us", "train-2   inputs.data"):
        assert part in shown
    assert "which version of digits?" in drumbeat("data", "delete", "digits").stderr
    assert drumbeat("data", "delete", "digits@latest").stdout.startswith("data digits:3 deleted")
    assert [call[0] for call in server.calls] == ["data", "data", "get_data", "get_data", "delete_data"]
    assert server.calls[-1] == ("delete_data", "digits", "3")


def test_names_of_others_do_nothing_to_the_terminal():
    uri = "azureml://datastores/d/paths/a\nb\x1b[2J"
    shown = "azureml://datastores/d/paths/a\\x0ab\\x1b[2J"
    made = replace(DIGITS, uri=uri, same_as="1")
    assert format_data(made).splitlines()[1:3] == [f"  in {shown}", "  version 1 has the same content"]
    assert format_transfer(Transfer(uri, 1, 1, 1), f"in {uri}").endswith(f"in {shown}")
    tables = [
        data_table([made]),
        render_data(made)[0],
        entry_table([sample(EntryView, "a\nb.txt", 1), sample(EntryView, "c\r", 0, True)]),
    ]
    cells = [str(one) for table in tables for column in cast("Table", table).columns for one in column.cells]
    assert shown in cells
    assert {"a\\x0ab.txt", "c\\x0d/"} <= {*cells}
    assert not any("\n" in one for one in cells)


@pytest.mark.feature("D10")
def test_files_of_stores_are_listed_and_moved(drumbeat: Type, server: Data, tmp_path: Path):
    uri = "azureml://datastores/blobs/paths/d"
    lines = [line.split() for line in drumbeat("data", "list", uri).stdout.splitlines()[2:]]
    assert lines == [["a.csv", "2.0", "KiB"], ["sub/"]]
    assert drumbeat("data", "upload", "here", uri).stdout == (
        f"1 file copied; 2 files there already; 2.0 KiB in all, in {uri}\n"
    )
    assert drumbeat("data", "download", uri, "got").stdout == f"3 files copied; 2.0 KiB in all, in {tmp_path / 'got'}\n"
    assert [call[0] for call in server.calls] == ["entries", "upload_data", "download_data"]

"""What a user's program asks of the API about datastores, data by name, and files in stores."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Any

import httpx
import pytest

from drumbeat.client import Client
from drumbeat.client.calls.data import UploadListener, upload_by_content
from drumbeat.client.connection import Connection
from drumbeat.client.store_transfers import Download
from drumbeat.model.api.data import Written
from drumbeat.model.errors import ConflictError, RefusedError, SpecError
from drumbeat.server.control import Control, Setting
from drumbeat.server.data.datastores import Datastores
from drumbeat.server.data.stores import StoreAccess
from drumbeat.server.home_folder import FolderArtifacts
from drumbeat.wiring import SystemClock
from tests.faces.api_house import BEARER, TOKEN, House, raw, served
from tests.real.store_servers import a_web_server
from tests.support.fake_engine import FakeEngine
from tests.support.memory_store import MemoryStore

KEY = "c2VjcmV0LWtleS1vZi10aGUtYWNjb3VudA=="
BLOBS: dict[str, Any] = {
    "name": "blobs", "type": "azure_blob", "account_name": "acme", "container_name": "train",
    "credentials": {"account_key": KEY},
}  # fmt: skip
HERE = "azureml://datastores/workspaceblobstore/paths"


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    for name in ("workspaceblobstore", "workspaceartifactstore"):
        (tmp_path / "stores" / name).mkdir(parents=True)
    engine, store = FakeEngine(cpus=100), MemoryStore()
    known = Datastores(store, b"k" * 32, str(tmp_path / "stores"))
    access = StoreAccess(known.all)
    setting = Setting(
        store, FolderArtifacts(tmp_path / "home"), {"local": engine}, SystemClock(), b"k" * 32, data=access,
        datastores=known,
    )  # fmt: skip
    control = Control(setting)
    control.start()
    try:
        with (
            served(control, tmp_path) as room,
            House(tmp_path, engine, control, room, control.addresses.here[0]).connected() as there,
        ):
            yield there
    finally:
        control.stop()
        access.close()


@pytest.fixture
def client(house: House) -> Iterator[Client]:
    with Client(url=house.url, token=TOKEN) as there:
        yield there


def create(house: House, document: dict[str, Any], *, check: bool = False):
    body = {"document": document, "source": "blobs.yml", "check": check}
    return house.http.post("/api/v1/datastores", json=body)


@pytest.mark.feature("D1")
def test_datastore_of_a_signed_link_to_one_file_is_made_and_read(house: House, client: Client, tmp_path: Path):
    with a_web_server(tmp_path) as web:
        web.put("files/digits.zip", b"zipped")
        web.query, web.folder_status = "X-Amz-Signature=5e1f", 403
        document = {"name": "given", "type": "http", "url": f"{web.url}/files/digits.zip"}
        refused = create(house, {**document, "credentials": {"query": "X-Amz-Signature=0000"}}, check=True)
        assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")
        assert create(house, {**document, "credentials": {"query": web.query}}, check=True).status_code == 201
        given = "azureml://datastores/given/paths/"
        assert [one.path for one in client.entries(given)] == ["digits.zip"]
        job = {"command": "cat ${{inputs.data}}", "inputs": {"data": {"type": "uri_file", "path": given}}}
        planned = house.http.post("/api/v1/plan", json={"document": job})
        assert planned.status_code == 200, planned.text
        assert client.download_data(given, tmp_path / "got").files == 1
        assert (tmp_path / "got" / "digits.zip").read_bytes() == b"zipped"


@pytest.mark.feature("D1")
def test_a_datastore_is_made_looked_at_and_forgotten_and_its_secret_never_comes_back(house: House):
    made = create(house, BLOBS)
    assert (made.status_code, create(house, BLOBS).status_code) == (201, 200)
    assert made.json()["credentials"] == "account key"
    assert made.json() == house.http.get("/api/v1/datastores/blobs").json()
    everything = made.text + house.http.get("/api/v1/datastores").text
    assert KEY not in everything
    assert "credentials" not in made.json()["document"]
    assert house.http.delete("/api/v1/datastores/blobs").status_code == 204
    gone = house.http.get("/api/v1/datastores/blobs")
    assert (gone.status_code, gone.json()["code"]) == (404, "not_found")


@pytest.mark.feature("D1")
@pytest.mark.parametrize(
    ("document", "says"),
    [
        ({**BLOBS, "type": "azure_blop"}, "Did you mean `azure_blob`?"),
        ({**BLOBS, "credentials": {"acount_key": KEY}}, "account_key"),
        ({**BLOBS, "account_name": "A C M E"}, "account_name"),
    ],
)
def test_invalid_datastore_is_refused_without_its_secret(house: House, document: dict[str, Any], says: str):
    answer = create(house, document)
    assert answer.status_code == 422
    assert says in answer.text
    assert KEY not in answer.text


@pytest.mark.feature("D1")
def test_missing_folder_is_refused_only_with_check(house: House, tmp_path: Path):
    folder = {"name": "share", "type": "folder", "path": str(tmp_path / "nowhere")}
    refused = create(house, folder, check=True)
    assert refused.status_code == 404
    assert refused.json()["what"] == "datastore share can't be reached: there is nothing there"
    assert refused.json()["where"] == f"blobs.yml.path: {tmp_path / 'nowhere'}"
    assert create(house, folder).status_code == 201


@pytest.mark.feature("D1")
def test_relative_folder_is_refused_and_resolved_by_the_client(
    house: House, client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    folder = {"name": "near", "type": "folder", "path": "near"}
    answer = create(house, folder)
    assert answer.json()["what"] == "`near` is a relative path"
    assert (answer.status_code, answer.json()["where"]) == (422, "blobs.yml.path")
    monkeypatch.chdir(tmp_path)
    for path in ("near", "./near", "file://near"):
        made = client.create_datastore({**folder, "path": path}, check=False)
        assert made.document["path"] == str(tmp_path / "near")


def folder_of(place: Path, **files: str) -> Path:
    for name, text in files.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(text)
    return place


@pytest.mark.feature("D4", "D10")
def test_data_is_uploaded_by_content_registered_and_fetched(client: Client, tmp_path: Path):
    place = folder_of(tmp_path / "digits", a="1", b="2")
    sent: list[int] = []
    first = client.create_data({"name": "digits", "path": str(place), "tags": {"from": "us"}}, on_bytes=sent.append)
    assert (first.version, first.files, first.size, first.tags, sum(sent)) == ("1", 2, 2, {"from": "us"}, 2)
    assert first.uri.startswith(f"{HERE}/LocalUpload/")
    assert client.create_data({"name": "digits", "path": str(place)}).version == "1"
    folder_of(place, a="3")
    assert client.create_data({"name": "digits", "path": str(place)}).version == "2"
    assert [one.version for one in client.data("digits")] == ["2", "1"]
    assert [one.version for one in client.data()] == ["2"]
    folder_of(place, a="1")
    again = client.create_data({"name": "digits", "path": str(place)})
    assert (again.version, again.same_as, client.get_data("digits").version) == ("3", "1", "3")
    assert (first.same_as, client.get_data("digits").same_as) == ("", "")
    client.delete_data("digits", "3")
    got = client.download_data("azureml:digits:1", tmp_path / "got")
    assert ((tmp_path / "got" / "a").read_text(), got.moved) == ("1", 2)
    client.delete_data("digits", "1")
    assert [one.version for one in client.data("digits")] == ["2"]


@pytest.mark.feature("D4", "D10")
def test_a_version_keeps_its_content(client: Client, tmp_path: Path):
    place = folder_of(tmp_path / "digits", a="1")
    client.create_data({"name": "digits", "path": str(place), "version": "2026"})
    folder_of(place, a="2")
    with pytest.raises(ConflictError, match="digits:2026"):
        client.create_data({"name": "digits", "path": str(place), "version": "2026"})


@pytest.mark.feature("D10")
def test_links_are_followed_and_those_that_lead_elsewhere_noted(client: Client, tmp_path: Path):
    store = folder_of(tmp_path / "store", **{"big/x": "12", "one": "3", "big/deep/y": "4"})
    place = folder_of(tmp_path / "digits", a="1", **{"in/z": "5"})
    (place / "near").symlink_to("a")
    (place / "beside").symlink_to("in")
    (place / "big").symlink_to(store / "big")
    (place / "in" / "one").symlink_to("../../store/one")
    heard: list[str] = []
    made = client.create_data({"name": "linked", "path": str(place)}, on_note=heard.append)
    assert heard == ["3 links lead out of the folder and are followed: beside/one, big, in/one"]
    names = [one.path for one in client.list_files("azureml:linked:1").files]
    assert names == ["a", "beside/one", "beside/z", "big/deep/y", "big/x", "in/one", "in/z", "near"]
    assert made.size == 9
    (place / "in" / "one").unlink()
    client.upload_data(place, f"{HERE}/linked", on_note=heard.append)
    assert heard[1:] == ["1 link leads out of the folder and is followed: big"]
    (place / "big").unlink()
    client.upload_data(place, f"{HERE}/linked", on_note=heard.append)
    assert len(heard) == 2


@pytest.mark.feature("D10")
@pytest.mark.parametrize(
    ("target", "says"),
    [
        ("nowhere", "this link leads nowhere: there is no nowhere"),
        ("../a/under", "this link leads nowhere: there is no ../a/under"),
        ("link", "this link leads in a circle, to link"),
        ("..", "this link leads in a circle, to .."),
        (".", "this link leads in a circle, to ."),
    ],
)
def test_a_link_that_leads_nowhere_or_round_is_refused_by_name(client: Client, tmp_path: Path, target: str, says: str):
    place = folder_of(tmp_path / "digits", a="1", **{"in/z": "5"})
    (place / "in" / "link").symlink_to(target)
    with pytest.raises(RefusedError) as refused:
        client.create_data({"name": "broken", "path": str(place)})
    assert (refused.value.what, refused.value.where) == (says, str(place / "in" / "link"))
    assert refused.value.fix.startswith("Remove it")


@pytest.mark.feature("D4")
def test_a_version_isnt_called_as_the_label_of_the_newest(client: Client, tmp_path: Path):
    place = folder_of(tmp_path / "digits", a="1")
    for version in ("latest", "Latest"):
        with pytest.raises(SpecError, match=f"a version can't be called `{version}`: `@latest` is the newest one"):
            client.create_data({"name": "labelled", "path": str(place), "version": version})
    with pytest.raises(SpecError, match="can't be called `latest`"):
        client.create_environment({"name": "labelled", "version": "latest", "image": "x"})
    with pytest.raises(SpecError, match="can't be called `latest`"):
        client.plan({"command": "x", "outputs": {"model": {"name": "m", "version": "latest"}}})


@pytest.mark.feature("D2", "D4")
@pytest.mark.parametrize("type_", ["mlflow_model", "custom_model", "triton_model"])
def test_local_model_is_registered_as_its_folder_with_a_tag(client: Client, tmp_path: Path, type_: str):
    folder = tmp_path / "mod"
    folder.mkdir()
    (folder / "MLmodel").write_text("flavors: {}")
    plain = client.create_data({"name": "mod", "path": str(folder)})
    made = client.create_data({"name": "mod", "path": str(folder), "type": type_, "tags": {"from": "us"}})
    assert (made.type, made.tags) == ("uri_folder", {"from": "us", "model_type": type_})
    assert (plain.version, made.version, made.kind) == ("1", "2", type_)
    assert client.create_data({"name": "mod", "path": str(folder), "type": type_}).version == "2"


@pytest.mark.feature("D2")
def test_model_of_one_file_is_refused_with_the_next_step(client: Client, tmp_path: Path):
    (tmp_path / "model.pkl").write_text("weights")
    with pytest.raises(SpecError, match="this is a file, and the type is custom_model") as refused:
        client.create_data({"name": "mod", "path": str(tmp_path / "model.pkl"), "type": "custom_model"})
    assert refused.value.fix == "Name the folder that it is in, or write `type: uri_file`."


@pytest.mark.feature("D2", "D10")
def test_single_file_can_be_registered(client: Client, tmp_path: Path):
    file = folder_of(tmp_path, **{"x.csv": "1,2"}) / "x.csv"
    made = client.create_data({"name": "table", "type": "uri_file", "path": str(file)})
    assert (made.files, made.uri.rsplit("/", 1)[1]) == (1, "x.csv")
    assert client.create_data({"name": "table", "path": str(file)}).version == made.version
    with pytest.raises(SpecError, match="this is a file, and the type is uri_folder"):
        client.create_data({"name": "table", "path": str(file), "type": "uri_folder"})


@pytest.mark.feature("D2")
@pytest.mark.parametrize(
    ("table", "says"),
    [
        ("paths:\n- file: ./a.csv\n- pattern: ./*.csv\n- folder: ./sub\n", ""),
        ("paths:\n- file: ./b.csv\n", "file ./b.csv doesn't exist"),
        ("paths:\n- pattern: ./*.tsv\n", "pattern ./*.tsv doesn't exist"),
        ("paths:\n- folder: azureml://datastores/nope/paths/x\n", "can't be read"),
        ("paths: []\n", "it has no list `paths`"),
        ("paths:\n- fil: a\n", "each of `paths` has one of"),
        (None, "there is no file MLTable in it"),
    ],
)
def test_table_is_validated_before_it_is_registered(client: Client, tmp_path: Path, table: str | None, says: str):
    place = folder_of(tmp_path / "table", **{"a.csv": "1", "sub/c.csv": "3", **({"MLTable": table} if table else {})})
    asked = {"name": "table", "type": "mltable", "path": str(place)}
    if not says:
        assert client.create_data(asked).type == "mltable"
        return
    with pytest.raises(SpecError) as refused:
        client.create_data(asked)
    assert says in str(refused.value)
    assert refused.value.where.startswith(str(place / "MLTable") if table else str(place))
    assert client.data() == []
    assert uploaded(tmp_path) == []


def uploaded(home: Path) -> list[str]:
    """The files of all uploads."""
    return sorted(one.name for one in (home / "stores").rglob("*") if one.is_file())


@pytest.mark.feature("D10")
def test_refused_upload_is_removed_unless_in_use(client: Client, tmp_path: Path):
    place = folder_of(tmp_path / "digits", a="1")
    client.create_data({"name": "digits", "path": str(place), "version": "1"})
    kept = uploaded(tmp_path)
    assert kept == [".drumbeat-manifest.json", "a"]
    for _ in range(2):
        with pytest.raises(SpecError, match="no file MLTable"):
            client.create_data({"name": "table", "type": "mltable", "path": str(place)})
        assert uploaded(tmp_path) == kept
    folder_of(place, a="2")
    with pytest.raises(ConflictError, match="digits:1"):
        client.create_data({"name": "digits", "path": str(place), "version": "1"})
    assert uploaded(tmp_path) == kept
    file = folder_of(tmp_path, **{"x.csv": "1,2"}) / "x.csv"
    with pytest.raises(ConflictError, match="digits:1"):
        client.create_data({"name": "digits", "type": "uri_file", "path": str(file), "version": "1"})
    assert uploaded(tmp_path) == kept


class SlowConnection(Connection):
    """One over which no file goes before `may_send` is set."""

    has_begun, may_send = threading.Event(), threading.Event()

    def another(self) -> Connection:
        return SlowConnection(self.where, is_starting=self.is_starting, idle_stop_s=self.idle_stop_s)

    def upload(self, *args: Any, **options: Any) -> httpx.Response:
        self.has_begun.set()
        assert self.may_send.wait(60)
        return super().upload(*args, **options)


@pytest.mark.feature("D4", "D10")
def test_two_uploads_of_the_same_folder_at_once_make_one_version(client: Client, tmp_path: Path):
    place = folder_of(tmp_path / "digits", **{f"{number:02}": str(number) for number in range(20)})
    slow = SlowConnection(client.connection.where)
    SlowConnection.has_begun.clear()
    SlowConnection.may_send.clear()
    with closing(slow), ThreadPoolExecutor(1) as pool:
        other = pool.submit(upload_by_content, slow, place, "workspaceblobstore", UploadListener())
        assert SlowConnection.has_begun.wait(60)
        first = client.create_data({"name": "digits", "path": str(place)})
        listed = client.list_files(first.uri)
        SlowConnection.may_send.set()
        there = other.result(60)
    assert (there.uri, there.is_new) == (first.uri, False)
    again = client.create_data({"name": "digits", "path": there.uri})
    assert (again.version, len(client.data("digits"))) == (first.version, 1)
    assert client.list_files(first.uri) == listed
    os.utime(tmp_path / "stores" / first.uri.removeprefix("azureml://datastores/").replace("/paths/", "/", 1) / "07")
    assert Download(client.connection, listed, tmp_path / "got", lambda _: None).run().moved == 20


@pytest.mark.feature("D10")
def test_refused_upload_stays_while_another_client_sends_to_it(house: House, client: Client, tmp_path: Path):
    place = folder_of(tmp_path / "digits", a="1", b="2")
    uri = upload_by_content(client.connection, place, "workspaceblobstore", UploadListener(), is_sending=False).uri
    theirs = {"uri": uri, "by": "bob on another machine", "complete": False, "files": {}}
    assert house.http.post("/api/v1/storage/manifest", json=theirs).status_code == 204
    with pytest.raises(SpecError, match="no file MLTable"):
        client.create_data({"name": "table", "type": "mltable", "path": str(place)})
    assert uploaded(tmp_path) == [".drumbeat-manifest.json", "a", "b"]
    assert house.http.post("/api/v1/storage/manifest", json=theirs).status_code == 204
    assert [one.path for one in client.list_files(uri).files] == ["a", "b"]


@pytest.mark.feature("D4", "D10")
def test_file_uploaded_twice_keeps_its_listing(house: House, client: Client, tmp_path: Path):
    file = folder_of(tmp_path, **{"x.csv": "1,2"}) / "x.csv"
    uri = upload_by_content(client.connection, file, "workspaceblobstore", UploadListener()).uri
    listed = client.list_files(uri)
    params = {"uri": uri.rpartition("/")[0], "path": "x.csv"}
    sent = house.http.put("/api/v1/storage/file", params=params, content=b"1,2")
    assert sent.json()["sha256"] == hashlib.sha256(b"1,2").hexdigest()
    assert client.list_files(uri) == listed
    sent = house.http.put("/api/v1/storage/file", params=params, content=b"3,4")
    assert client.list_files(uri) != listed


@pytest.mark.feature("D4", "D10")
def test_version_with_replaced_files_is_not_downloaded(client: Client, tmp_path: Path):
    for content in ("first", "other"):
        client.upload_data(folder_of(tmp_path / "model", a=content), f"{HERE}/model")
        client.create_data({"name": "model", "path": f"{HERE}/model"})
    with pytest.raises(RefusedError, match=r"data model:1 has changed since it was registered: .* as version 2"):
        client.list_files("azureml:model:1")
    assert client.download_data("azureml:model:2", tmp_path / "got").files == 1
    client.upload_data(folder_of(tmp_path / "model", a="larger"), f"{HERE}/model")
    with pytest.raises(ConflictError, match=r"model:2 .*: then 1 file with 5 bytes, now 1 file with 6 bytes"):
        client.list_files("azureml:model@latest")


@pytest.mark.feature("D4", "D10")
def test_refused_registration_removes_no_files_of_others(house: House, client: Client, tmp_path: Path):
    client.upload_data(folder_of(tmp_path / "theirs", a="1"), f"{HERE}/theirs")
    client.create_data({"name": "digits", "path": str(folder_of(tmp_path / "mine", a="1"))})
    (mine,) = client.data("digits")
    for uri in (f"{HERE}/theirs", mine.uri):
        body = {"document": {"name": "t", "type": "mltable", "path": uri}, "is_uploaded": True}
        assert house.http.post("/api/v1/data", json=body).status_code == 422
    assert uploaded(tmp_path) == [".drumbeat-manifest.json"] * 2 + ["a"] * 2


@pytest.mark.feature("D10")
def test_files_of_a_store_are_listed_sent_and_fetched(client: Client, tmp_path: Path):
    place = folder_of(tmp_path / "tree", **{"a": "1" * 100_000, "sub/b": "2"})
    assert client.upload_data(place, f"{HERE}/tree").moved == 2
    assert client.upload_data(place, f"{HERE}/tree").moved == 0
    assert [(one.path, one.is_folder) for one in client.entries(f"{HERE}/tree")] == [("a", False), ("sub", True)]
    assert client.upload_data(place / "a", f"{HERE}/one").files == 1
    assert client.download_data(f"{HERE}/one/a", tmp_path / "got").files == 1
    assert (tmp_path / "got" / "a").read_text() == "1" * 100_000


def kept_as(home: Path, path: str) -> str:
    return (home / "stores" / "workspaceblobstore" / path).read_text()


@pytest.mark.feature("D10")
def test_upload_of_a_folder_sends_again_what_a_single_file_replaced(client: Client, tmp_path: Path):
    model = folder_of(tmp_path / "model", a="a", b="v1", **{"sub/c": "c1"})
    assert client.upload_data(model, f"{HERE}/model").moved == 3
    folder_of(tmp_path / "new", b="v2", c="c2")
    client.upload_data(tmp_path / "new" / "b", f"{HERE}/model")
    client.upload_data(tmp_path / "new" / "c", f"{HERE}/model/sub")
    assert client.download_data(f"{HERE}/model", tmp_path / "got").files == 3
    assert [(tmp_path / "got" / name).read_text() for name in ("b", "sub/c")] == ["v2", "c2"]
    assert client.upload_data(model, f"{HERE}/model").moved == 2
    assert [kept_as(tmp_path, f"model/{name}") for name in ("b", "sub/c")] == ["v1", "c1"]


@pytest.mark.feature("D10")
def test_upload_of_a_folder_resends_files_replaced_by_an_overlapping_one(client: Client, tmp_path: Path):
    outer = folder_of(tmp_path / "outer", a="a", **{"sub/b": "v1", "sub/c": "c"})
    inner = folder_of(tmp_path / "inner", b="v2", c="c")
    assert client.upload_data(outer, f"{HERE}/m").moved == 3
    for _ in range(2):
        client.upload_data(inner, f"{HERE}/m/sub")
        assert kept_as(tmp_path, "m/sub/b") == "v2"
        client.upload_data(outer, f"{HERE}/m")
        assert kept_as(tmp_path, "m/sub/b") == "v1"
    assert client.upload_data(outer, f"{HERE}/m").moved == 0


@pytest.mark.feature("D10")
def test_folder_that_lacks_a_file_of_its_manifest_is_whole_after_an_upload(client: Client, tmp_path: Path):
    place = folder_of(tmp_path / "pair", a="a", b="b")
    client.upload_data(place, f"{HERE}/pair")
    (place / "b").unlink()
    (tmp_path / "stores" / "workspaceblobstore" / "pair" / "b").unlink()
    with pytest.raises(ConflictError, match="b is in its manifest but doesn't exist"):
        client.list_files(f"{HERE}/pair")
    assert client.upload_data(place, f"{HERE}/pair").moved == 0
    assert [one.path for one in client.list_files(f"{HERE}/pair").files] == ["a"]


@pytest.mark.feature("D10")
def test_folder_in_a_store_shows_a_name_that_is_not_utf8_with_escapes(client: Client, tmp_path: Path):
    client.upload_data(folder_of(tmp_path / "tree", a="1"), f"{HERE}/tree")
    (tmp_path / "stores" / "workspaceblobstore" / "tree" / os.fsdecode(b"caf\xe9.pt")).touch()
    assert [one.path for one in client.entries(f"{HERE}/tree")] == ["a", r"caf\udce9.pt"]
    with pytest.raises(RefusedError, match="can't be the name of a file on a node"):
        client.list_files(f"{HERE}/tree")


@pytest.mark.feature("D2")
def test_an_arm_id_names_the_same_files_as_the_short_address(client: Client, tmp_path: Path):
    client.upload_data(folder_of(tmp_path / "tree", one="1"), f"{HERE}/tree")
    place = HERE.removeprefix("azureml://")
    workspace = "/subscriptions/s/resourceGroups/g/providers/M/workspaces/w"
    assert [one.path for one in client.entries(f"{workspace}/{place}/tree")] == ["one"]


@pytest.mark.feature("D10")
@pytest.mark.parametrize(
    ("text", "wanted", "status", "told"),
    [
        ("0123456789", "bytes=2-4", 206, "bytes 2-4/10"),
        ("0123456789", "bytes=9-100", 206, "bytes 9-9/10"),
        ("0123456789", "bytes=10-", 416, "bytes */10"),
        ("0123456789", "bytes=100-200", 416, "bytes */10"),
        ("0123456789", "bytes=-0", 416, "bytes */10"),
        ("", "bytes=0-", 200, None),
        ("", "bytes=1-", 416, "bytes */0"),
    ],
)
def test_range_of_a_file_in_a_store(
    house: House, client: Client, tmp_path: Path, text: str, wanted: str, status: int, told: str | None
):
    client.upload_data(folder_of(tmp_path / "tree", a=text), f"{HERE}/tree")
    file = next(one for one in client.list_files(f"{HERE}/tree").files if one.path == "a")
    asked: dict[str, Any] = {"params": {"uri": f"{HERE}/tree"}, "json": asdict(file), "headers": {"Range": wanted}}
    answer = house.http.post("/api/v1/storage/file", **asked)
    assert (answer.status_code, answer.headers.get("content-range")) == (status, told)
    if status == 416:
        assert answer.json()["code"] == "refused"
    else:
        start, end = (int(one) for one in told.split(" ")[1].split("/")[0].split("-")) if told else (0, -1)
        assert answer.text == text[start : end + 1]


@pytest.mark.feature("D10")
def test_file_in_a_store_of_less_than_no_bytes_is_refused(house: House):
    file = {"path": "a", "size": -5, "key": "k"}
    answer = house.http.post("/api/v1/storage/file", params={"uri": f"{HERE}/tree"}, json=file)
    assert (answer.status_code, answer.json()["where"]) == (422, "size")


@pytest.mark.feature("D10")
def test_partial_file_resumes(client: Client, tmp_path: Path):
    client.upload_data(folder_of(tmp_path / "tree", a="0123456789" * 1000), f"{HERE}/tree")
    file = client.list_files(f"{HERE}/tree").files[0]
    (tmp_path / "got").mkdir()
    (tmp_path / "got" / f".a.{file.key[:12]}.part").write_text("0123456789" * 300)
    seen: list[int] = []
    client.download_data(f"{HERE}/tree", tmp_path / "got", on_bytes=seen.append)
    assert (tmp_path / "got" / "a").read_text() == "0123456789" * 1000
    assert seen[0] == 3000


@pytest.mark.feature("D10")
def test_files_with_long_names_and_same_content_are_downloaded_separately(client: Client, tmp_path: Path):
    names = ["数" * 80 + end for end in ("甲", "乙")] + ["x" * 250 + end for end in "abcdef"]
    client.upload_data(folder_of(tmp_path / "tree", **dict.fromkeys(names, "0123456789" * 300_000)), f"{HERE}/tree")
    assert client.download_data(f"{HERE}/tree", tmp_path / "got").moved == 8
    assert sorted(one.name for one in (tmp_path / "got").iterdir()) == sorted(names)
    assert {(tmp_path / "got" / name).stat().st_size for name in names} == {3_000_000}


@pytest.mark.parametrize("path", ["../x", "/x", "a//b", "a/../../b", "."])
@pytest.mark.feature("X5")
def test_no_path_leaves_its_folder(house: House, path: str):
    params = {"uri": HERE, "path": path}
    answer = house.http.put("/api/v1/storage/file", params=params, content=b"x")
    assert (answer.status_code, answer.json()["code"]) == (422, "refused")


@pytest.mark.parametrize(
    "uri", ["file:///etc/passwd", "/etc/passwd", "x", "azureml://datastores/workspaceblobstore/paths/../x"]
)
@pytest.mark.feature("X5")
def test_files_of_the_servers_machine_cannot_be_accessed(house: House, uri: str):
    for answer in (
        house.http.get("/api/v1/storage/listing", params={"uri": uri}),
        house.http.get("/api/v1/storage/entries", params={"uri": uri}),
        house.http.put("/api/v1/storage/file", params={"uri": uri, "path": "x"}, content=b"x"),
    ):
        assert answer.status_code == 422, answer.text


@pytest.mark.feature("X1")
def test_a_token_is_needed(house: House):
    for path in ("datastores", "data", "storage/entries?uri=x"):
        assert raw(house, f"/api/v1/{path}", Authorization="Bearer wrong")[0] == 401


@pytest.mark.feature("D2")
def test_a_local_path_that_isnt_sent_is_refused(house: House):
    answer = house.http.post("/api/v1/data", json={"document": {"name": "d", "path": "./here"}})
    assert (answer.status_code, answer.json()["what"]) == (422, "./here doesn't exist on the server")


@pytest.mark.feature("D10")
def test_empty_upload_is_refused(client: Client, tmp_path: Path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(RefusedError, match="no file in this folder"):
        client.upload_data(tmp_path / "empty", f"{HERE}/x")
    with pytest.raises(RefusedError, match="there is nothing there"):
        client.upload_data(tmp_path / "missing", f"{HERE}/x")


def test_slow_writes_to_stores_do_not_delay_snapshots(house: House, monkeypatch: pytest.MonkeyPatch):
    begun, may_end = threading.Semaphore(0), threading.Event()

    def write(uri: str, path: str, pieces: Iterable[bytes], _size: int) -> Written:
        begun.release()
        may_end.wait(60)
        content = b"".join(pieces)
        return Written(path, len(content), hashlib.sha256(content).hexdigest())

    monkeypatch.setattr(house.control.data, "write", write)

    def put(number: int) -> int:
        with httpx.Client(base_url=house.url, headers=BEARER, timeout=90, trust_env=False) as http:
            params = {"uri": HERE, "path": str(number)}
            return http.put("/api/v1/storage/file", params=params, content=b"x").status_code

    with ThreadPoolExecutor(8) as pool:
        waiting = [pool.submit(put, number) for number in range(8)]
        try:
            assert all(begun.acquire(timeout=60) for _ in waiting), "as many as are let in"
            digest = hashlib.sha256(b"tar").hexdigest()
            assert house.http.put(f"/api/v1/snapshots/{digest}", content=b"tar").status_code == 201
        finally:
            may_end.set()
        assert [one.result() for one in waiting] == [200] * 8

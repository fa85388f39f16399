"""`drumbeat model` and `Client` on models, against a real server in this process: from files to verified offline."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import Result

from drumbeat.client import Client
from drumbeat.model.errors import UnknownNameError
from drumbeat.server.control import Control, Setting
from drumbeat.server.data.datastores import Datastores
from drumbeat.server.data.stores import StoreAccess
from drumbeat.server.home_folder import FolderArtifacts
from drumbeat.wiring import SystemClock
from tests.faces.api_house import TOKEN, House, served
from tests.support.fake_engine import FakeEngine
from tests.support.memory_store import MemoryStore
from tests.unit.cli.fake_server import Type, typing_in

pytestmark = pytest.mark.feature("R1")


@pytest.fixture
def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    for name in ("workspaceblobstore", "workspaceartifactstore"):
        (tmp_path / "stores" / name).mkdir(parents=True)
    engine, store = FakeEngine(cpus=100), MemoryStore()
    datastores = Datastores(store, b"k" * 32, str(tmp_path / "stores"))
    access = StoreAccess(datastores.all)
    artifacts = FolderArtifacts(tmp_path / "home")
    control = Control(
        Setting(store, artifacts, {"local": engine}, SystemClock(), b"k" * 32, data=access, datastores=datastores)
    )
    control.start()
    try:
        with served(control, tmp_path) as room:
            house = House(tmp_path, engine, control, room, control.addresses.here[0])
            monkeypatch.setenv("DRUMBEAT_SERVER", house.url)
            monkeypatch.setenv("DRUMBEAT_TOKEN", TOKEN)
            with Client(url=house.url, token=TOKEN) as made:
                yield made
    finally:
        control.stop()
        access.close()


@pytest.fixture
def typed(client: Client, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Type:
    folder = tmp_path / "net" / "data"
    folder.mkdir(parents=True)
    (folder.parent / "MLmodel").write_text("flavors: {}")
    (folder / "w.bin").write_bytes(b"weights")
    type_words = typing_in(tmp_path, monkeypatch)

    def type_line(line: str) -> Result:
        return type_words(*line.split())

    return type_line


def test_model_goes_from_a_folder_to_being_verified_without_a_server(typed: Type, tmp_path: Path):
    created = typed("model create digits --path net --type mlflow_model")
    assert created.stdout.startswith("model digits:1 registered: mlflow_model, 2 files, 18 B")
    typed("model alias digits:1 champion")
    assert "digits:1 is in stage Production" in typed("model stage digits:1 Production").stdout
    shown = typed("model show digits@champion").stdout
    assert [word in shown for word in ("Production", "champion", "statement ", "a person")] == [True] * 4
    assert typed("model verify digits").exit_code == 0
    (tmp_path / "key.pem").write_text(typed("model key").stdout)
    assert typed("model export digits:1 --to out").exit_code == 0
    offline = typed("model verify --folder out --key key.pem")
    assert (offline.exit_code, "model digits:1 is what was signed" in offline.stdout) == (0, True)
    (tmp_path / "out/model/data/w.bin").write_bytes(b"Weights")
    changed = typed("model verify --folder out --key key.pem")
    assert (changed.exit_code, "✗ files: data/w.bin has changed" in changed.stdout) == (1, True)


def test_archived_model_is_listed_only_when_all_are(typed: Type):
    typed("model create digits --path net")
    typed("model archive digits")
    assert "no models" in typed("model list").stdout
    assert "digits:1" in typed("model list --all").stdout
    typed("model restore digits:1")
    assert "digits:1" in typed("model list digits").stdout
    assert "deleted" in typed("model delete digits:1 --yes").stdout
    assert "there is no model digits" in typed("model show digits").stderr


def test_model_file_has_keys_of_azure(typed: Type, tmp_path: Path):
    keys = "stage: Development\nproperties: {a: b}\nflavors: {sklearn: {}}\ntags: {t: u}\ndescription: The net\n"
    (tmp_path / "model.yml").write_text(f"name: digits\nversion: 1.0-rc\npath: net/data/w.bin\n{keys}")
    made = typed("model create -f model.yml")
    assert "model digits:1.0-rc registered: custom_model, 1 file, 7 B" in made.stdout
    shown = typed("model show digits --json").stdout
    for text in ('"stage": "Development"', '"a": "b"', '"sklearn"', '"t": "u"', '"description": "The net"'):
        assert text in shown


def test_model_is_an_input_by_alias_and_data_of_its_name_by_type(client: Client, typed: Type, tmp_path: Path):
    typed("model create digits --path net")
    client.set_model_alias("digits", "1", "champion")
    job = {"command": "ls ${{inputs.m}}", "inputs": {"m": {"type": "custom_model", "path": "azureml:digits@champion"}}}
    assert any("azureml:digits@champion is version 1 now" in note for note in client.plan(job).notes)
    (tmp_path / "net/data/w.bin").write_bytes(b"other")
    client.create_data({"name": "digits", "version": "1", "path": str(tmp_path / "net")})
    model, data = client.model("digits"), client.get_data("digits", "1")
    for type_, uri in (("custom_model", model.uri), ("uri_folder", data.uri)):
        one = {"command": "ls ${{inputs.m}}", "inputs": {"m": {"type": type_, "path": "azureml:digits:1"}}}
        assert [each.uri for each in client.plan(one).plan.inputs] == [uri]


def test_job_file_that_names_a_missing_alias_says_how_to_set_it(client: Client, typed: Type):
    typed("model create digits --path net")
    job = {"command": "x", "inputs": {"m": {"type": "custom_model", "path": "azureml:digits@best"}}}
    with pytest.raises(UnknownNameError, match="model digits has no alias 'best'") as refused:
        client.plan(job)
    assert "drumbeat model alias digits:VERSION best" in str(refused.value)

"""The registry of models: numbers, aliases, stages, archives, statements and what verifying finds."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from drumbeat.model.errors import ConflictError, NotFoundError, RefusedError, SpecError
from drumbeat.model.input_listing import ListedFile
from drumbeat.server.data.manifests import Manifest, ManifestDataAccess, put
from drumbeat.server.models.mlflow_rows import ModelRows
from drumbeat.server.models.model_files import read_files
from drumbeat.server.models.models import DangerousModelError, Models, NewModel
from drumbeat.server.models.scan import Scan
from drumbeat.server.resources.records import Resource
from tests.support.memory_data import ROOT, MemoryData
from tests.support.memory_store import MemoryStore
from tests.support.registries import make_models

pytestmark = pytest.mark.feature("R1")

FILES = {"net/MLmodel": b"flavors: {}", "net/data/w.bin": b"weights"}
NET = f"{ROOT}/net"


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def data() -> MemoryData:
    return MemoryData(FILES, tells_sha256=False)


@pytest.fixture
def models(store: MemoryStore, data: MemoryData) -> Models:
    return make_models(store, data)


def register(models: Models, name: str = "net", version: str = "", content: bytes = b"") -> str:
    new = NewModel(name=name, uri=NET, version=version, more={"tags": {"n": content.decode()}})
    return models.register(new)[0].version


def test_content_of_newest_version_is_that_version(models: Models, data: MemoryData):
    document = {"name": "net", "path": NET}
    first, is_new = models.create(document)
    again, is_second_new = models.create(document)
    assert (first.version, is_new, again.version, is_second_new) == ("1", True, "1", False)
    typed, _ = models.create({**document, "type": "triton_model"})
    assert (typed.version, typed.digest == first.digest) == ("2", True)
    data.files["net/data/w.bin"] = b"others"
    changed, _ = models.create(document)
    assert (changed.version, changed.digest != first.digest) == ("3", True)


def test_model_of_one_file_is_registered_as_that_file(models: Models):
    made, _ = models.create({"name": "w", "path": f"{NET}/data/w.bin"})
    assert (made.is_file, made.files) == (True, 1)
    assert models.verify("w", "1").is_valid


def test_number_of_deleted_version_is_not_given_again(models: Models):
    assert [register(models), register(models)] == ["1", "2"]
    models.delete("net", "2")
    models.delete("net", "1")
    assert register(models) == "3"


def test_number_that_data_of_the_name_has_is_not_given_to_a_model(models: Models, store: MemoryStore):
    store.add_version(Resource("data", "net", document={"uri": "x", "type": "uri_folder"}))
    assert register(models) == "2"


def test_version_with_other_content_is_refused(models: Models, data: MemoryData):
    register(models, version="1.0")
    data.files["net/data/w.bin"] = b"others"
    with pytest.raises(ConflictError, match=r"model net:1\.0 exists already with other content"):
        register(models, version="1.0")


def test_alias_names_one_version_and_goes_with_it(models: Models):
    register(models)
    register(models)
    models.set_alias("net", "champion", "1")
    models.set_alias("net", "champion", "2")
    assert [(one.version, one.aliases) for one in models.list("net")] == [("2", ("champion",)), ("1", ())]
    assert models.show("net", "@champion").version == "2"
    models.delete("net", "2")
    with pytest.raises(NotFoundError, match="model net has no alias champion"):
        models.show("net", "@champion")
    for word in ("latest", "v3", "a b"):
        with pytest.raises(SpecError):
            models.set_alias("net", word, "1")


def test_archived_version_is_hidden_and_not_the_newest(models: Models):
    register(models)
    register(models)
    models.set_archived("net", "2", is_archived=True)
    assert [one.version for one in models.list("net")] == ["1"]
    assert [one.version for one in models.list("net", archived=True)] == ["2", "1"]
    assert models.show("net").version == "1"
    models.set_archived("net", "", is_archived=False)
    assert models.show("net").version == "2"


def test_any_changed_byte_is_named(models: Models, data: MemoryData):
    register(models)
    assert models.verify("net", "1").is_valid
    for path, content in FILES.items():
        for place in range(len(content)):
            data.files[path] = content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]
            check = models.verify("net", "1")
            wrong = [one.sentence for one in check.findings if one.state == "wrong"]
            assert (check.is_valid, wrong) == (False, [f"{path.removeprefix('net/')} has changed"])
        data.files[path] = content
    assert models.verify("net", "1").is_valid


def test_digests_of_a_manifest_are_taken_for_the_statement(data: MemoryData):
    told = {path.removeprefix("net/"): (len(each), hashlib.sha256(each).hexdigest()) for path, each in FILES.items()}
    put(data, NET, Manifest("ada", is_complete=True, files=told))
    reads: list[str] = []

    class Counting(MemoryData):
        def read(self, uri: str, file: ListedFile, offset: int = 0, length: int | None = None) -> Iterator[bytes]:
            reads.append(file.path)
            return super().read(uri, file, offset, length)

    counting = Counting(data.files, tells_sha256=False)
    files = read_files(ManifestDataAccess(counting), NET, is_file=False)
    assert dict(files.sums) == {path: sha256 for path, (_, sha256) in told.items()}
    assert not [path for path in reads if path in told]


def test_dangerous_pickle_is_refused_unless_it_is_trusted(store: MemoryStore, data: MemoryData):
    def find(_root: Path, paths: Sequence[str]) -> Scan:
        return Scan("dangerous", "a scanner", (f"{paths[0]}: os.system",))

    models = make_models(store, data, scanner=find)
    with pytest.raises(DangerousModelError, match=r"could run harmful code: dangerous: MLmodel: os\.system") as refused:
        models.create({"name": "net", "path": NET})
    assert refused.value.fix.endswith(f"--path {NET} --trust")
    assert models.list() == []
    made, _ = models.create({"name": "net", "path": NET}, is_trusted=True)
    assert models.show("net").scan == made.scan == "dangerous: MLmodel: os.system (a scanner)"


def test_version_whose_files_come_later_is_signed_when_it_is_verified(
    models: Models, store: MemoryStore, data: MemoryData
):
    data.files.clear()
    rows = ModelRows(store, models, data)
    rows.register(NewModel(name="net", uri=NET, type="mlflow_model"), is_readable=True)
    shown = models.show("net")
    assert (shown.statement, shown.problem.startswith("its files couldn't be read")) == ("", True)
    with pytest.raises(RefusedError, match="model net:1 can't be signed"):
        models.verify("net", "1")
    data.files.update(FILES)
    assert models.verify("net", "1").is_valid
    assert models.show("net").statement


def test_mlflow_sees_the_same_rows_and_its_four_stages(models: Models, store: MemoryStore, data: MemoryData):
    rows = ModelRows(store, models, data)
    register(models)
    register(models, version="1.0-rc")
    models.set_stage("net", "1", "production")
    (version,) = rows.documents("model", "net")
    assert (version.version, version.body["stage"]) == (1, "Production")
    models.set_stage("net", "1", "Development")
    assert rows.document("model", "net", 1).body["stage"] == "None"
    assert models.show("net", "1").stage == "Development"
    assert rows.document("model", "net", 1).body["source"] == "mlflow-artifacts:/registered/net/1"

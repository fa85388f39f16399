"""Models of a database of 0.2: data with a model's type, and MLflow's documents among the metrics."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from sqlalchemy import text

from drumbeat.model.metrics import RunCreated
from drumbeat.server.database import make_store
from drumbeat.server.database.database import Database, parse_url
from drumbeat.server.database.upgrade import JOBS, upgrade
from drumbeat.server.metrics.earlier_models import EARLIER, EarlierModels
from drumbeat.server.metrics.metric_records import Document
from drumbeat.server.models.models import NewModel
from tests.support.memory_data import ROOT, MemoryData
from tests.support.memory_metrics import MemoryMetricStore
from tests.support.memory_store import MemoryStore
from tests.support.registries import make_models

pytestmark = [pytest.mark.contract, pytest.mark.feature("U2", "R1")]

AT = "2031-05-06 12:00:00.000000"
RUN = "a" * 32


def _row(number: int, name: str, version: str, document: dict[str, Any]) -> dict[str, Any]:
    names = {"name": json.dumps(name), "version": json.dumps(version)}
    return {"number": number, **names, "document": json.dumps(document), "at": AT}


def test_data_of_a_model_type_becomes_a_model_with_its_number_and_its_users(tmp_path: Path):
    url = f"sqlite:///{tmp_path}/drumbeat.db"
    old = Database(parse_url(url))
    upgrade(old, replace(JOBS, head="0018"))
    model = {"type": "uri_folder", "uri": "azureml://m", "tags": {"model_type": "mlflow_model", "k": "v"}, "files": 1}
    plain = {"type": "uri_folder", "uri": "azureml://d", "tags": {"model_type": "resnet"}}
    insert = (
        "INSERT INTO resources (number, kind, name, version, digest, created_at, made_by, document, sealed)"
        " VALUES (:number, 'data', :name, :version, 'x', :at, 'train', :document, x'')"
    )
    with old.write() as connection:
        for row in (_row(1, "net", "4", model), _row(2, "net", "5", plain)):
            connection.execute(text(insert), row)
    old.close()
    store = make_store(url)
    (kept,) = store.resources("model", "net")
    assert (kept.version, kept.made_by, kept.digest, kept.document["tags"]) == ("4", "train", "", {"k": "v"})
    assert (kept.document["type"], kept.document["uri"]) == ("mlflow_model", "azureml://m")
    assert [one.version for one in store.resources("data", "net")] == ["5"]
    assert store.resource("registered_model", "net").document["last_version"] == 4
    store.close()


def test_documents_of_mlflow_are_moved_once_and_lose_nothing():
    store, metrics, data = MemoryStore(), MemoryMetricStore(), MemoryData({"net/w": b"w"})
    models = make_models(store, data)
    assert models.register(NewModel(name="net", uri=f"{ROOT}/net"))[0].version == "1"
    metrics.write([RunCreated(RUN, metrics.ensure_experiment("e", 1).id, "run", 1, job="train")])
    shared = {"created_ms": 1, "updated_ms": 2, "description": "d", "tags": {"a": "b"}, "last_version": 3, "owner": "j"}
    metrics.add_document(Document("registered_model", "net", 0, {**shared, "aliases": {"champion": 1, "next": 3}}))
    for number, stage in ((1, "None"), (3, "Production")):
        body: dict[str, Any] = {
            "created_ms": number, "updated_ms": number, "description": "", "tags": {}, "stage": stage,
            "source": "runs:/x", "storage": f"mlflow-artifacts:/{RUN}/artifacts/net", "run_id": RUN,
            "run_link": "", "model_id": "",
        }  # fmt: skip
        metrics.add_document(Document("model_version", "net", number, body))
    for _ in range(2):
        EarlierModels(SimpleNamespace(store=metrics, is_empty=False), store).move()  # type: ignore[arg-type]
    assert metrics.documents("registered_model") == metrics.documents("model_version") == []
    moved = {one.version: one.document for one in models.versions("net")}
    assert sorted(moved) == ["1", "3", "4"]
    assert moved["4"]["tags"] == {EARLIER: "1"}
    name = store.resource("registered_model", "net").document
    assert (name["aliases"], name["description"], name["owner"]) == ({"champion": "4", "next": "3"}, "d", "j")
    assert (moved["3"]["stage"], moved["4"]["stage"], moved["3"]["run_id"]) == ("Production", "", RUN)
    assert moved["3"]["uri"] == f"azureml://jobs/train/outputs/mlflow-artifacts/paths/{RUN}/net"
    assert models.register(NewModel(name="net", uri=f"{ROOT}/net"))[0].version == "5"
    metrics.close()

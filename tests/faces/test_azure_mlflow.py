"""MLflow's API below the workspace, as azureml-mlflow calls it: addresses of artifacts, and who may write them."""

from __future__ import annotations

from typing import Any

import pytest

from drumbeat.model.principal import Role
from tests.faces.azure_house import WORKSPACE, AzureHouse, azure_house
from tests.faces.test_azure_api import BLOCK, blob_refusal, job, refusal

pytestmark = pytest.mark.feature("A1")

MLFLOW = f"/mlflow/v2.0{WORKSPACE}/api/2.0/mlflow"


@pytest.fixture(scope="module")
def house(tmp_path_factory):
    with azure_house(tmp_path_factory.mktemp("azure")) as there:
        yield there


def ask(house: AzureHouse, path: str, body: dict[str, Any], digest: str = "") -> Any:
    return house.http.post(f"{MLFLOW}/{path}", headers=house.bearer(digest), json=body)


def new_run(house: AzureHouse, digest: str = "") -> dict[str, Any]:
    made = ask(house, "runs/create", {"experiment_id": "0", "start_time": 1}, digest)
    assert made.status_code == 200, made.text
    return made.json()["run"]["info"]


def new_model(house: AzureHouse, run: str = "", digest: str = "") -> dict[str, Any]:
    body = {"experiment_id": "0", "name": "net", **({"source_run_id": run} if run else {})}
    made = ask(house, "logged-models", body, digest)
    assert made.status_code == 200, made.text
    return made.json()["model"]["info"]


def artifacts(
    house: AzureHouse, run: str, path: str = "", method: str = "GET", digest: str = "", **options: Any
) -> Any:
    url = f"/history/v1.0{WORKSPACE}/experiments/0/runs/{run}/artifacts{path}"
    return house.http.request(method, url, headers=house.bearer(digest), **options)


def test_run_has_an_address_of_the_workspace_and_its_files_are_blobs(house):
    run = new_run(house)
    assert run["artifact_uri"] == (
        f"azureml://azure.test:7443/mlflow/v2.0{WORKSPACE}/experiments/0/runs/{run['run_id']}/artifacts"
    )
    assert (
        ask(house, "runs/log-metric", {"run_id": run["run_id"], "key": "loss", "value": 0.5, "timestamp": 1}).json()
        == {}
    )
    made = artifacts(house, run["run_id"], "/batch/metadata", "POST", json={"paths": [{"path": "a/b c#.txt"}]}).json()
    address = made["artifactContentInformation"]["a/b c#.txt"]["contentUri"]
    assert house.http.put(address, content=b"text", headers=BLOCK).status_code == 201
    listed = artifacts(house, run["run_id"]).json()["value"]
    assert [one["path"] for one in listed] == ["a/b c#.txt"]
    read = artifacts(house, run["run_id"], "/contentinfo", params={"path": "a/b c#.txt"}).json()["contentUri"]
    assert house.http.get(read).content == b"text"
    below = artifacts(house, run["run_id"], "/prefix/contentinfo", params={"path": "a"}).json()["value"]
    assert [one["path"] for one in below] == ["a/b c#.txt"]


@pytest.mark.parametrize("has_run", [True, False])
def test_logged_model_has_an_address_like_a_run_and_files_of_its_own(house, has_run):
    run = new_run(house)["run_id"]
    model = new_model(house, run if has_run else "")
    root = f"azureml://azure.test:7443/mlflow/v2.0{WORKSPACE}/experiments/0/runs/{model['model_id']}/artifacts"
    assert model["artifact_uri"] == root
    paths = {"paths": [{"path": "data/w.bin"}]}
    made = artifacts(house, model["model_id"], "/batch/metadata", "POST", json=paths).json()
    address = made["artifactContentInformation"]["data/w.bin"]["contentUri"]
    assert house.http.put(address, content=b"weights", headers=BLOCK).status_code == 201
    assert [one["path"] for one in artifacts(house, model["model_id"]).json()["value"]] == ["data/w.bin"]
    read = artifacts(house, model["model_id"], "/contentinfo", params={"path": "data/w.bin"}).json()["contentUri"]
    assert house.http.get(read).content == b"weights"
    assert artifacts(house, run).json()["value"] == []
    assert refusal(artifacts(house, "m-gone"))[0] == 404


def test_signature_of_reading_writes_nothing_and_of_one_run_opens_no_other(house):
    one, other = new_run(house)["run_id"], new_run(house)["run_id"]
    made = artifacts(house, one, "/batch/metadata", "POST", json={"paths": [{"path": "a"}]}).json()
    address = made["artifactContentInformation"]["a"]["contentUri"]
    assert house.http.put(address, content=b"1", headers=BLOCK).status_code == 201
    read = artifacts(house, one, "/contentinfo", params={"path": "a"}).json()["contentUri"]
    assert blob_refusal(house.http.put(read, content=b"2", headers=BLOCK))[0] == 403
    assert blob_refusal(house.http.put(address.replace(one, other), content=b"2", headers=BLOCK))[0] == 403
    assert house.http.get(read).content == b"1"
    assert artifacts(house, other).json()["value"] == []


@pytest.mark.parametrize("paths", [None, "a", ["a"], [{"path": "../a"}], [{"path": "a\0"}], [{}]])
def test_bad_paths_of_artifacts_are_refused(house, paths):
    status, _ = refusal(artifacts(house, new_run(house)["run_id"], "/batch/metadata", "POST", json={"paths": paths}))
    assert status == 400


def test_what_isnt_there_is_said(house):
    assert refusal(artifacts(house, "no-run"))[0] == 404
    run = new_run(house)["run_id"]
    assert refusal(artifacts(house, run, "/contentinfo", params={"path": "gone"}))[0] == 404
    assert refusal(artifacts(house, run, "/prefix/contentinfo", params={"path": "gone"}))[0] == 404
    assert ask(house, "wonders/create", {}).json()["error_code"] == "ENDPOINT_NOT_FOUND"


def test_callers_without_a_token_and_readers_write_nothing_and_contributors_their_own(house):
    assert house.http.post(f"{MLFLOW}/runs/create", json={}).status_code == 401
    reader, bob = house.person("reader", Role.READER), house.person("bob", Role.CONTRIBUTOR)
    run = new_run(house)["run_id"]
    assert ask(house, "runs/search", {"experiment_ids": ["0"]}, reader).status_code == 200
    assert ask(house, "runs/create", {"experiment_id": "0"}, reader).status_code == 403
    paths = {"paths": [{"path": "a"}]}
    assert refusal(artifacts(house, run, "/batch/metadata", "POST", digest=reader, json=paths))[0] == 403
    ada = house.person("ada", Role.CONTRIBUTOR)
    assert house.ask("PUT", "jobs/adas", job(), digest=ada).status_code == 201
    of_job = house.control.metrics.ensured_run("adas").id
    assert refusal(artifacts(house, of_job, "/batch/metadata", "POST", digest=bob, json=paths))[0] == 403
    assert artifacts(house, of_job, "/batch/metadata", "POST", digest=ada, json=paths).status_code == 200
    model = new_model(house, of_job, ada)["model_id"]
    assert refusal(artifacts(house, model, "/batch/metadata", "POST", digest=bob, json=paths))[0] == 403
    assert artifacts(house, model, "/batch/metadata", "POST", digest=ada, json=paths).status_code == 200

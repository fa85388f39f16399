"""MLflow's protocol as it is on the wire: codes of refusals, histories, and what a rank sees."""

from __future__ import annotations

import httpx
import pytest

from drumbeat.model.agent import Phase
from drumbeat.model.errors import StorageError
from drumbeat.model.metrics import Point, PointsLogged, experiment_id, run_id
from tests.faces.api_house import House, eventually, house_in, raw

pytestmark = pytest.mark.feature("M2")

API = "/mlflow/api/2.0/mlflow"


@pytest.fixture(scope="module")
def house(tmp_path_factory):
    with house_in(tmp_path_factory.mktemp("house")) as there:
        yield there


def ask(house: House, method: str, route: str, **arguments: object) -> httpx.Response:
    how = {"params": arguments} if method == "GET" else {"json": arguments}
    return house.http.request(method, f"{API}/{route}", **how)


def asked(house: House, method: str, route: str, **arguments: object) -> dict:
    answer = ask(house, method, route, **arguments)
    assert answer.status_code == 200, answer.text
    return answer.json()


def refusal(answer: httpx.Response) -> tuple[int, str]:
    body = answer.json()
    assert set(body) == {"error_code", "message"}
    assert body["message"]
    return answer.status_code, body["error_code"]


def new_run(house: House, **fields: object) -> str:
    return asked(house, "POST", "runs/create", experiment_id="0", **fields)["run"]["info"]["run_id"]


INVALID, MISSING = (400, "INVALID_PARAMETER_VALUE"), (404, "RESOURCE_DOES_NOT_EXIST")


@pytest.mark.parametrize(
    ("method", "route", "arguments", "expected"),
    [
        ("GET", "runs/get", {}, INVALID),
        ("GET", "runs/get", {"run_id": "0" * 32}, MISSING),
        ("POST", "runs/create", {"experiment_id": "77"}, MISSING),
        ("POST", "runs/create", {"experiment_id": "0", "start_time": "soon"}, INVALID),
        ("POST", "runs/create", {"experiment_id": "0", "tags": ["x"]}, INVALID),
        ("POST", "runs/search", {"experiment_ids": ["0"], "max_results": 0}, INVALID),
        ("POST", "runs/search", {"experiment_ids": ["0"], "run_view_type": "SOME"}, INVALID),
        ("POST", "runs/search", {"experiment_ids": ["0"], "page_token": "x"}, INVALID),
        ("POST", "experiments/create", {"name": " "}, INVALID),
        ("POST", "experiments/create", {"name": "x" * 501}, INVALID),
        ("POST", "experiments/create", {"name": "Default", "tags": [{"key": "", "value": "1"}]}, INVALID),
        ("POST", "experiments/delete", {"experiment_id": "0"}, INVALID),
        ("POST", "registered-models/create", {"name": "a/b"}, INVALID),
        ("GET", "registered-models/get", {"name": "no"}, MISSING),
        ("POST", "model-versions/create", {"name": "no", "source": "x"}, MISSING),
        ("GET", "model-versions/get", {"name": "no", "version": "one"}, INVALID),
        ("GET", "logged-models/m-1", {}, MISSING),
        ("GET", "artifacts/list", {"run_id": "0" * 32}, MISSING),
        ("GET", "metrics/get-history", {"run_id": "0" * 32, "metric_key": "x"}, MISSING),
        ("GET", "traces", {}, (403, "FEATURE_DISABLED")),
        ("POST", "traces/search", {}, (403, "FEATURE_DISABLED")),
        ("GET", "gateway/endpoints/list", {}, (403, "FEATURE_DISABLED")),
        ("POST", "runs/get", {}, (404, "ENDPOINT_NOT_FOUND")),
        ("GET", "unheard/of", {}, (404, "ENDPOINT_NOT_FOUND")),
    ],
)
def test_a_wrong_request_is_refused_by_a_code_that_clients_do_not_repeat(house, method, route, arguments, expected):
    assert refusal(ask(house, method, route, **arguments)) == expected


def test_dataset_with_half_a_character_in_its_name_is_kept_and_read_back(house):
    run = new_run(house)
    body = f'''{{"run_id": "{run}", "datasets": [{{"dataset": {{"name": "a\\ud800\\u0000", "digest": "d"}}}}]}}'''
    answer = house.http.post(f"{API}/runs/log-inputs", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == 200, answer.text
    read = asked(house, "GET", "runs/get", run_id=run)["run"]["inputs"]["dataset_inputs"]
    assert read[0]["dataset"]["name"] == "a\ufffd\ufffd"


@pytest.mark.parametrize("body", [b"{", b"[1]", b"\xff", b"[" * 100_000])
def test_a_body_that_is_no_object_is_refused(house, body):
    assert refusal(house.http.post(f"{API}/runs/create", content=body)) == INVALID


@pytest.mark.parametrize(
    "metric",
    [
        {"key": "a//b", "value": 1},
        {"key": "x", "value": True},
    ],
)
def test_invalid_metric_is_refused_with_its_whole_batch(house, metric):
    run = new_run(house)
    assert refusal(ask(house, "POST", "runs/log-metric", run_id=run, **metric)) == INVALID
    batch = {"metrics": [{"key": "fine", "value": 1}, metric], "params": [{"key": "p", "value": "1"}]}
    assert refusal(ask(house, "POST", "runs/log-batch", run_id=run, **batch)) == INVALID
    data = asked(house, "GET", "runs/get", run_id=run)["run"]["data"]
    assert ([one["key"] for one in data["metrics"]], data["params"]) == (["fine"], [{"key": "p", "value": "1"}])


def test_logged_models_are_found_by_every_id_of_their_experiment(house):
    asked(house, "POST", "logged-models", name="of-default")
    old = asked(house, "POST", "experiments/create", name="old-name")["experiment_id"]
    asked(house, "POST", "logged-models", name="of-renamed", experiment_id=old)
    asked(house, "POST", "experiments/update", experiment_id=old, new_name="new-name")

    def names(id: str) -> list[str]:
        models = asked(house, "POST", "logged-models/search", experiment_ids=[id])["models"]
        return [one["info"]["name"] for one in models]

    assert names("0") == names(experiment_id("Default")) == ["of-default"]
    assert names(old) == names(experiment_id("new-name")) == ["of-renamed"]
    assert names("77") == []


def test_renamed_experiment_is_found_by_its_earlier_name(house):
    own = asked(house, "POST", "experiments/create", name="cifar")["experiment_id"]
    asked(house, "POST", "experiments/update", experiment_id=own, new_name="cifar-2025")

    def named(name: str) -> dict:
        return asked(house, "GET", "experiments/get-by-name", experiment_name=name)["experiment"]

    assert named("cifar") == named("cifar-2025")
    assert (named("cifar")["experiment_id"], named("cifar")["name"]) == (own, "cifar-2025")
    assert refusal(ask(house, "GET", "experiments/get-by-name", experiment_name="cifar-2026")) == MISSING


def test_runs_are_searched_by_tags_that_they_lack_and_by_other_names_of_attributes(house):
    own = asked(house, "POST", "experiments/create", name="searched")["experiment_id"]
    for name, tags in (("early", []), ("late", [{"key": "reviewed", "value": "yes"}])):
        fields = {"run_name": name, "start_time": 5 if name == "early" else 6, "tags": tags}
        asked(house, "POST", "runs/create", experiment_id=own, **fields)

    def names(text: str, *orders: str) -> list[str]:
        found = asked(house, "POST", "runs/search", experiment_ids=[own], filter=text, order_by=list(orders))
        return [one["info"]["run_name"] for one in found["runs"]]

    assert (names("tags.reviewed IS NULL"), names("tags.reviewed IS NOT NULL")) == (["early"], ["late"])
    assert (names("attributes.created > 5"), names("attributes.`Run name` = 'early'")) == (["late"], ["early"])
    assert (names("", "created ASC"), names("", "created DESC")) == (["early", "late"], ["late", "early"])


def test_registered_model_is_renamed_with_its_versions(house):
    asked(house, "POST", "registered-models/create", name="net")
    asked(house, "POST", "registered-models/create", name="taken")
    asked(house, "POST", "model-versions/create", name="net", source="x")
    answer = ask(house, "POST", "registered-models/rename", name="net", new_name="taken")
    assert refusal(answer) == (400, "RESOURCE_ALREADY_EXISTS")
    model = asked(house, "POST", "registered-models/rename", name="net", new_name="net-2")["registered_model"]
    assert model["name"] == "net-2"
    assert asked(house, "GET", "model-versions/get", name="net-2", version="1")["model_version"]["source"] == "x"
    assert refusal(ask(house, "GET", "registered-models/get", name="net")) == MISSING
    assert asked(house, "POST", "model-versions/create", name="net-2", source="y")["model_version"]["version"] == "2"


def test_batch_with_a_changed_parameter_and_a_long_tag_keeps_all_others(house):
    run = new_run(house)
    asked(house, "POST", "runs/log-parameter", run_id=run, key="lr", value="1")
    params = [{"key": "lr", "value": "2"}, {"key": "decay", "value": "0"}]
    batch = {"params": params, "metrics": [{"key": "m", "value": 1}], "tags": [{"key": "x" * 251, "value": ""}]}
    answer = ask(house, "POST", "runs/log-batch", run_id=run, **batch)
    assert refusal(answer) == INVALID
    assert "was already logged with value='1'" in answer.json()["message"]
    data = asked(house, "GET", "runs/get", run_id=run)["run"]["data"]
    assert data["params"] == [{"key": "decay", "value": "0"}, {"key": "lr", "value": "1"}]
    assert [one["key"] for one in data["metrics"]] == ["m"]


def test_batch_repeated_after_a_lost_answer_is_stored_once(house):
    run = new_run(house)
    point = {"value": 0.5, "step": 1, "timestamp": 1_700_000_000_000}
    for _ in range(2):
        asked(house, "POST", "runs/log-batch", run_id=run, metrics=[{"key": "acc", **point}, {"key": "acc", **point}])
        asked(house, "POST", "runs/log-metric", run_id=run, key="loss", **point)
    for name in ("acc", "loss"):
        assert len(asked(house, "GET", "metrics/get-history", run_id=run, metric_key=name)["metrics"]) == 1


def test_a_batch_that_is_too_large_is_refused(house):
    metrics = [{"key": "m", "value": n} for n in range(1001)]
    assert refusal(ask(house, "POST", "runs/log-batch", run_id=new_run(house), metrics=metrics)) == INVALID


def test_whole_numbers_may_be_texts_and_values_may_be_no_numbers(house):
    run = new_run(house, start_time="1000")
    for value in ("NaN", "Infinity", "-Infinity", 0.5):
        asked(house, "POST", "runs/log-metric", run_id=run, key="m", value=value, step="7", timestamp="2000")
    found = asked(house, "GET", "metrics/get-history", run_id=run, metric_key="m")["metrics"]
    assert [one["value"] for one in found] == ["NaN", "Infinity", "-Infinity", 0.5]
    assert {(one["step"], one["timestamp"]) for one in found} == {(7, 2000)}


def test_metric_of_a_missing_model_is_refused_without_the_others_of_its_batch(house: House):
    run, metric = new_run(house), {"key": "m", "value": 1, "timestamp": 1, "model_id": "m-none"}
    assert refusal(ask(house, "POST", "runs/log-metric", run_id=run, **metric)) == MISSING
    batch = [{"key": "m", "value": 2, "timestamp": 1}, metric]
    assert refusal(ask(house, "POST", "runs/log-batch", run_id=run, metrics=batch)) == MISSING
    kept = asked(house, "GET", "metrics/get-history", run_id=run, metric_key="m")["metrics"]
    assert [one["value"] for one in kept] == [2]


def test_a_history_is_read_in_pages_and_for_several_runs(house):
    runs = [new_run(house), new_run(house)]
    for run in runs:
        metrics = [{"key": "m", "value": n, "step": n, "timestamp": n} for n in range(10)]
        asked(house, "POST", "runs/log-batch", run_id=run, metrics=metrics)
    first = asked(house, "GET", "metrics/get-history", run_id=runs[0], metric_key="m", max_results=6)
    token = first["next_page_token"]
    rest = asked(house, "GET", "metrics/get-history", run_id=runs[0], metric_key="m", max_results=6, page_token=token)
    assert [one["value"] for one in first["metrics"] + rest["metrics"]] == list(range(10))
    assert "next_page_token" not in rest
    bulk = asked(house, "GET", "metrics/get-history-bulk", run_id=runs, metric_key="m")["metrics"]
    assert {one["run_id"] for one in bulk} == set(runs)
    spread = asked(
        house, "GET", "metrics/get-history-bulk-interval",
        run_ids=runs, metric_key="m", start_step=2, end_step=9, max_results=3,
    )["metrics"]  # fmt: skip
    assert [one["step"] for one in spread] == [2, 5, 9] * 2


@pytest.mark.feature("X5")
@pytest.mark.parametrize("path", ["../../etc/passwd", "..%2f..%2fx", "%2e%2e/x", "a/../../x", "a%00b"])
@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
def test_an_artifact_path_that_leaves_its_folder_is_refused(house, method, path):
    run = new_run(house)
    address = f"/mlflow/api/2.0/mlflow-artifacts/artifacts/{run}/artifacts/{path}"
    status, body = raw(house, address, method, b"x" if method == "PUT" else b"")
    assert status in (400, 403, 404), body
    assert b"error_code" in body
    assert asked(house, "GET", "artifacts/list", run_id=run)["files"] == []


def test_an_artifact_of_an_unknown_run_is_refused(house):
    address = f"/mlflow/api/2.0/mlflow-artifacts/artifacts/{'0' * 32}/artifacts/x"
    assert refusal(house.http.put(address, content=b"x")) == MISSING


def test_a_file_and_a_folder_of_the_same_name_are_refused(house):
    root = f"/mlflow/api/2.0/mlflow-artifacts/artifacts/{new_run(house)}/artifacts"
    assert house.http.put(f"{root}/a/b", content=b"1").status_code == 200
    assert refusal(house.http.put(f"{root}/a", content=b"2"))[0] == 400
    assert house.http.get(f"{root}/a/b").content == b"1"
    assert refusal(house.http.get(f"{root}/a")) == MISSING


def test_a_client_without_the_token_is_refused(house):
    answer = httpx.get(f"{house.url}{API}/runs/get", params={"run_id": "x"}, trust_env=False)
    assert answer.status_code == 401


def test_versions_and_capabilities_are_listed(house):
    assert house.http.get("/mlflow/version").text.startswith("3.")
    assert house.http.get("/mlflow/health").text == "OK"
    assert house.http.get("/mlflow/api/3.0/mlflow/server-info").json()["multipart_uploads_enabled"] is False


class TestFromNodes:
    """The same protocol for the endpoint of a node, which says which rank asks."""

    @pytest.fixture
    def job(self, house):
        name = house.submit(f"train-{len(house.engine.gangs)}")
        house.control.metrics.ensured_run(name)
        return name

    def ask(self, house, job, method, path, rank=0, **options) -> httpx.Response:
        agent = house.agent(job)
        headers = {**agent.headers, "X-Drumbeat-Rank": str(rank)}
        return house.http.request(method, f"{agent.path}/mlflow/{path}", headers=headers, **options)

    def test_a_rank_reads_its_own_series_and_else_that_of_rank_0(self, house, job):
        run, store = run_id(job), house.control.metrics.store
        store.write([PointsLogged(run, 0, (Point("loss", 0.0, 1, 1), Point("only0", 7.0, 1, 1)))])
        store.write([PointsLogged(run, 3, (Point("loss", 3.0, 1, 1),))])
        for rank, value in ((0, 0.0), (1, 0.0), (3, 3.0)):
            path = f"api/2.0/mlflow/metrics/get-history?run_id={run}&metric_key=loss"
            assert [one["value"] for one in self.ask(house, job, "GET", path, rank).json()["metrics"]] == [value]
            found = self.ask(house, job, "GET", f"api/2.0/mlflow/runs/get?run_id={run}", rank).json()["run"]["data"]
            assert {one["key"]: one["value"] for one in found["metrics"]} == {"loss": value, "only0": 7.0}

    def test_an_artifact_of_a_job_is_among_its_outputs(self, house, job):
        path = f"api/2.0/mlflow-artifacts/artifacts/{run_id(job)}/artifacts/m/weights.bin"
        assert self.ask(house, job, "PUT", path, content=b"123").status_code == 200
        place = f"outputs/mlflow-artifacts/{run_id(job)}/m/weights.bin"
        assert place in [one["path"] for one in house.http.get(f"/api/v1/jobs/{job}/files").json()]
        assert house.http.get(f"/api/v1/jobs/{job}/files/{place}").content == b"123"
        assert asked(house, "GET", "artifacts/list", run_id=run_id(job), path="m")["files"] == [
            {"path": "m/weights.bin", "is_dir": False, "file_size": 3}
        ]

    def test_a_logged_model_of_a_job_is_among_its_outputs(self, house, job):
        made = self.ask(house, job, "POST", "api/2.0/mlflow/logged-models", json={"source_run_id": run_id(job)}).json()
        info = made["model"]["info"]
        path = info["artifact_uri"].removeprefix("mlflow-artifacts:/") + "/MLmodel"
        address = f"api/2.0/mlflow-artifacts/artifacts/{path}"
        assert self.ask(house, job, "PUT", address, content=b"flavors").status_code == 200
        files = [one["path"] for one in house.http.get(f"/api/v1/jobs/{job}/files").json()]
        assert f"outputs/mlflow-artifacts/models/{info['model_id']}/MLmodel" in files
        route = f"api/2.0/mlflow/logged-models/{info['model_id']}/artifacts/directories"
        assert [one["path"] for one in self.ask(house, job, "GET", route).json()["files"]] == ["MLmodel"]

    def test_a_wrong_secret_is_refused(self, house, job):
        headers = {"Authorization": "Bearer wrong"}
        answer = house.http.get(f"{house.agent(job).path}/mlflow/api/2.0/mlflow/runs/get", headers=headers)
        assert answer.status_code == 401


def test_job_is_not_deleted_while_a_model_has_its_files(house):
    house.submit("maker")
    source = f"mlflow-artifacts:/{house.control.metrics.ensured_run('maker').id}/artifacts/model"
    asked(house, "POST", "registered-models/create", name="made")
    asked(house, "POST", "model-versions/create", name="made", source=source)
    version = {"name": "made", "version": "1"}
    assert asked(house, "GET", "model-versions/get-download-uri", **version) == {"artifact_uri": source}
    house.finish("maker")
    eventually(lambda: not house.control.store.outbox())
    refused = house.http.delete("/api/v1/jobs/maker")
    assert (refused.status_code, "model made:1" in refused.text) == (409, True)
    asked(house, "DELETE", "model-versions/delete", **version)
    house.http.delete("/api/v1/jobs/maker").raise_for_status()


def test_job_without_metrics_has_a_run_with_its_status(house):
    def runs(experiment: str) -> list[tuple[str, str]]:
        found = asked(house, "POST", "runs/search", experiment_ids=[experiment_id(experiment)]).get("runs", [])
        return [(one["info"]["run_id"], one["info"]["status"]) for one in found]

    running = house.submit("silent-runs", experiment_name="silent-running")
    house.agent(running).say(Phase.READY)
    house.agent(running).say(Phase.RUNNING)
    eventually(lambda: runs("silent-running") == [(run_id(running), "RUNNING")])
    failed = house.submit("silent-fails", experiment_name="silent-failed", drumbeat={"max_retries": 0})
    house.finish(failed, code=1)
    eventually(lambda: runs("silent-failed") == [(run_id(failed), "FAILED")])
    assert asked(house, "GET", "runs/get", run_id=run_id(failed))["run"]["info"]["status"] == "FAILED"


def test_end_of_a_deleted_job_makes_no_run_and_ends_none_of_the_next_job_of_its_name(house):
    house.finish(house.submit("gone"))
    eventually(lambda: not house.control.store.outbox())
    deleted = house.control.store.load("gone").job
    house.http.delete("/api/v1/jobs/gone").raise_for_status()
    house.control.metrics.note_end(deleted)
    assert refusal(ask(house, "GET", "runs/get", run_id=run_id("gone"))) == MISSING
    house.submit("gone")
    house.agent("gone").say(Phase.READY)
    house.control.metrics.note_end(deleted)
    assert house.control.metrics.ensured_run("gone").status == "RUNNING"
    house.finish("gone")


def test_end_of_a_job_is_noted_once_the_database_answers(house, monkeypatch):
    def fail(*_: object) -> None:
        raise StorageError("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(house.control.metrics.store, "settle", fail)
        job = house.submit("full-disk", experiment_name="full-disk")
        house.finish(job)
        eventually(lambda: house.control.store.load(job).job.state.is_terminal)
        with pytest.raises(StorageError):
            house.control.metrics.note_end(house.control.store.load(job).job)
    eventually(lambda: not house.control.store.outbox())
    assert asked(house, "GET", "runs/get", run_id=run_id(job))["run"]["info"]["status"] == "FINISHED"

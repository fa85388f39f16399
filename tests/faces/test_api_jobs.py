"""What a user's program asks of the API: submit, plan, list, look, cancel, hide; aliases, computes, the server."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from .api_house import DOCUMENT, House, eventually, house_in


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with house_in(tmp_path_factory.mktemp("house")) as there:
        yield there


def test_repeated_key_returns_the_same_job(house: House) -> None:
    body = {"document": DOCUMENT, "key": "k1", "experiment": "tries"}
    first = house.http.post("/api/v1/jobs", json=body)
    again = house.http.post("/api/v1/jobs", json=body)
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json()["name"] == again.json()["name"]
    assert first.json()["experiment"] == "tries"


def test_jobs_of_a_batch_are_submitted_in_order_and_once(house: House) -> None:
    body = {"jobs": [{"document": {**DOCUMENT, "name": f"batch-{n}"}, "key": f"b{n}"} for n in range(3)]}
    for _ in range(2):
        answer = house.http.post("/api/v1/job-batches", json=body)
        assert (answer.status_code, [one["name"] for one in answer.json()]) == (201, ["batch-0", "batch-1", "batch-2"])
    listing = house.http.get("/api/v1/jobs", params={"text": "batch-"}).json()["jobs"]
    assert [one["name"] for one in listing] == ["batch-2", "batch-1", "batch-0"]


@pytest.mark.parametrize(
    ("bad", "where", "what"),
    [
        ({"document": {**DOCUMENT, "comand": "x"}}, "job 2 of 2: ", "unknown key `comand`"),
        ({"document": {**DOCUMENT, "name": "batch-good"}}, "", "job batch-good exists already"),
        ({"document": DOCUMENT, "key": "good"}, "jobs", "two jobs have the key good"),
    ],
)
def test_batch_with_a_job_that_is_refused_submits_none(house: House, bad: object, where: str, what: str) -> None:
    good = {"document": {**DOCUMENT, "name": "batch-good"}, "key": "good"}
    refused = house.http.post("/api/v1/job-batches", json={"jobs": [good, bad]})
    assert refused.status_code in {400, 409, 422}
    assert (refused.json()["where"].startswith(where), what in refused.json()["what"]) == (True, True), refused.json()
    assert house.http.get("/api/v1/jobs/batch-good").status_code == 404


def test_batch_with_a_key_of_another_document_submits_none(house: House) -> None:
    house.http.post("/api/v1/jobs", json={"document": DOCUMENT, "key": "used"})
    fresh = {"document": {**DOCUMENT, "name": "batch-fresh"}}
    other = {"document": {**DOCUMENT, "name": "batch-other"}, "key": "used"}
    refused = house.http.post("/api/v1/job-batches", json={"jobs": [fresh, other]})
    assert refused.status_code == 409
    assert "was submitted with this key from another document" in refused.json()["what"]
    assert house.http.get("/api/v1/jobs/batch-fresh").status_code == 404


def test_request_without_a_key_is_always_a_new_job(house: House) -> None:
    names = {house.http.post("/api/v1/jobs", json={"document": DOCUMENT}).json()["name"] for _ in range(3)}
    assert len(names) == 3


def test_a_job_has_every_key_that_the_api_promises(house: House) -> None:
    name = house.submit("whole", display_name="The whole", tags={"a": "b"}, description="d")
    found = house.http.get(f"/api/v1/jobs/{name}").json()
    promised = (
        "name display_name description experiment state reason sentence observed attempt round nodes world_size "
        "node_count processes_per_node launcher compute environment command submitted_at started_at ended_at stop_at "
        "deadline verdict exit_code failures tags properties archived priority notice outputs story type person"
    )
    assert set(found) == set(promised.split())
    assert (found["display_name"], found["tags"]) == ("The whole", {"a": "b"})
    assert found["exit_code"] is None
    assert [line["n"] for line in found["story"]] == list(range(1, len(found["story"]) + 1))
    assert found["story"] == house.http.get(f"/api/v1/jobs/{name}/story").json()


def test_a_node_shows_its_machine_and_how_its_ranks_ended(house: House) -> None:
    name = house.submit("nodes")
    house.finish(name, code=3)
    found = house.http.get(f"/api/v1/jobs/{name}").json()
    (node,) = found["nodes"]
    assert (node["machine"], node["host"], node["phase"]) == ("m", "host", "uploaded")
    assert node["exits"] == [{"rank": 0, "code": 3, "signal": None, "at": 0.0}]
    assert (found["state"], found["exit_code"], found["verdict"]["rank"]) == ("failed", 3, 0)


@pytest.mark.feature("P1")
def test_sweep_that_is_a_pipeline_or_a_job_is_refused_with_what_to_look_at(house: House) -> None:
    tune = {
        "type": "sweep", "sampling_algorithm": "random", "limits": {"max_total_trials": 1},
        "trial": {"command": "t ${{inputs.lr}}", "inputs": {"lr": {"type": "number"}}},
        "search_space": {"lr": {"type": "uniform", "min_value": 0, "max_value": 1}},
        "objective": {"goal": "minimize", "primary_metric": "loss"},
    }  # fmt: skip
    steps = {"prep": {"command": "true"}, "classify": tune}
    document = {"type": "pipeline", "name": "ships", "jobs": steps, "drumbeat": DOCUMENT["drumbeat"]}
    assert house.http.post("/api/v1/jobs", json={"document": document}).status_code == 201
    refused = house.http.get("/api/v1/sweeps/ships")
    assert (refused.status_code, refused.json()["what"]) == (404, "job ships is a pipeline job, not a sweep")
    assert refused.json()["fix"] == "Name the sweep among its steps: ships_classify."
    house.http.post("/api/v1/jobs/ships/cancel")
    other = house.http.get(f"/api/v1/sweeps/{house.submit('no-sweep')}")
    assert other.json()["fix"] == "See it: drumbeat show no-sweep"


def test_plan_starts_nothing(house: House) -> None:
    before = list(house.engine.started)
    found = house.http.post("/api/v1/plan", json={"document": {**DOCUMENT, "name": "only-planned"}}).json()
    assert found["plan"]["job"] == "only-planned"
    assert found["processes"][0]["set"]["RANK"] == "0"
    assert {"staged", "queue", "notes"} <= set(found)
    assert house.http.get("/api/v1/jobs/only-planned").status_code == 404
    assert house.engine.started == before


def test_lists_are_pages_newest_first(house: House) -> None:
    names = [house.http.post("/api/v1/jobs", json=_named(f"page-{n}", "pages")).json()["name"] for n in range(5)]
    first = house.http.get("/api/v1/jobs", params={"experiment": "pages", "limit": 3}).json()
    rest = house.http.get("/api/v1/jobs", params={"experiment": "pages", "limit": 3, "after": first["after"]}).json()
    assert [job["name"] for job in first["jobs"] + rest["jobs"]] == names[::-1]
    assert rest["after"] is None


def _named(name: str, experiment: str) -> dict[str, object]:
    return {"document": {**DOCUMENT, "name": name}, "experiment": experiment}


def test_lists_know_states_and_what_is_hidden(house: House) -> None:
    name = house.submit("hidden", experiment_name="hiding")
    assert house.http.post(f"/api/v1/jobs/{name}/archive").json()["code"] == "conflict"
    house.finish(name)
    assert house.http.post(f"/api/v1/jobs/{name}/archive").json()["archived"] is True

    def listed(**wanted: str) -> list[str]:
        answer = house.http.get("/api/v1/jobs", params={"experiment": "hiding", **wanted}).json()
        return [job["name"] for job in answer["jobs"]]

    assert (listed(), listed(archived="true"), listed(archived="all")) == ([], [name], [name])
    assert house.http.post(f"/api/v1/jobs/{name}/restore").json()["archived"] is False
    assert listed(state="completed") == [name]
    assert listed(state="running") == []


def test_lists_are_chosen_by_parent(house: House) -> None:
    names = [house.submit_part("trial", "sweep-1"), house.submit("alone", experiment_name="parts")]

    def listed(**wanted: str) -> list[str]:
        answer = house.http.get("/api/v1/jobs", params={"experiment": "parts", **wanted}).json()
        return [job["name"] for job in answer["jobs"]]

    assert listed(parent="sweep-1") == names[:1]
    assert listed(parent="") == names[1:]
    assert listed(parent="sweep-2") == []
    assert listed() == names[::-1]


def test_jobs_are_counted_by_state(house: House) -> None:
    name = house.submit("counted", experiment_name="counting")
    house.submit_part("counted-part", "sweep-5")

    def counts(**wanted: str) -> dict[str, int]:
        return house.http.get("/api/v1/job-counts", params={"experiment": "counting", **wanted}).json()

    house.finish(name)
    assert counts() == {"completed": 1}
    assert counts(parent="") == {"completed": 1}
    assert counts(parent="sweep-5") == counts(state="failed") == counts(archived="true") == counts(person="ada") == {}
    assert house.http.get("/api/v1/job-counts", params={"state": "happy"}).status_code == 422


def test_parent_is_shown_only_for_a_job_that_has_one(house: House) -> None:
    part, alone = house.submit_part("part", "sweep-3"), house.submit("whole-job")
    (listed,) = house.http.get("/api/v1/jobs", params={"parent": "sweep-3"}).json()["jobs"]
    shown = house.http.get(f"/api/v1/jobs/{part}").json()
    assert (listed["parent"], shown["parent"]) == ("sweep-3", "sweep-3")
    assert "parent" not in house.http.get(f"/api/v1/jobs/{alone}").json()


def test_cancel_is_idempotent_and_leaves_ended_jobs(house: House) -> None:
    name = house.submit("canceled")
    assert house.http.post(f"/api/v1/jobs/{name}/cancel").status_code == 200
    assert house.http.post(f"/api/v1/jobs/{name}/cancel").status_code == 200
    ended = house.submit("ended")
    house.finish(ended)
    assert house.http.post(f"/api/v1/jobs/{ended}/cancel").json()["code"] == "conflict"


def test_an_alias_is_set_listed_and_removed(house: House) -> None:
    path = "/api/v1/aliases/environment/azureml%3A%2F%2Fregistries%2Fazureml%2Fenvironments%2Fx"
    assert house.http.put(path, json={"target": "current"}).status_code == 200
    name = "azureml://registries/azureml/environments/x"
    assert {"kind": "environment", "name": name, "target": "current"} in house.http.get("/api/v1/aliases").json()
    assert house.http.delete(path).status_code == 204
    assert house.http.delete(path).json()["code"] == "not_found"


def test_computes_show_machines_and_what_is_held(house: House) -> None:
    name = house.submit("holding")
    (local,) = house.http.get("/api/v1/computes").json()
    assert (local["name"], local["machines"][0]["name"]) == ("local", "m")
    assert name in {held["job"] for held in local["held"]}


def test_version_and_status_describe_the_server(house: House) -> None:
    version = house.http.get("/api/v1/version").json()
    assert set(version) == {"version", "protocol", "boot_id", "host", "pid", "home", "stands_by"}
    assert version["protocol"] == 1
    name = house.submit("unfinished")
    status = house.http.get("/api/v1/status").json()
    assert name in status["unfinished"]
    assert status["uptime_s"] > 0


def test_stop_ignores_unfinished_jobs_only_with_force(tmp_path: Path) -> None:
    with house_in(tmp_path) as house:
        stopped: list[str] = []
        house.context.stop = lambda: stopped.append("now")
        name = house.submit("in-the-way")
        refused = house.http.post("/api/v1/stop")
        assert (refused.status_code, refused.json()["code"]) == (409, "conflict")
        assert refused.json()["what"] == f"1 job isn't finished: {name}"
        assert "drumbeat server stop --force" in refused.json()["fix"]
        assert house.http.post("/api/v1/stop", json={"force": True}).status_code == 202
        house.finish(name)
        assert house.http.post("/api/v1/stop").status_code == 202
        assert stopped == ["now", "now"]


def test_effects_of_an_ended_job_are_carried_out(house: House) -> None:
    name = house.submit("leaves")
    house.finish(name)
    eventually(lambda: f"{name}.1" in house.engine.stopped)

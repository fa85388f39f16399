"""Quotas over HTTP, and fair share as it is shown: a real control room with an engine of this process."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from .api_house import DOCUMENT, House, eventually, house_in
from .test_api_users import USER, as_user, submit

pytestmark = pytest.mark.feature("C9")
ALL_SLOTS = {"resources": {"instance_count": 1}, "distribution": {"type": "pytorch", "process_count_per_instance": 900}}
LIMITS = {"slots": None, "gpus": None, "waiting": None}


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    with house_in(tmp_path) as there:
        yield there


def quota(house: House, path: str, **limits: int) -> httpx.Response:
    return house.http.put(f"/api/v1/quotas/{path}", json=limits)


def waits(house: House, job: str, reason: str) -> str:
    """The sentence of a job, once it waits for this reason."""
    shown: dict[str, str] = {}

    def is_told() -> bool:
        shown.update(house.http.get(f"/api/v1/jobs/{job}").json())
        return shown["reason"] == reason

    eventually(is_told)
    return shown["sentence"]


def test_job_over_its_persons_quota_waits_and_starts_when_it_is_raised(house: House) -> None:
    assert quota(house, "person/ada", slots=1).status_code == 200
    with as_user(house, "ada") as ada:
        assert [submit(ada, name).status_code for name in ("one", "two")] == [201, 201]
    assert waits(house, "two", "waiting_for_quota") == (
        "ada uses 1 of 1 CPU slot of the quota, and the job needs 1; held by one"
    )
    house.submit("mine")
    quota(house, "person/ada", slots=2)
    eventually(lambda: "two.1" in house.engine.gangs)


def test_plan_tells_of_the_quota(house: House) -> None:
    quota(house, "person/*", slots=0)
    told = house.http.post("/api/v1/plan", json={"document": DOCUMENT}).json()
    assert told["queue"] == (
        f"compute local: would wait: {USER} may use 0 CPU slots at a time, and the job needs 1: "
        "it waits until an owner raises the quota"
    )


def test_waiting_job_over_the_quota_is_refused_but_a_repeated_request_is_not(house: House) -> None:
    quota(house, "person/ada", slots=0, waiting=1)
    with as_user(house, "ada") as ada:
        body = {"document": {**DOCUMENT, "name": "one"}, "key": "k"}
        assert ada.post("/api/v1/jobs", json=body).status_code == 201
        told = submit(ada, "two")
        assert (told.status_code, told.json()["code"], told.json()["where"]) == (422, "refused", "job two")
        assert told.json()["what"] == "ada may have 1 job waiting at a time, and 1 waits already"
        assert "drumbeat quota set" in told.json()["fix"]
        assert ada.post("/api/v1/jobs", json=body).status_code == 200
    house.submit("mine")


def test_quotas_are_listed_changed_and_removed(house: House) -> None:
    assert quota(house, "experiment/a%2Fb", gpus=4).json() == {**LIMITS, "kind": "experiment", "name": "a/b", "gpus": 4}
    quota(house, "person/ada", slots=1, waiting=3)
    quota(house, "person/ada", waiting=4)
    names = [(one["kind"], one["name"], one["waiting"]) for one in house.http.get("/api/v1/quotas").json()]
    assert names == [("experiment", "a/b", None), ("person", "ada", 4)]
    assert house.http.delete("/api/v1/quotas/person/ada").status_code == 204
    assert house.http.delete("/api/v1/quotas/person/ada").status_code == 404


@pytest.mark.parametrize("path", ["person/a%20b", "team/ada", "person/"])
def test_quota_without_a_user_is_refused(house: House, path: str) -> None:
    assert quota(house, path, slots=1).status_code in (404, 405, 422)
    assert quota(house, "person/ada", slots=-1).status_code == 422
    assert house.http.get("/api/v1/quotas").json() == []


def test_use_is_shown_by_person_and_experiment(house: House) -> None:
    assert house.http.put("/api/v1/quotas/half-life", json={"half_life_s": 3600}).status_code == 200
    assert house.http.put("/api/v1/quotas/half-life", json={"half_life_s": 1}).status_code == 422
    house.submit("mine", experiment_name="cifar")
    shown = house.http.get("/api/v1/quotas/use").json()
    assert shown["half_life_s"] == 3600
    uses = {(one["kind"], one["name"]): (one["slots"], one["waiting"]) for one in shown["uses"]}
    assert uses == {("person", USER): (1, 0), ("experiment", "cifar"): (1, 0)}


def test_person_who_has_used_less_comes_first_and_the_other_reads_the_numbers(house: House) -> None:
    house.submit("hog", **ALL_SLOTS)
    with as_user(house, "ada") as ada:
        for client, name in ((house.http, "later"), (ada, "first")):
            document = {**DOCUMENT, **ALL_SLOTS, "name": name}
            assert client.post("/api/v1/jobs", json={"document": document}).status_code == 201
    waits(house, "first", "waiting_for_slots")
    sentence = waits(house, "later", "waiting_for_turn")
    assert "first is next" in sentence
    assert "slot-hours of recent use: ada 0.0, " in sentence

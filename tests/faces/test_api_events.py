"""One stream for a whole page: changes of every job, and all of one."""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from httpx_sse import EventSource

from drumbeat.model.errors import NotFoundError
from drumbeat.model.metric_lines import encode_record
from drumbeat.model.metrics import Point, PointsLogged, run_id
from drumbeat.server.jobs.event_routes import Follower

from .api_house import House, client_of, eventually, house_in

Seen = tuple[str, dict[str, Any]]


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with house_in(tmp_path_factory.mktemp("house")) as there:
        yield there


def watch(http: httpx.Client, **params: Any) -> Iterator[Seen]:
    with http.stream("GET", "/api/v1/events", params=params) as response:
        assert response.status_code == 200
        yield "open", {}
        for one in EventSource(response).iter_sse():
            if one.data:
                yield one.event, json.loads(one.data)


def until(events: Iterator[Seen], kind: str, wanted: str) -> dict[str, Any]:
    """The next event of that kind in which the text occurs."""
    return next(data for name, data in events if name == kind and wanted in json.dumps(data))


def is_completed(data: dict[str, Any], name: str) -> bool:
    return any((job["name"], job["state"]) == (name, "completed") for job in data.get("jobs", []))


@pytest.mark.feature("M3")
def test_stream_has_the_changes_of_every_job(house: House) -> None:
    with client_of(house.context) as http:
        events = watch(http)
        next(events)
        house.submit("watched")
        house.finish("watched")
        assert until(events, "jobs", '"completed"')["jobs"][0]["name"] == "watched"
        house.http.delete("/api/v1/jobs/watched")
        assert until(events, "jobs", '"removed": ["watched"]')["jobs"] == []


@pytest.mark.feature("M3")
def test_stream_follows_one_job_beside_the_others(house: House) -> None:
    house.submit("followed")
    with client_of(house.context) as http:
        events = watch(http, job="followed")
        next(events)
        house.agent("followed").log(b"hello\n", 0)
        assert until(events, "log", "hello")["rank"] == 0
        house.submit("beside")
        assert until(events, "jobs", "beside")
        house.finish("followed")
        assert until(events, "end", "completed")["exit_code"] == 0
        house.finish("beside")
        assert next(data for _, data in events if is_completed(data, "beside"))


def test_reader_of_a_deleted_job_restarts_with_the_next_job_of_its_name(house: House) -> None:
    last, logs = "", list[str]()
    for text in ("one\ntwo\n", "new\n"):
        house.submit("again")
        house.agent("again").log(text.encode(), 0)
        house.finish("again")
        with house.http.stream("GET", "/api/v1/jobs/again/events", headers={"Last-Event-ID": last}) as response:
            for one in EventSource(response).iter_sse():
                last = one.id or last
                logs += [json.loads(one.data)["text"]] if one.event == "log" else []
        eventually(lambda: not house.control.store.outbox())
        house.http.delete("/api/v1/jobs/again").raise_for_status()
    assert logs == ["one\ntwo\n", "new\n"]


def test_stream_of_a_deleted_job_does_not_continue_with_the_next_of_its_name(house: House) -> None:
    house.submit("heir")
    house.finish("heir")
    old = house.control.store.load("heir").job
    follower = Follower(house.context, old, 0, 0, has_logs=True)
    assert b"event: end" in follower.pull()
    eventually(lambda: not house.control.store.outbox())
    house.http.delete("/api/v1/jobs/heir").raise_for_status()
    house.submit("heir")
    with pytest.raises(NotFoundError, match="job heir was deleted, and another job has its name"):
        follower.pull()
    house.finish("heir")


def test_job_with_a_name_of_255_letters_is_followed(house: House) -> None:
    name = house.submit("n" * 255)
    with client_of(house.context) as http:
        events = watch(http, job=name)
        next(events)
        assert until(events, "state", name)["name"] == name
        house.finish(name)
        assert until(events, "end", "completed")["exit_code"] == 0


def test_stream_has_jobs_that_are_archived_and_restored(house: House) -> None:
    house.submit("put-away")
    house.finish("put-away")
    with client_of(house.context) as http:
        events = watch(http)
        next(events)
        for action, is_archived in (("archive", True), ("restore", False)):
            house.http.post(f"/api/v1/jobs/put-away/{action}").raise_for_status()
            changed = until(events, "jobs", "put-away")["jobs"]
            assert [(job["name"], job["archived"]) for job in changed] == [("put-away", is_archived)]


def test_stream_of_a_job_that_does_not_exist_is_refused(house: House) -> None:
    assert house.http.get("/api/v1/events", params={"job": "none"}).status_code == 404


def test_jobs_are_listed_by_a_text(house: House) -> None:
    for name, keys in (("alpha-1", {"tags": {"owner": "Ada"}}), ("alpha-2", {"experiment_name": "Vision"})):
        house.submit(name, **keys)

    def named(**params: Any) -> list[str]:
        return [job["name"] for job in house.http.get("/api/v1/jobs", params=params).json()["jobs"]]

    assert named(text="ALPHA") == ["alpha-2", "alpha-1"]
    assert named(text="ada") == ["alpha-1"]
    assert named(text="vision") == ["alpha-2"]
    assert named(text="alpha", limit=1) == ["alpha-2"]
    assert named(text="alpha", limit=1, after="alpha-2") == ["alpha-1"]
    assert named(text="nothing of the kind") == []


def test_definition_has_the_job_file_and_the_plan(house: House) -> None:
    house.submit("defined", tags={"why": "a: b"})
    view = house.http.get("/api/v1/jobs/defined/definition").json()
    assert view["document"]["tags"] == {"why": "a: b"}
    assert 'why: "a: b"' in view["text"]
    assert view["plan"]["job"] == "defined"


def test_curves_of_several_jobs_are_sent_at_once(house: House) -> None:
    for name in ("curve-a", "curve-b", "curve-none"):
        house.submit(name)
    for name, value in (("curve-a", 1.5), ("curve-b", 2.5)):
        point = PointsLogged(run_id(name), 0, (Point("loss", value, 3, 1_000),))
        assert house.agent(name).metrics(encode_record(point)).status_code == 200
    eventually(lambda: len(curves(house)) == 2)
    assert [(one["job"], one["name"], one["steps"], one["values"]) for one in curves(house)] == [
        ("curve-a", "loss", [3], [1.5]),
        ("curve-b", "loss", [3], [2.5]),
    ]


def curves(house: House) -> list[dict[str, Any]]:
    jobs = ["curve-a", "curve-b", "curve-none"]
    return house.http.get("/api/v1/curves", params={"job": jobs}).json()

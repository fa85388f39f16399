"""What agents ask about the inputs of their job, and nothing of anybody else's."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from drumbeat.core.lifecycle.job import Job
from drumbeat.model import wire
from drumbeat.model.agent import Phase
from drumbeat.model.errors import ForbiddenError, NotFoundError, UnreachableError
from drumbeat.model.input_listing import Listing
from drumbeat.model.plan import InputPlan
from drumbeat.server.data.inputs import JobInputs
from tests.support.memory_data import ROOT, MemoryData
from tests.support.removal_contract import finish_removal

from .api_house import Agent, House, eventually, house_in

pytestmark = pytest.mark.feature("D5")

FILES = {"set/a": b"0123456789", "set/b/ü c": b"", "other/secret": b"of another job"}
INPUTS = (
    InputPlan("train", "uri_folder", f"{ROOT}/set", "ro_mount"),
    InputPlan("there", "uri_folder", f"{ROOT}/other", "direct"),
)


@pytest.fixture
def data() -> MemoryData:
    return MemoryData(FILES)


@pytest.fixture
def house(tmp_path: Path, data: MemoryData) -> Iterator[House]:
    with house_in(tmp_path) as house:
        house.control.inputs = inputs_of(house, data)
        yield house


def inputs_of(house: House, data: MemoryData) -> JobInputs:
    """As a server that has just started has them."""

    def job_of(name: str) -> Job:
        job = house.control.store.load(name).job
        return replace(job, plan=replace(job.plan, inputs=INPUTS))

    return JobInputs(house.control.artifacts, data, job_of)


@pytest.fixture
def agent(house: House) -> Agent:
    return house.agent(house.submit("a"))


def test_a_store_that_is_silent_is_named_while_the_node_still_waits(house: House, agent: Agent, data: MemoryData):
    house.context.silent_s, is_over = 0.2, threading.Event()

    def read(*_asked: object) -> Iterator[bytes]:
        is_over.wait(60)
        yield b""

    data.read = read  # pyright: ignore[reportAttributeAccessIssue]
    try:
        told = get(agent, "inputs/train/files/a")
    finally:
        is_over.set()
    assert told.status_code == 503
    assert (told.json()["what"], told.json()["where"]) == (
        "input train: its store has sent nothing for 0 s",
        "inputs.train",
    )


def test_slow_listing_is_made_once_and_every_caller_is_informed(house: House, agent: Agent, data: MemoryData):
    house.context.silent_s, is_over, listing = 0.2, threading.Event(), data.listing

    def slow(uri: str, *, is_file: bool) -> Listing:
        is_over.wait(60)
        return listing(uri, is_file=is_file)

    data.listing = slow
    try:
        for _ in range(3):
            told = get(agent, "inputs/train")
            assert (told.status_code, told.json()["where"]) == (503, "")
            assert told.json()["what"].startswith("input train: its store is still asked for the list of its files (")
    finally:
        is_over.set()
    assert len(house.control.inputs.listing("a", "train").files) == 2
    assert get(agent, "inputs/train").status_code == 200
    assert data.listings == 1


def test_a_store_that_fails_in_the_end_is_asked_once_for_all_who_wait(house: House, agent: Agent, data: MemoryData):
    """What a store says in vain for a minute mustn't be waited for by one after the other."""
    asked, is_over = list[str](), threading.Event()

    def silent(uri: str, *, is_file: bool) -> Listing:
        asked.append(uri)
        is_over.wait(60)
        raise UnreachableError("no answer from the store")

    data.listing = silent
    with ThreadPoolExecutor(4) as pool:
        told = [pool.submit(get, agent, "inputs/train") for _ in range(4)]
        with house.control.inputs.asked(house.control.inputs.job_of("a"), "train") as making:
            while making.waiting < 5:
                time.sleep(0.01)
            is_over.set()
    words = {(one.result().status_code, one.result().json()["what"]) for one in told}
    assert words == {(503, "input train: no answer from the store")}
    assert len(asked) == 1


def get(agent: Agent, path: str, **headers: str) -> httpx.Response:
    return agent.house.http.get(f"{agent.path}/{path}", headers={**agent.headers, **headers})


def test_a_listing_is_the_same_for_the_life_of_the_job(house: House, agent: Agent, data: MemoryData):
    listed = get(agent, "inputs/train").json()["listing"]
    assert [(file["path"], file["size"]) for file in listed["files"]] == [("a", 10), ("b/ü c", 0)]
    data.files["set/new"] = b"later"
    house.control.inputs = inputs_of(house, data)
    assert get(agent, "inputs/train").json()["listing"] == listed
    assert data.listings == 1
    assert "inputs/train.json" in [file.path for file in house.control.artifacts.files("a")]


def delete(house: House, job: str) -> None:
    """Deletes a job that has ended as another server does: this one isn't told of it."""
    store = house.control.store
    eventually(lambda: not store.outbox())
    store.delete_job(job)
    house.control.artifacts.set_aside_job(job)
    finish_removal(store, job)


def test_job_of_a_deleted_name_has_a_listing_of_its_own(house: House, agent: Agent, data: MemoryData):
    assert len(get(agent, "inputs/train").json()["listing"]["files"]) == 2
    assert get(agent, "inputs/train/files/a").content == b"0123456789"
    house.finish("a")
    delete(house, "a")
    data.files |= {"set/a": b"changed", "set/new": b"later"}
    house.submit("a")
    assert [file["path"] for file in get(agent, "inputs/train").json()["listing"]["files"]] == ["a", "b/ü c", "new"]
    assert get(agent, "inputs/train/files/a").content == b"changed"
    assert "inputs/train.json" in [file.path for file in house.control.artifacts.files("a")]


def test_listing_that_was_made_for_a_deleted_job_is_not_kept_for_the_next(house: House, agent: Agent, data: MemoryData):
    house.context.silent_s, has_begun, is_over, listing = 0.2, threading.Event(), threading.Event(), data.listing

    def slow(uri: str, *, is_file: bool) -> Listing:
        found = listing(uri, is_file=is_file)
        has_begun.set()
        is_over.wait(60)
        return found

    data.listing = slow
    old = house.control.inputs.job_of("a")
    with house.control.inputs.asked(old, "train") as making:
        assert has_begun.wait(60)
        house.finish("a")
        delete(house, "a")
        house.submit("a")
        is_over.set()
        with pytest.raises(NotFoundError):
            making.result()
    data.listing, data.files["set/new"] = listing, b"later"
    assert len(get(agent, "inputs/train").json()["listing"]["files"]) == 3


@pytest.mark.feature("X2")
def test_agent_of_a_deleted_job_is_not_taken_for_one_of_the_next_job_of_its_name(house: House, agent: Agent):
    old, status = agent.headers, agent.status(Phase.READY)
    house.finish("a")
    delete(house, "a")
    house.submit("a")
    asked = {"status": wire.to_wire(status), "holds": "", "wait_s": 0}
    for told in (
        house.http.post(f"{agent.path}/sync", json=asked, headers=old),
        house.http.get(f"{agent.path}/inputs/train", headers=old),
        house.http.post(f"{agent.path}/metrics", params={"offset": 0}, content=b"", headers=old),
    ):
        assert (told.status_code, told.json()["code"]) == (410, "stale")
    assert house.control.store.load("a").job.nodes in ((), (None,))
    assert agent.sync(status).status_code == 200


def test_concurrent_requests_share_one_listing(house: House, agent: Agent, data: MemoryData):
    all_ask, found = threading.Barrier(8), list[Any]()

    def ask() -> None:
        all_ask.wait(20)
        found.append(house.control.inputs.listing("a", "train"))

    asking = [threading.Thread(target=ask) for _ in range(8)]
    for one in asking:
        one.start()
    for one in asking:
        one.join(20)
    assert len(found) == 8
    assert len({listing.key for listing in found}) == data.listings == 1


@pytest.mark.feature("X2")
def test_links_are_given_file_by_file(agent: Agent, data: MemoryData):
    ask = {"paths": ["b/ü c", "a"]}
    url = f"{agent.path}/inputs/train/links"
    post = lambda: agent.house.http.post(url, json=ask, headers=agent.headers).json()["links"]  # noqa: E731
    assert post() == [None, None]
    with data:
        links = post()
        assert [link["url"].partition("?")[0] for link in links] == [
            f"{data.url}/set/b/%C3%BC%20c",
            f"{data.url}/set/a",
        ]


@pytest.mark.parametrize(
    ("said", "body"),
    [(None, b"0123456789"), ("bytes=2-4", b"234"), ("bytes=8-", b"89"), ("bytes=8-99", b"89"), ("bytes=10-", b"")],
)
def test_file_or_range_is_relayed(agent: Agent, said: str | None, body: bytes):
    answer = get(agent, "inputs/train/files/a", **({"Range": said} if said else {}))
    assert (answer.status_code, answer.content) == (206, body)
    assert answer.headers["Content-Length"] == str(len(body))


@pytest.mark.parametrize("said", ["bytes=4-2", "bytes=-5", "lines=1-2", "bytes=0-1,3-4"])
def test_a_range_that_cant_be_read_is_refused(agent: Agent, said: str):
    assert get(agent, "inputs/train/files/a", Range=said).status_code == 422


@pytest.mark.feature("X2")
@pytest.mark.parametrize(
    "path",
    [
        "inputs/other",
        "inputs/there",
        "inputs/..",
        "inputs/train/files/b",
        "inputs/train/files/../other/secret",
        "inputs/x/files/a",
    ],
)
def test_only_the_jobs_own_inputs_can_be_requested(agent: Agent, path: str):
    assert get(agent, path.replace("..", "%2e%2e")).status_code in (403, 404)
    assert get(agent, path.replace("..", "%2e%2e")).json()["code"] in ("forbidden", "not_found")


@pytest.mark.feature("X2")
def test_a_wrong_secret_gets_nothing(house: House, agent: Agent):
    for path in ("inputs/train", "inputs/train/files/a", "peers"):
        answer = house.http.get(f"{agent.path}/{path}", headers={"Authorization": "Bearer guessed"})
        assert answer.status_code == 401


@pytest.mark.parametrize(
    ("error", "status"), [(ForbiddenError("the store refuses"), 403), (UnreachableError("no answer"), 503)]
)
def test_refusal_of_a_store_names_the_input(agent: Agent, data: MemoryData, error: Any, status: int):
    def refuse(*_asked: object, **_more: object) -> Any:
        raise error

    data.listing = refuse
    answer = get(agent, "inputs/train")
    assert answer.status_code == status
    assert answer.json()["what"] == f"input train: {error.what}"
    assert answer.json()["where"] == "inputs.train"


def test_a_changed_file_is_refused_before_its_first_byte(agent: Agent, data: MemoryData):
    get(agent, "inputs/train")
    data.files["set/a"] = b"other 10 b"
    answer = get(agent, "inputs/train/files/a")
    assert (answer.status_code, answer.json()["code"]) == (409, "conflict")


def test_peers_have_the_addresses_at_which_they_relay(agent: Agent):
    assert get(agent, "peers").json() == {"peers": [None]}
    agent.say(Phase.ENROLLED)
    (peer,) = get(agent, "peers").json()["peers"]
    assert (peer["address"], peer["data_port"], peer["cache"]) == ("127.0.0.1", 0, "")

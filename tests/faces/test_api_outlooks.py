"""When waiting jobs may start, over HTTP: with three holders of known limits, and by earlier runs."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from drumbeat.client import Client
from drumbeat.model.agent import Phase
from drumbeat.model.api.outlooks import OutlookView, StartView
from drumbeat.model.errors import NotFoundError
from drumbeat.model.metrics import ParamsLogged, run_id

from .api_house import DOCUMENT, TOKEN, House, eventually, house_in
from .test_api_metrics import points, send

pytestmark = pytest.mark.feature("M3", "C9")

SLOTS = 3


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    with house_in(tmp_path, cpus=SLOTS) as there:
        yield there


@pytest.fixture
def client(house: House) -> Iterator[Client]:
    with Client(url=house.url, token=TOKEN) as there:
        yield there


def running(house: House, name: str, limit_s: int | None = None, command: str = "true") -> str:
    limits = {"limits": {"timeout": limit_s}} if limit_s else {}
    house.submit(name, command=command, experiment_name="waits", **limits)
    agent = house.agent(name)
    for phase in (Phase.ENROLLED, Phase.READY, Phase.RUNNING):
        agent.say(phase)
    return name


def waiting(house: House, client: Client, name: str, nodes: int = 1) -> OutlookView:
    body = {"document": {**DOCUMENT, "name": name, "resources": {"instance_count": nodes}}}
    assert house.http.post("/api/v1/jobs", json=body).status_code == 201
    eventually(lambda: client.get(name).reason in ("waiting_for_slots", "waiting_for_turn"))
    return client.outlook(name)


def start_of(wait: OutlookView) -> StartView:
    assert wait.start is not None
    return wait.start


def test_estimate_with_three_limits_is_within_their_bound_and_names_its_ground(house: House, client: Client) -> None:
    limits = {"short": 600, "middle": 1200, "long": 2400}
    for name, limit in limits.items():
        running(house, name, limit)
    wait = waiting(house, client, "own", nodes=2)
    start, now = start_of(wait), datetime.now(UTC)
    assert (start.place, start.waiting, start.compute) == (1, 1, "local")
    assert start.at is not None
    assert start.latest is not None
    assert start.at <= start.latest <= now + timedelta(seconds=limits["middle"])
    assert start.at > now + timedelta(seconds=limits["short"])
    assert start.sentence == "starts in at most 20 min, when middle ends, by its time limit"
    assert {one.job: one.ground for one in wait.holders} == dict.fromkeys(limits, "by its time limit")
    assert [one.since is not None and one.deadline is not None for one in wait.holders] == [True] * 3


def test_job_behind_another_has_its_place_and_both_are_listed(house: House, client: Client) -> None:
    for n in range(SLOTS):
        running(house, f"holder-{n}", 600)
    waiting(house, client, "first", nodes=3)
    behind = start_of(waiting(house, client, "second"))
    assert (behind.place, behind.waiting, behind.at) == (2, 2, None)
    assert behind.sentence == "unknown: first has no time limit and no earlier runs"
    assert [(one.job, one.place, one.at is not None) for one in client.starts()] == [
        ("first", 1, True), ("second", 2, False),
    ]  # fmt: skip


def test_earlier_runs_of_the_same_command_are_looked_at(house: House, client: Client) -> None:
    for name in ("once", "twice"):
        running(house, name, command="python train.py")
        house.finish(name)
    commands = ("python train.py", "python other.py", "python third.py")
    for n, command in enumerate(commands):
        running(house, f"holder-{n}", command=command)
    wait = waiting(house, client, "own")
    assert {one.job: one.ground for one in wait.holders} == {
        "holder-0": "has no time limit and has run longer than its last 2 runs",
        "holder-1": "has no time limit and no earlier runs",
        "holder-2": "has no time limit and no earlier runs",
    }
    assert start_of(wait).sentence.startswith("unknown: holder-0 has no time limit and has run longer")


def test_steps_of_a_holder_are_told_with_their_number(house: House, client: Client) -> None:
    for n in range(SLOTS):
        running(house, f"holder-{n}")
    logged = points("holder-1", "loss", *[1.0] * 51), ParamsLogged(run_id("holder-1"), {"max_steps": "100"})
    send(house, "holder-1", *logged)
    wait = waiting(house, client, "own")
    holder = next(one for one in wait.holders if one.job == "holder-1")
    assert (holder.step, holder.steps, holder.ground) == (50, 100, "at step 50 of 100")
    assert start_of(wait).sentence == "starts in about 1 min, when holder-1 ends, which is at step 50 of 100"


def test_number_of_nodes_with_which_it_would_start_now_is_told(house: House, client: Client) -> None:
    running(house, "holder", 600)
    assert waiting(house, client, "own", nodes=3).fewer == "2 nodes would start now"


def test_running_job_has_its_own_end_and_no_start(house: House, client: Client) -> None:
    outlook = client.outlook(running(house, "holder", 600))
    assert (outlook.start, outlook.holders) == (None, ())
    assert outlook.own is not None
    assert (outlook.own.ground, outlook.own.ends_at is not None, outlook.own.is_limit) == (
        "by its time limit",
        True,
        True,
    )
    assert client.starts() == []


def test_ended_job_has_no_outlook(house: House, client: Client) -> None:
    house.finish(running(house, "over"))
    assert client.outlook("over") == OutlookView("over")
    with pytest.raises(NotFoundError):
        client.outlook("nobody")

"""Two server processes over one PostgreSQL: one stands by, and goes on with what the other had."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from drumbeat.engines.netlab.lab import Lab, require_tools
from drumbeat.model.errors import ConflictError, DrumbeatError, EngineError
from tests.contract.postgres import Cluster, a_cluster

from .guard import guarded
from .house import House, until

pytestmark = pytest.mark.feature("F5")

WAITS = "import pathlib, sys, time\nwhile not pathlib.Path(sys.argv[1]).exists(): time.sleep(0.05)\nprint('went on')\n"
POLLS = "{lost_after_s: 30}"
"""Agents hear every ten seconds what is new."""


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with guarded(tmp_path), a_cluster() as cluster:
        yield cluster


@pytest.fixture
def houses(cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[House]]:
    with cluster.database() as name:
        monkeypatch.setenv("DRUMBEAT_DATABASE", cluster.url(name))
        monkeypatch.setenv("DRUMBEAT_SHARED", str(tmp_path / "shared"))
        there = [House(tmp_path / "one"), House(tmp_path / "two")]
        try:
            yield there
        finally:
            for house in there:
                house.close()


@pytest.fixture
def lab(houses: list[House], tmp_path: Path) -> Iterator[str]:
    """The name of a compute whose nodes call from other machines."""
    try:
        require_tools()
    except EngineError as error:
        pytest.skip(str(error))
    begin(houses[0])
    houses[0].client.create_compute({"name": "lab", "type": "netlab", "nodes": 2, "cpus": 2})
    try:
        yield "lab"
    finally:
        for house in houses:
            house.close()
        with contextlib.suppress(FileNotFoundError):
            Lab(tmp_path / "shared" / "labs" / "lab", "lab", 2).close()


def begin(house: House) -> None:
    until(lambda: house.run("server", "start").returncode == 0, what="the start of a server")


def submitted(house: House, go: Path, **keys: str) -> str:
    """A job whose ranks wait for that file."""
    house.script(WAITS)
    ran = house.run("run", house.job_file(command=f"{sys.executable} t.py {go}", code=".", **keys), "--detach")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout.split()[0]


def running(house: House, job: str) -> None:
    until(lambda: house.client.get(job).state == "running", what=f"the start of the ranks, as {house.home} sees it")


def servers_known(folder: Path) -> list[int]:
    """To how many servers each node's agent was sent."""
    found = []
    for place, _, names in os.walk(folder):  # What goes meanwhile is left out.
        if "servers.json" in names:
            found.append(len(json.loads(Path(place, "servers.json").read_text())))
    return found


@pytest.mark.thorough
def test_agents_go_to_a_server_that_came_after_them(houses: list[House], tmp_path: Path):
    one, two = houses
    job = submitted(one, tmp_path / "go", drumbeat=POLLS)
    running(one, job)
    begin(two)
    until(lambda: servers_known(tmp_path / "shared") == [2], what="the agent's hearing of the other server")
    assert two.client.status().stands_by
    stopped = one.run("server", "stop")
    assert stopped.returncode == 0, stopped.stderr
    (tmp_path / "go").touch()
    until(lambda: not two.client.status().stands_by, what="the other's taking over")
    until(lambda: two.client.get(job).state == "completed", what="the end of the job at the other server")
    assert two.logs(job) == {0: "went on\n"}
    assert two.client.get(job).attempt == 1
    until(lambda: two.client.status().others == (), what="that the other is known to be gone")


@pytest.mark.thorough
def test_agents_on_other_machines_find_the_other_servers_listener(houses: list[House], lab: str, tmp_path: Path):
    one, two = houses
    job = submitted(one, tmp_path / "go", compute=lab, resources="{instance_count: 2}", drumbeat=POLLS)
    running(one, job)
    begin(two)
    until(lambda: servers_known(tmp_path / "shared") == [2, 2], what="the agents' hearing of the other server")
    one.server().kill()
    (tmp_path / "go").touch()
    until(lambda: not two.client.status().stands_by, what="the other's taking over")
    until(lambda: two.client.get(job).state == "completed", what="the end of the job at the other server")
    assert two.logs(job) == dict.fromkeys(range(2), "went on\n")
    assert two.client.get(job).attempt == 1


@pytest.mark.feature("F10")
@pytest.mark.thorough
def test_a_server_with_a_folder_of_its_own_is_refused(houses: list[House]):
    """It couldn't end the nodes of the others' jobs, and would run each a second time."""
    begin(houses[0])
    del houses[1].environment["DRUMBEAT_SHARED"]
    refused = houses[1].run("list")
    assert refused.returncode
    assert "the servers of this database have another folder, and another key in it" in refused.stderr
    assert "DRUMBEAT_SHARED=FOLDER" in refused.stderr


@pytest.mark.feature("F10")
@pytest.mark.thorough
def test_a_database_that_crashes_costs_no_job_that_was_taken(houses: list[House], cluster: Cluster, tmp_path: Path):
    one, names = houses[0], [f"j-{n}" for n in range(12)]
    waits = submitted(one, tmp_path / "go", drumbeat=POLLS)
    running(one, waits)
    path = one.job_file("short", command="echo $DRUMBEAT_JOB")

    def take(name: str) -> bool:
        """Sent again by somebody who can't know whether it came."""
        with contextlib.suppress(DrumbeatError, httpx.HTTPError):
            with contextlib.suppress(ConflictError):
                one.client.submit(path, name=name)
            return True
        return False

    def take_all() -> None:
        for name in names:
            until(lambda name=name: take(name), what=f"that {name} is taken")

    taking = threading.Thread(target=take_all)
    taking.start()
    until(lambda: bool(one.client.list()), what="jobs")
    for _ in range(3):
        cluster.crash()
        with pytest.raises((DrumbeatError, httpx.HTTPError), match="database"):
            one.client.submit(path, name="refused")
        (tmp_path / "go").touch()  # A rank ends, and says so, while it is away.
        cluster.start()
    taking.join()
    for name in (waits, *names):
        until(lambda name=name: one.client.get(name).has_ended, what=f"the end of {name}")
        job = one.client.get(name)
        assert (job.state, job.attempt, job.round) == ("completed", 1, 1), job.sentence
    assert one.logs(waits) == {0: "went on\n"}
    assert {name: one.logs(name) for name in names} == {name: {0: f"{name}\n"} for name in names}

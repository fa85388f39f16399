"""A job that has the name of a deleted one: nothing of the deleted job is taken for its own."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from drumbeat.core.lifecycle.job import Job
from drumbeat.model.agent import Phase
from drumbeat.model.api.requests import JobRequest
from drumbeat.model.errors import StaleError, UnauthorizedError
from drumbeat.model.unique_names import gang_name, parse_gang_name, unique_name
from drumbeat.ports.engines import Gang, GangStatus, node_secret
from drumbeat.server.jobs.job_filter import JobFilter
from drumbeat.server.nodes.engine_gangs import Secrets
from tests.support.fake_engine import FakeEngine
from tests.support.memory_store import MemoryStore
from tests.support.store_witness import listed

from .house import House, until


def end_and_delete(house: House, name: str) -> None:
    house.run_to_end(name)
    until(lambda: not house.store.outbox())
    house.control.space.delete(name, by="a test")


def echo(house: House, name: str, text: str, step: str = "say") -> str:
    """Runs a pipeline of one step; returns the command of the step's job."""
    jobs = {step: {"type": "command", "command": f"echo {text}"}}
    house.control.jobs.submit(JobRequest({"type": "pipeline", "name": name, "jobs": jobs}))
    until(lambda: f"{name}_{step}" in listed(house.store, JobFilter()))
    command = house.store.load(f"{name}_{step}").job.plan.command
    house.run_to_end(f"{name}_{step}")
    until(lambda: house.state(name).is_terminal and not house.store.outbox())
    return command


@pytest.mark.parametrize("step", ["say", "tell"])
def test_pipeline_of_a_deleted_name_runs_its_own_steps(house: House, step: str) -> None:
    assert echo(house, "p", "old") == "echo old"
    house.control.space.delete("p", by="a test")
    assert echo(house, "p", "new", step) == "echo new"


def test_gang_of_a_deleted_name_has_a_name_of_its_own_and_is_stopped_by_it(house: House) -> None:
    house.submit("a")
    assert house.gang("a").name == "a.1"
    end_and_delete(house, "a")
    house.submit("a")
    gang = house.gang("a")
    assert re.fullmatch(r"a~\d+\.1", gang.name)
    assert (gang.job, gang.attempt, gang.unique_job) == ("a", 1, house.store.load("a").job.unique_name)
    assert house.control.engines._wanted("local") == {gang.name}  # pyright: ignore[reportPrivateUsage]
    house.run_to_end("a")
    until(lambda: not house.store.outbox())
    assert gang.name not in house.engine.gangs


def test_agent_of_a_deleted_job_is_refused_by_the_next_job_of_its_name(house: House) -> None:
    house.submit("a")
    secret = house.gang("a").node_secret(0)
    end_and_delete(house, "a")
    house.submit("a")
    assert house.gang("a").node_secret(0) != secret
    with pytest.raises(StaleError, match="that job a was deleted, and another job has its name"):
        house.control.agents.admit("a", 1, 0, secret)
    assert house.say("a", 0, Phase.READY).attempt == 1


@pytest.mark.parametrize("forged", ["3.", "03.", "9.", "9" * 5000 + ".", "x.", ""])
def test_version_in_a_secret_that_is_not_its_own_is_no_secret(forged: str) -> None:
    secrets = Secrets(b"key")
    right, other = node_secret(secrets.of("a", 1, 5), 0), node_secret(secrets.of("a", 1), 0)
    secrets.check("a", 1, 0, right)
    for told in (forged + right.partition(".")[2], forged + other):
        if told != other:
            with pytest.raises(UnauthorizedError):
                secrets.check("a", 1, 0, told)


def test_secret_of_a_name_without_a_deleted_job_is_unchanged() -> None:
    assert Secrets(b"key").of("a", 1) == "fddf738573f47c7f7724e78dce14ab689471c17f20a1225c9b9beed9c35ac602"


class Slow(FakeEngine):
    """Answers what became of a gang once the test has done something in between."""

    meanwhile: Callable[[], object] | None = None

    def observe(self, gang: Gang) -> GangStatus:
        sighting, meanwhile, self.meanwhile = super().observe(gang), self.meanwhile, None
        if meanwhile is None:
            return sighting
        meanwhile()
        return replace(sighting, gone={0: "it is gone"})


def test_late_word_of_an_engine_on_a_deleted_job_is_not_the_next_jobs(tmp_path: Path) -> None:
    engine = Slow()
    house = House(tmp_path, MemoryStore(), engine)
    try:
        house.submit("a")
        old = seen(house, "a")
        house.control.watch.stop()  # The test looks itself.

        def meanwhile() -> None:
            end_and_delete(house, "a")
            house.submit("a")
            seen(house, "a")

        engine.meanwhile = meanwhile
        house.control.watch.look_after(old)
        job = house.store.load("a").job
        assert (job.unique_name != "a", job.attempt, job.failures) == (True, 1, ())
    finally:
        house.control.stop()


def seen(house: House, name: str) -> Job:
    """The job once its gang was started."""
    until(lambda: house.store.load(name).job.observed is not None)
    return house.store.load(name).job


def test_unique_names_of_jobs_and_gangs() -> None:
    assert (unique_name("a", 1), unique_name("a", 7)) == ("a", "a~7")
    assert (gang_name("a", 2), gang_name("a~7", 2)) == ("a.2", "a~7.2")
    assert parse_gang_name("a.2") == parse_gang_name("a~7.2") == ("a", "2")

"""Jobs take over kept nodes in the order of the queue, and kept nodes stand in nobody's way."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from drumbeat.core.scheduling.quotas import Quota, QuotaKind
from drumbeat.model.agent import Order, Phase, RankExit, Takeover
from drumbeat.model.states import State
from tests.support.fake_engine import FakeEngine
from tests.support.memory_store import MemoryStore

from .house import House, until

pytestmark = pytest.mark.feature("S6")

PROOF = "0123456789abcdef"
DIGEST = hashlib.sha256(PROOF.encode()).hexdigest()


@pytest.fixture
def full(tmp_path: Path):
    """A house with room for one job of one node, which is taken by the job `a`."""
    house = House(tmp_path, MemoryStore(), FakeEngine(cpus=1))
    house.submit("a")
    house.gang("a")
    yield house
    house.control.stop()


def go(house: House, name: str) -> None:
    """Takes a job on its first nodes to its end."""
    for phase in (Phase.READY, Phase.ENDED, Phase.UPLOADED):
        exits = (RankExit(0, 0, None, 1.0, 0),) if phase is not Phase.READY else ()
        house.say(name, 0, phase, exits=exits, handover=DIGEST)


def heir_of(house: House) -> Takeover:
    """What the agent on the nodes of `a` is told of the job that took them over, by the proof that it shows."""
    until(lambda: house.control.agents.next_job("a", 1, 0, PROOF) is not None)
    heir = house.control.agents.next_job("a", 1, 0, PROOF)
    assert heir
    return heir


def test_equal_job_that_waits_takes_over_the_nodes_and_is_told_by_proof_alone(full: House):
    full.submit("b")
    secret = full.gang("a").node_secret(0)
    go(full, "a")
    until(lambda: full.state("b") is State.PROVISIONING)
    job = full.store.load("b").job
    assert (job.gang, job.slots) == ("a.1", full.store.load("a").job.slots)
    agents = full.control.agents
    status = full.store.load("a").job.nodes[0]
    assert status
    assert agents.report("a", 1, 0, secret, status).order is Order.LEAVE
    assert agents.next_job("a", 1, 0, "") is None
    assert agents.next_job("a", 1, 0, PROOF + "0") is None
    heir = heir_of(full)
    assert (heir.job, heir.attempt, heir.root) == ("b", 1, "root.b.1")
    assert heir.secret not in ("", secret)
    assert full.engine.started == ["a.1"]
    assert not full.engine.stopped


def test_node_that_has_enrolled_for_the_next_job_is_told_to_nobody_again(full: House):
    full.submit("b")
    go(full, "a")
    until(lambda: full.state("b") is State.PROVISIONING)
    heir = heir_of(full)
    status = full.store.load("a").job.nodes[0]
    assert status
    full.control.agents.report("b", 1, 0, heir.secret, status)
    assert full.control.agents.next_job("a", 1, 0, PROOF) is None


def test_job_of_higher_priority_is_not_passed_by_one_that_fits_the_nodes(full: House):
    full.submit("equal")
    full.submit("first", queue_settings={"priority": "high"}, drumbeat={"fresh_nodes": True})
    go(full, "a")
    until(lambda: full.state("first") is State.PROVISIONING)
    assert full.store.load("first").job.taken is None
    assert full.state("equal") is State.QUEUED


def test_quota_of_its_user_does_not_count_the_kept_nodes_twice(full: House):
    full.control.quotas.set(Quota(QuotaKind.USER, "*", slots=1))
    full.submit("b")
    go(full, "a")
    until(lambda: full.state("b") is State.PROVISIONING)
    assert full.store.load("b").job.gang == "a.1"


def test_nodes_without_a_job_for_them_are_given_back_at_once(full: House):
    go(full, "a")
    until(lambda: full.engine.stopped == ["a.1"])
    until(lambda: not full.store.reservations("local"))


def test_last_job_on_taken_nodes_ends_the_gang_under_its_first_name(full: House):
    full.submit("b")
    go(full, "a")
    until(lambda: full.state("b") is State.PROVISIONING)
    heir_of(full)
    until(lambda: full.store.load("b").job.observed is not None)
    full.control.jobs.cancel("b", "ada")
    until(lambda: full.engine.stopped == ["a.1"])
    until(lambda: not full.store.reservations("local"))

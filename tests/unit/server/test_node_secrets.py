"""Secrets of nodes: what each opens, and when it ends."""

from __future__ import annotations

from dataclasses import replace

import pytest

from drumbeat.core.lifecycle.job import Job
from drumbeat.engines.enrolment import enrolment
from drumbeat.model import wire
from drumbeat.model.agent import AgentStatus, Enrolment, Phase
from drumbeat.model.errors import DrumbeatError, SpecError, StaleError, UnauthorizedError
from drumbeat.model.roster import Member
from drumbeat.ports.engines import Gang, node_secret
from drumbeat.server.nodes.engine_gangs import Secrets
from tests.support.sample_jobs import sample_job

from .house import House

SECRETS = Secrets(b"key")


def job_of(attempt: int = 1, node_secrets_since: int = 1, nodes: int = 2) -> Job:
    """A job in an attempt. node_secrets_since: 0 = a version before began it."""
    made = sample_job("j")
    plan = replace(made.plan, nodes=nodes)
    return replace(made, plan=plan, attempt=attempt, node_secrets_since=node_secrets_since)


def is_let_in(job: Job, attempt: int, node: int, secret: str) -> bool:
    try:
        SECRETS.check(job.name, attempt, node, secret)
        SECRETS.check_job(job, attempt, node, secret)
    except DrumbeatError:
        return False
    return True


def test_secret_of_a_node_opens_that_node_of_that_attempt_alone():
    job, own = job_of(attempt=2), SECRETS.of("j", 2)
    opened = [(a, n) for a in (1, 2, 3) for n in (0, 1, 2) if is_let_in(job, a, n, node_secret(own, 1))]
    assert opened == [(2, 1)]


@pytest.mark.parametrize("first_version", [1, 7])
def test_no_secret_of_a_whole_attempt_opens_one_whose_nodes_have_their_own(first_version: int):
    job = replace(job_of(), first_version=first_version)
    own = SECRETS.of("j", 1, first_version)
    assert is_let_in(job, 1, 0, node_secret(own, 0))
    for secret in (own, SECRETS.of_peers(job), SECRETS.of("j", 1, 3), ""):
        assert not is_let_in(job, 1, 0, secret)


def test_attempt_of_an_earlier_version_keeps_its_secret_and_the_next_has_none():
    old, own = job_of(node_secrets_since=0), SECRETS.of("j", 1)
    assert is_let_in(old, 1, 0, own)
    assert is_let_in(old, 1, 1, own)
    assert SECRETS.of_peers(old) == own, "what the nodes that run already prove themselves with"
    new = replace(old, attempt=2, node_secrets_since=2)
    assert is_let_in(new, 1, 0, own), "its metrics may come late"
    assert not is_let_in(new, 2, 0, SECRETS.of("j", 2))


@pytest.mark.parametrize("node", [2, 5, 999])
def test_node_that_the_job_does_not_have_is_refused_with_the_numbers_that_it_has(node: int):
    job, own = job_of(node_secrets_since=0), SECRETS.of("j", 1)
    with pytest.raises(SpecError, match=rf"job j has no node {node}.*\n?.*0 to 1"):
        SECRETS.check_job(job, 1, node, own)


def test_nodes_prove_themselves_to_each_other_with_what_the_server_takes_from_none():
    job = job_of()
    gang = Gang("j", 1, job.plan, (), SECRETS.of("j", 1), ())
    assert SECRETS.of_peers(job) == gang.peer_secret
    secrets = {gang.secret, gang.peer_secret, gang.node_secret(0), gang.node_secret(1)}
    assert len(secrets) == 4
    assert [one for one in secrets if is_let_in(job, 1, 1, one)] == [gang.node_secret(1)]


def test_enrolment_of_a_node_holds_its_own_secret_and_the_shared_one(house: House):
    house.submit("j", nodes=2)
    gang = house.gang("j")
    texts = [enrolment(gang, node, root="/r", checkpoints="/c") for node in (0, 1)]
    read = [wire.loads(Enrolment, text) for text in texts]
    assert [one.secret for one in read] == [gang.node_secret(0), gang.node_secret(1)]
    assert {one.shared_secret for one in read} == {gang.peer_secret}
    assert not [text for text in texts if gang.secret in text]
    assert gang.node_secret(1) not in texts[0]


def test_agent_with_the_enrolment_of_the_version_before_shares_its_only_secret():
    gang = Gang("j", 1, job_of().plan, (), "old", (), has_node_secrets=False)
    assert (gang.node_secret(0), gang.node_secret(1), gang.peer_secret) == ("old", "old", "old")
    assert Enrolment("j", 1, 0, (), "old", "/r", "/c", gang.plan).shared_secret == "old"


@pytest.mark.feature("X2")
def test_secret_ends_with_the_attempt_and_a_late_agent_has_to_leave(house: House):
    house.submit("j")
    secret = house.gang("j").node_secret(0)
    admit = lambda: house.control.agents.admit("j", 1, 0, secret)  # noqa: E731
    for phase in (Phase.READY, Phase.ENDED):
        house.say("j", 0, phase)
        admit()
    house.say("j", 0, Phase.UPLOADED)
    with pytest.raises(StaleError, match="attempt 1 of job j is over: the job is completed"):
        admit()
    with pytest.raises(StaleError, match="is over"):
        house.control.agents.admit_late("j", 1, 0, secret)
    last = AgentStatus(Phase.UPLOADED, 1, Member(0, "h", "127.0.0.1", "/r0", "/c"))
    assert house.control.agents.report("j", 1, 0, secret, last).order == "leave"


def test_node_that_is_cut_short_may_still_send_its_logs_and_nothing_else(house: House):
    house.submit("j", nodes=2)
    for node in (0, 1):
        house.say("j", node, Phase.STAGING)
    gang = house.gang("j")
    house.control.jobs.cancel("j", "a test")
    house.control.agents.admit_late("j", 1, 1, gang.node_secret(1))
    with pytest.raises(StaleError, match="is over: the job is canceled"):
        house.control.agents.admit("j", 1, 1, gang.node_secret(1))
    with pytest.raises(UnauthorizedError, match="not the secret of node 1 of attempt 1 of job j"):
        house.control.agents.admit_late("j", 1, 1, gang.node_secret(0))

"""Whose nodes may go on with another job, and which job may have them."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import pytest

from drumbeat.core.child_jobs import SweepProgress, TrialProgress
from drumbeat.core.lifecycle import handover
from drumbeat.core.lifecycle.events import Placed, StartGang, StopGang
from drumbeat.core.lifecycle.job import Job, TakenNodes
from drumbeat.core.lifecycle.state_machine import decide
from drumbeat.core.scheduling.resource_needs import Need, Slot
from drumbeat.model.agent import VOID, Phase, RankExit
from drumbeat.model.plan import Container, Elastic
from drumbeat.model.states import State

from .jobs import a_job, at, said

pytestmark = pytest.mark.feature("S6")

SLOTS = (Slot(0, "m0", 2), Slot(1, "m1", 2))
TAKEN = TakenNodes("job-0.1", "job-0", 1)


def proof(of: int) -> str:
    return hashlib.sha256(str(of).encode()).hexdigest()


def ended(job: Job, *, proofs: tuple[str, str] = (proof(0), proof(1)), code: int = 0) -> tuple[Job, list[StopGang]]:
    """A job of two nodes that has gone its way to the end, and the effects by which it gives its nodes back."""
    job = decide(job, Placed(SLOTS), at(0)).job
    effects: list[StopGang] = []
    for second, phase in enumerate((Phase.READY, Phase.ENDED, Phase.UPLOADED), 1):
        for node in (0, 1):
            ranks = (2 * node, 2 * node + 1) if phase is not Phase.READY else ()
            exits = tuple(RankExit(rank, code, None, 1.0, order) for order, rank in enumerate(ranks))
            decision = decide(job, said(node, phase, exits=exits, handover=proofs[node]), at(second))
            job = decision.job
            effects += [one for one in decision.effects if isinstance(one, StopGang)]
    return job, effects


def test_nodes_of_a_job_that_ended_well_are_kept_for_the_next_one():
    job, effects = ended(a_job())
    assert job.state is State.COMPLETED
    assert effects == [StopGang(1, "", handover.KEEP_S)]


@pytest.mark.parametrize("proofs", [("", proof(1)), (proof(0), VOID)])
def test_nodes_whose_agents_cannot_prove_who_they_are_are_given_back_at_once(proofs: tuple[str, str]):
    assert ended(a_job(), proofs=proofs)[1] == [StopGang(1)]


def test_proof_is_void_for_good_once_another_one_was_shown():
    job = decide(a_job(), Placed(SLOTS), at(0)).job
    for serial, shown in enumerate((proof(0), proof(7), proof(0)), 1):
        job = decide(job, said(0, Phase.ENROLLED, handover=shown, serial=serial), at(serial)).job
    assert job.nodes[0]
    assert job.nodes[0].handover == VOID


def test_job_that_takes_nodes_over_has_their_gang_and_says_whose_they_were():
    decision = decide(a_job(), Placed(SLOTS, TAKEN), at(0))
    assert decision.job.gang == "job-0.1"
    assert decision.effects == (StartGang(1, SLOTS),)
    assert decision.events[-1].sentence == "2 nodes granted on local; takes over the nodes of job-0"


def test_last_job_on_taken_nodes_gives_back_the_gang_that_the_engine_knows():
    job = decide(a_job(), Placed(SLOTS, TAKEN), at(0)).job
    for node in (0, 1):
        job = decide(job, said(node, Phase.READY, handover=proof(node)), at(1)).job
    lost = replace(job, verdict=None)
    from drumbeat.core.lifecycle.events import NodeLost

    requeued = decide(lost, NodeLost(1, 0, "gone"), at(2))
    while requeued.job.state is State.STOPPING:
        requeued = decide(requeued.job, said(1, Phase.ENDED, serial=9), at(3))
    assert StopGang(1, "job-0.1") in requeued.effects
    assert requeued.job.state is State.QUEUED
    assert requeued.job.taken is None


@pytest.mark.parametrize(
    "change",
    [
        {"compute": "other"},
        {"code": "1" * 64},
        {"environment": "other"},
        {"launcher": "mpi"},
        {"gpus_per_node": 1},
        {"network": "eth1"},
    ],
)
def test_jobs_that_differ_in_what_nodes_prepare_do_not_follow_each_other(change: dict[str, object]):
    first = a_job()
    other = replace(first, name="job-2", plan=replace(first.plan, job="job-2", **change))
    assert not handover.fits(other, handover.shape(first))


def test_equal_job_of_the_same_user_follows_and_that_of_another_does_not():
    first = replace(a_job(), user="ada")
    assert handover.fits(replace(first, name="job-2"), handover.shape(first))
    assert not handover.fits(replace(first, name="job-2", user="bob"), handover.shape(first))
    assert not handover.fits(replace(first, name="job-2", need=Need(2, 1)), handover.shape(first))


@pytest.mark.parametrize(
    "change", [{"fresh_nodes": True}, {"container": Container("i")}, {"elastic": Elastic(1, 2, 3)}]
)
def test_job_that_wants_or_needs_its_own_nodes_takes_over_none(change: dict[str, object]):
    job = a_job()
    own = replace(job, plan=replace(job.plan, **change))
    assert not handover.is_able(own)
    assert handover.keep_s(own, ended(job)[0].verdict) == 0  # pyright: ignore[reportArgumentType] (it has ended)


def test_nodes_are_kept_while_a_sweep_has_trials_left_and_not_for_its_last_one():
    trials = (TrialProgress(0, state=State.RUNNING),)
    parent = replace(a_job(), state=State.RUNNING, sweep=SweepProgress("minimize", "loss", 2, 1, trials=trials))
    assert handover.has_heir(a_job(), [], [parent])
    assert parent.sweep
    full = replace(parent, sweep=replace(parent.sweep, max_trials=1))
    assert not handover.has_heir(a_job(), [], [full])
    assert not handover.has_heir(a_job(), [], [replace(parent, state=State.STOPPING)])
    assert handover.has_heir(a_job(), [replace(a_job(), name="job-2")], [full])

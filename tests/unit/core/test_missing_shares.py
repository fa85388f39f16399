"""A machine that lacks a share: given up for the job, which goes on elsewhere; or the end, where all lack it."""

from dataclasses import replace

import pytest

from drumbeat.core.lifecycle.events import Decision, NeverFits, Placed
from drumbeat.core.lifecycle.job import Job
from drumbeat.core.lifecycle.state_machine import decide
from drumbeat.core.scheduling.queued_job import QueuedJob
from drumbeat.core.scheduling.resource_needs import Need, Slot
from drumbeat.core.scheduling.scheduler import place
from drumbeat.core.scheduling.slot_fitting import MachineCapacity, SlotAllocation
from drumbeat.model.agent import Phase
from drumbeat.model.states import Reason, State
from tests.support.messages import Messages

from .jobs import START, a_job, at, said

pytestmark = pytest.mark.feature("D9")
WHY = "share data: nothing is mounted at /data. Mount it"


def lacking(job: Job, *machines: str) -> Decision:
    """The job was granted one node on each machine, and the first lacks the share."""
    granted = decide(job, Placed(tuple(Slot(n, machine, 1) for n, machine in enumerate(machines))), at(1)).job
    event = said(0, Phase.STAGING, attempt=granted.attempt, error=WHY, is_share_missing=True)
    return decide(granted, event, at(2))


def test_machine_without_the_share_is_given_up_and_the_job_goes_on_elsewhere(messages: Messages) -> None:
    decision = lacking(a_job(1, 1, max_retries=0), "m1")
    assert (decision.job.state, decision.job.lacking) == (State.QUEUED, ("m1",))
    messages.check(decision.job.sentence)
    assert decision.job.failures[0].verdict.reason is Reason.SHARE_MISSING
    again = lacking(decision.job, "m2")
    assert again.job.lacking == ("m1", "m2")


def test_job_ends_where_no_machine_has_the_share(messages: Messages) -> None:
    job = replace(a_job(1, 1), lacking=("m1", "m2"))
    decision = lacking(job, "m1")
    assert (decision.job.state, decision.job.reason) == (State.FAILED, Reason.STAGING_FAILED)
    messages.check(decision.job.sentence)


def test_cluster_that_chooses_machines_itself_is_tried_a_few_times() -> None:
    job = a_job(1, 1)
    for _ in range(3):
        job = lacking(job, "").job
        assert (job.state, job.lacking) == (State.QUEUED, ())
    assert lacking(job, "").job.state is State.FAILED


def test_job_is_not_placed_on_machines_that_lack_a_share() -> None:
    waiting = QueuedJob("j", Need(1, 1), 0, START, lacking=("a",))
    rooms = [MachineCapacity("a", 4), MachineCapacity("b", 4)]
    (said,) = place([waiting], rooms, [], START, compute="rack")
    assert [slot.machine for slot in said.slots] == ["b"]


def test_job_larger_than_the_machines_with_its_share_fails_and_delays_no_other(messages: Messages) -> None:
    why = "a can't be used for this job: share data: nothing is mounted at /data. Mount it."
    rooms = [MachineCapacity("a", 4), MachineCapacity("b", 4), MachineCapacity("c", 4)]
    gang = QueuedJob("gang", Need(2, 1), 0, START, lacking=("a", "b"), lack=why)
    other = QueuedJob("other", Need(3, 4), 0, at(9))
    said = {one.job: one for one in place([gang, other], rooms, [], START, compute="rack")}
    assert (said["gang"].never, said["gang"].lacks_share) == (True, True)
    messages.check(said["gang"].sentence)
    assert len(said["other"].slots) == 3
    alone = place([replace(gang, need=Need(1, 1), lacking=("a", "b", "c"))], rooms, [], START, compute="rack")
    assert alone[0].lacks_share


def test_job_waits_for_busy_machines_that_have_the_share(messages: Messages) -> None:
    rooms = [MachineCapacity("a", 4), MachineCapacity("b", 4)]
    busy = SlotAllocation("x", (Slot(0, "b", 4),))
    (said,) = place([QueuedJob("j", Need(1, 1), 0, START, lacking=("a",))], rooms, [busy], START, compute="rack")
    assert said.reason is Reason.WAITING_FOR_SLOTS
    messages.check(said.sentence)


def test_job_that_waits_for_unseen_machines_delays_no_other() -> None:
    rooms = [MachineCapacity("a", 4), MachineCapacity("b", 0, unusable="it doesn't answer")]
    waiting = QueuedJob("j", Need(1, 1), 0, START, lacking=("a",), lack="a lacks it")
    said = place([waiting, QueuedJob("k", Need(1, 1), 0, at(9))], rooms, [], START, compute="rack")
    assert (said[0].never, said[0].reason) == (False, Reason.WAITING_FOR_SLOTS)
    assert said[1].slots


def test_placement_ends_a_job_with_the_reason_of_the_share() -> None:
    decision = decide(lacking(a_job(1, 1), "m1").job, NeverFits("m1 lacks it", Reason.SHARE_MISSING), at(3))
    assert (decision.job.state, decision.job.reason) == (State.FAILED, Reason.SHARE_MISSING)

"""How many nodes an elastic job is given, and when it may have more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from drumbeat.core.scheduling.autoscaling import capped
from drumbeat.core.scheduling.cluster_queue import enqueue, idle_nodes
from drumbeat.core.scheduling.elastic_placement import growth, idle_growth
from drumbeat.core.scheduling.queued_job import Placement, QueuedJob
from drumbeat.core.scheduling.quota_balances import NO_BALANCES, Balances
from drumbeat.core.scheduling.quotas import Allowances, HeldSlots, Payer, Quota, QuotaKind
from drumbeat.core.scheduling.resource_needs import Need, Slot
from drumbeat.core.scheduling.scheduler import place
from drumbeat.core.scheduling.slot_fitting import MachineCapacity, SlotAllocation
from drumbeat.model.api.computes import NodeState
from drumbeat.model.states import Reason
from tests.support.messages import Messages

from .jobs import START, at

pytestmark = pytest.mark.feature("F8", "C3")
RACK = [MachineCapacity(name, 2) for name in ("a", "b", "c", "d")]


def waits(name: str, nodes: int, least: int, most: int, **more: Any) -> QueuedJob:
    return replace(QueuedJob(name, Need(nodes, 2, min_nodes=least, max_nodes=most), 0, START), **more)


def fixed(name: str, nodes: int, second: float = 1) -> QueuedJob:
    return QueuedJob(name, Need(nodes, 2), 0, at(second))


def holds(name: str, *machines: str) -> SlotAllocation:
    return SlotAllocation(name, tuple(Slot(node, machine, 2) for node, machine in enumerate(machines)))


def placed(
    queue: list[QueuedJob], *held: SlotAllocation, rooms: list[MachineCapacity] | None = None
) -> dict[str, Placement]:
    queue = sorted(queue, key=QueuedJob.rank)
    return {one.job: one for one in place(queue, rooms or RACK, list(held), START, compute="rack")}


def machines(one: Placement) -> str:
    return "".join(slot.machine for slot in one.slots)


# --- the first attempt --------------------------------------------------------------------------------------------
def test_elastic_job_starts_at_once_on_the_free_nodes(messages: Messages):
    job = waits("e", 3, 2, 4)
    assert machines(placed([job], holds("x", "a"))["e"]) == "bcd"
    assert machines(placed([job], holds("x", "a", "b"))["e"]) == "cd"
    said = placed([job], holds("x", "a", "b", "c"))["e"]
    assert (said.reason, said.slots) == (Reason.WAITING_FOR_SLOTS, ())
    messages.check(said.sentence)


def test_an_elastic_job_has_more_than_it_asks_for_only_while_no_other_job_waits():
    assert machines(placed([waits("e", 2, 1, 4)])["e"]) == "abcd"
    both = placed([waits("e", 2, 1, 4), fixed("f", 1)])
    assert (machines(both["e"]), machines(both["f"])) == ("ab", "c")


def test_nodes_beyond_the_requested_number_never_share_a_machine():
    rooms = [MachineCapacity(name, 8) for name in "ab"]
    assert machines(placed([waits("e", 2, 1, 4)], rooms=rooms)["e"]) == "ab"
    assert machines(placed([waits("e", 3, 1, 4)], rooms=rooms)["e"]) == "abab"


def test_an_elastic_job_fits_if_its_smallest_size_does(messages: Messages):
    rooms = [MachineCapacity("a", 2), MachineCapacity("b", 2)]
    assert machines(placed([waits("e", 3, 2, 3)], rooms=rooms)["e"]) == "ab"
    said = placed([waits("e", 4, 3, 4)], rooms=rooms)["e"]
    assert said.never is True
    messages.check(said.sentence)


def test_elastic_job_overtakes_with_as_many_nodes_as_delay_no_other_job():
    first, busy = fixed("first", 4, second=0), replace(holds("x", "a", "b"), until=at(60))
    no_limit = placed([first, waits("e", 2, 1, 2, submitted_at=at(1))], busy)
    assert no_limit["e"].reason is Reason.WAITING_FOR_TURN
    smaller = fixed("first", 3, second=0)
    said = placed([smaller, waits("e", 2, 1, 2, submitted_at=at(1))], busy)
    assert (machines(said["e"]), said["first"].reason) == ("c", Reason.WAITING_FOR_SLOTS)


def test_quota_shrinks_an_elastic_job_before_it_makes_it_wait():
    quota = Quota(QuotaKind.USER, "ada", slots=4)
    balances = Balances(Allowances((quota,)))
    job = waits("e", 3, 1, 3, payer=Payer("ada", "default"))
    (said,) = place([job], RACK, [], START, compute="rack", balances=balances)
    assert machines(said) == "ab"


# --- after a loss -------------------------------------------------------------------------------------------------
def test_job_that_lost_a_node_keeps_its_other_machines():
    job = waits("e", 4, 2, 4, avoided=("c",), is_resized=True)
    assert machines(placed([job])["e"]) == "abd"
    assert machines(placed([waits("e", 4, 4, 5, avoided=("c",), is_resized=True)])["e"]) == "abcd"


def test_job_between_two_attempts_precedes_higher_priorities():
    urgent = replace(fixed("urgent", 2, second=0), priority=9)
    both = placed([urgent, waits("e", 3, 2, 3, is_resized=True)], holds("x", "a"))
    assert (machines(both["e"]), both["urgent"].slots) == ("bcd", ())


def test_job_waits_for_the_slots_of_its_last_attempt_before_it_shrinks(messages: Messages):
    ending = waits("e", 3, 1, 3, is_resized=True)
    said = placed([ending], holds("e", "a", "b"))["e"]
    messages.check(said.sentence)
    assert machines(placed([ending], holds("e", "a"))["e"]) == "bcd"
    grows = waits("e", 2, 1, 4, is_resized=True, growth=4)
    messages.check(placed([grows], holds("e", "a", "b"))["e"].sentence)
    assert machines(placed([grows])["e"]) == "abcd"


# --- growth -------------------------------------------------------------------------------------------------------
def test_a_job_may_grow_onto_free_machines_beside_its_own():
    grown = growth(waits("e", 3, 2, 4), 2, RACK, [holds("e", "c", "d"), holds("x", "a")], NO_BALANCES)
    assert "".join(slot.machine for slot in grown) == "cdb"
    busy = [holds("e", "c", "d"), holds("x", "a", "b")]
    assert growth(waits("e", 3, 2, 4), 2, RACK, busy, NO_BALANCES) == ()
    assert growth(waits("e", 2, 1, 2), 2, RACK, [holds("e", "c", "d")], NO_BALANCES) == ()


def test_quotas_count_the_slots_of_a_growing_job_once():
    payer = Payer("ada", "default")
    held = (HeldSlots("rack", "e", "ada", "default", 4, 0),)
    for most, nodes in ((6, 3), (5, 0)):
        balances = Balances(Allowances((Quota(QuotaKind.USER, "ada", slots=most),), held))
        grown = growth(waits("e", 3, 2, 3, payer=payer), 2, RACK, [holds("e", "a", "b")], balances)
        assert len(grown) == nodes


# --- engines with a queue of their own ----------------------------------------------------------------------------
def queue(job: QueuedJob, *states: NodeState, taken: Sequence[Slot] = ()) -> Placement:
    rooms = [MachineCapacity(f"n{number}", 2, state=state) for number, state in enumerate(states)]
    (said,) = enqueue([job], rooms, compute="slurm", taken=taken)
    return said


def test_an_elastic_job_asks_a_queue_for_the_nodes_that_are_idle():
    idle, busy = NodeState.IDLE, NodeState.RUNNING
    job = waits("e", 3, 2, 4)
    assert len(queue(job, idle, idle, idle, idle, idle).slots) == 4
    assert len(queue(job, idle, idle, idle, busy).slots) == 3
    assert len(queue(job, busy, busy, busy, busy).slots) == 2
    assert queue(job, idle).never


def test_a_job_in_a_queue_asks_for_the_nodes_it_kept_and_those_that_are_idle():
    idle, busy = NodeState.IDLE, NodeState.RUNNING
    lost = waits("e", 4, 1, 4, is_resized=True, kept=2)
    assert len(queue(lost, busy, busy, busy, busy).slots) == 2
    assert len(queue(lost, busy, busy, busy, idle).slots) == 3
    assert len(queue(replace(lost, growth=3), busy, busy, busy, idle).slots) == 3


def test_a_cap_makes_an_elastic_job_smaller():
    said = queue(waits("e", 3, 2, 3), *[NodeState.IDLE] * 4)
    assert len(capped([said], 4, {"x": 2}, "slurm")[0].slots) == 2
    assert capped([said], 4, {"x": 3}, "slurm")[0].reason is Reason.WAITING_FOR_SLOTS


def test_a_job_in_a_cluster_may_grow_by_the_nodes_that_are_idle():
    job = waits("e", 3, 1, 3)
    assert len(idle_growth(job, range(1, 3), 1, RACK, NO_BALANCES)) == 2
    assert idle_growth(job, range(1, 1), 1, RACK, NO_BALANCES) == ()
    assert idle_growth(job, range(2, 3), 0, RACK, NO_BALANCES) == ()


def test_nodes_that_a_job_has_just_taken_are_not_idle_though_the_cluster_was_seen_so():
    idle = NodeState.IDLE
    rooms = [
        MachineCapacity("n0", 2),
        MachineCapacity("n1", 2),
        MachineCapacity("n2", 2, unusable="down"),
        MachineCapacity("n3", 2, state=NodeState.RUNNING),
    ]
    need, node = Need(1, 2), Slot(0, "", 2)
    assert idle_nodes(need, rooms, (), is_shared=False) == 2
    assert idle_nodes(need, rooms, [node] * 2, is_shared=False) == 1
    assert idle_nodes(need, rooms, [node] * 4, is_shared=False) == 0
    assert idle_nodes(Need(1, 1), rooms, [node], is_shared=True) == 4
    assert len(queue(waits("e", 3, 1, 3), idle, idle, idle, taken=[node]).slots) == 2


def test_nodes_count_as_taken_only_where_they_can_be():
    rooms = [
        *(MachineCapacity(f"n{one}", 2) for one in range(2)),
        *(MachineCapacity(f"g{one}", 4, ("0",), is_for_gpus=True) for one in "ab"),
    ]
    plain, wide, gpu = Slot(0, "", 2), Slot(0, "", 3), Slot(0, "", 1, ("0",))
    assert idle_nodes(Need(1, 2), rooms, [gpu, wide, plain], is_shared=False) == 1
    assert idle_nodes(Need(1, 2, 1), rooms, [plain, plain, gpu], is_shared=False) == 1
    rooms = [MachineCapacity("n", 2), MachineCapacity("g", 4, ("0",))]
    assert idle_nodes(Need(1, 2, 1), rooms, [plain], is_shared=False) == 0

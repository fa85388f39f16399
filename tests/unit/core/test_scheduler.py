"""Who starts next, and why the others wait."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drumbeat.core.scheduling.cluster_queue import enqueue
from drumbeat.core.scheduling.queued_job import Placement, QueuedJob
from drumbeat.core.scheduling.resource_needs import Need, Slot
from drumbeat.core.scheduling.scheduler import place
from drumbeat.core.scheduling.slot_fitting import MachineCapacity, SlotAllocation, fit
from drumbeat.model.api.computes import NodeState
from drumbeat.model.states import Reason
from tests.support.messages import Messages

from .jobs import START, at

pytestmark = pytest.mark.feature("C3")
ROOM = [MachineCapacity("m", 4, ("0", "1"))]


def waits(name: str, nodes: int = 1, cpus: int = 1, second: float = 0, **more: object) -> QueuedJob:
    need = Need(nodes, cpus, int(more.pop("gpus", 0)), alone=bool(more.pop("alone", False)))
    return QueuedJob(
        name, need, int(more.pop("priority", 0)), at(second), more.pop("lasts", None), more.pop("avoided", ())
    )


def placed(
    queue: list[QueuedJob], held: list[SlotAllocation] | None = None, rooms: list[MachineCapacity] | None = None
) -> dict[str, Placement]:
    in_order = sorted(queue, key=QueuedJob.rank)
    return {p.job: p for p in place(in_order, rooms or ROOM, held or [], START, compute="local")}


def holds(name: str, cpus: int, until: float | None = None) -> SlotAllocation:
    return SlotAllocation(name, (Slot(0, "m", cpus),), at(until) if until is not None else None)


def stuck(name: str, cpus: int, waits_for: str) -> SlotAllocation:
    return SlotAllocation(name, (Slot(0, "m", cpus),), obstacle=f"{waits_for} waits")


def test_jobs_start_in_the_order_in_which_they_came():
    said = placed([waits("b", cpus=3, second=1), waits("a", cpus=2, second=0), waits("c", cpus=1, second=2)])
    assert said["a"].slots == (Slot(0, "m", 2),)
    assert said["b"].reason is Reason.WAITING_FOR_SLOTS
    assert said["c"].reason is Reason.WAITING_FOR_TURN


def test_a_higher_priority_comes_first():
    said = placed([waits("old", cpus=4), waits("urgent", cpus=4, second=9, priority=1)])
    assert said["urgent"].slots
    assert not said["old"].slots


def test_a_gang_gets_all_of_its_nodes_or_none():
    said = placed([waits("gang", nodes=3, cpus=2)], rooms=[MachineCapacity("m", 4), MachineCapacity("n", 1)])
    assert said["gang"].never
    said = placed([waits("gang", nodes=2, cpus=2)], held=[holds("x", 1)])
    assert said["gang"].slots == ()


def test_nodes_get_machines_of_their_own_where_there_are_enough():
    said = placed(
        [waits("pair", nodes=2, cpus=1)],
        rooms=[MachineCapacity("m", 4), MachineCapacity("n", 4), MachineCapacity("o", 4)],
    )
    assert [slot.machine for slot in said["pair"].slots] == ["m", "n"]
    said = placed([waits("four", nodes=4, cpus=1)], rooms=[MachineCapacity("m", 4), MachineCapacity("n", 4)])
    assert sorted(slot.machine for slot in said["four"].slots) == ["m", "m", "n", "n"]


def test_a_machine_that_the_job_has_lost_a_node_on_is_taken_last():
    rooms = [MachineCapacity("a", 4), MachineCapacity("b", 4), MachineCapacity("c", 4)]
    queue = [waits("again", nodes=2, avoided=("a",)), waits("other", second=1)]
    said = placed(queue, rooms=rooms)
    assert {slot.machine for slot in said["again"].slots} == {"b", "c"}
    assert {slot.machine for slot in said["other"].slots} == {"a"}
    assert {slot.machine for slot in placed(queue, rooms=rooms[:2])["again"].slots} == {"a", "b"}


def test_no_job_starts_on_an_unusable_machine(messages: Messages):
    rooms = [MachineCapacity("m", 4, unusable="it doesn't answer"), MachineCapacity("n", 4)]
    assert [slot.machine for slot in placed([waits("one", cpus=1)], rooms=rooms)["one"].slots] == ["n"]
    said = placed([waits("pair", nodes=2, cpus=1)], rooms=rooms)["pair"]
    assert said.reason is Reason.WAITING_FOR_SLOTS
    messages.check(said.sentence)


def test_waiting_job_names_the_slots_and_their_holders(messages: Messages):
    said = placed([waits("big", nodes=2, cpus=2)], held=[holds("x", 3)])
    messages.check(said["big"].sentence)


@pytest.mark.parametrize(
    ("needed", "held", "start"),
    [
        (2, {"a": 2, "b": 2}, " and starts when one of them ends"),
        (2, {"a": 2, "b": 1, "c": 1}, " and starts when a ends"),
        (1, {"a": 4}, " and starts when a ends"),
        (4, {"a": 2, "b": 1, "c": 1}, " and starts when they have ended"),
        (3, {"a": 2, "b": 1, "c": 1}, " and starts at the latest when they have ended"),
        (4, {"a": 1, "b": 1, "c": 1, "d": 1}, ""),
    ],
)
def test_next_job_names_the_jobs_whose_end_suffices_for_its_start(needed: int, held: dict[str, int], start: str):
    holding = [holds(name, cpus) for name, cpus in held.items() if cpus]
    said = placed([waits("next", cpus=needed)], held=holding)["next"]
    assert said.sentence.partition("; it is next")[2] == start


def test_holder_that_waits_for_a_store_is_named_first_with_the_input(messages: Messages):
    held = [holds("a", 1), holds("b", 1), holds("c", 1), stuck("z", 1, "input train")]
    said = placed([waits("big", cpus=2), waits("small", cpus=1, second=1)], held=held)
    messages.check(said["big"].sentence)
    assert said["small"].reason is Reason.WAITING_FOR_TURN
    messages.check(said["small"].sentence)


def test_job_that_would_fit_names_the_job_before_it_and_the_time(messages: Messages):
    said = placed(
        [waits("big", cpus=2), waits("small", cpus=1, second=1)], rooms=[MachineCapacity("m", 2)], held=[holds("a", 1)]
    )
    messages.check(said["small"].sentence)
    limited = holds("a", 1, until=300)
    said = placed(
        [waits("big", cpus=2), waits("small", cpus=1, second=1)], rooms=[MachineCapacity("m", 2)], held=[limited]
    )
    messages.check(said["small"].sentence)


def test_devices_are_dealt_out_and_never_twice():
    said = placed(
        [waits("a", cpus=1, gpus=1), waits("b", cpus=1, gpus=1, second=1), waits("c", cpus=1, gpus=1, second=2)]
    )
    assert said["a"].slots[0].gpus == ("0",)
    assert said["b"].slots[0].gpus == ("1",)
    assert not said["c"].slots


def test_too_many_devices_never_fit():
    assert "2 GPUs in all" in placed([waits("a", gpus=3)])["a"].sentence


def test_job_with_a_node_larger_than_any_machine_names_their_sizes(messages: Messages):
    said = placed(
        [waits("wide", cpus=4)], rooms=[MachineCapacity("m", 2), MachineCapacity("n", 3), MachineCapacity("o", 2)]
    )["wide"]
    messages.check(said.sentence)


def test_a_job_with_more_ranks_than_slots_runs_alone_and_takes_them_all():
    big = waits("big", nodes=3, cpus=4, alone=True)
    said = placed([big, waits("small", second=1)])
    assert sum(slot.cpus for slot in said["big"].slots) == 4
    assert not said["small"].slots
    assert not placed([big], held=[holds("x", 1)])["big"].slots


@pytest.mark.parametrize(
    ("nodes", "cpus", "says"),
    [
        (64, 16, ""),
        (65, 1, "65 nodes would share 4 CPU slots; at most 64 nodes may share a machine of local"),
        (10_000, 1, "10,000 nodes would share 4 CPU slots; at most 64 nodes may share a machine of local"),
        (1, 100_000, "100,000 ranks would share 4 CPU slots; at most 1,024 ranks may share a machine of local"),
    ],
)
def test_too_many_nodes_or_ranks_for_one_machine_are_refused(nodes: int, cpus: int, says: str):
    said = placed([waits("crowd", nodes=nodes, cpus=cpus, alone=True)])["crowd"]
    assert (said.never, said.sentence) == (bool(says), says)


def test_small_job_overtakes_only_if_its_limit_ends_before_the_big_one_starts():
    running, big = holds("run", 3, until=100), waits("big", cpus=4)
    short = waits("short", second=1, lasts=timedelta(seconds=90))
    long = waits("long", second=2, lasts=timedelta(seconds=200))
    said = placed([big, short, long], held=[running])
    assert said["short"].slots
    assert not said["long"].slots


def test_no_job_overtakes_while_the_start_of_the_big_one_is_unknown():
    said = placed([waits("big", cpus=4), waits("short", second=1, lasts=timedelta(seconds=1))], held=[holds("run", 3)])
    assert not said["short"].slots


def test_job_overtakes_if_the_big_one_fits_beside_it():
    rooms = [MachineCapacity("m", 4), MachineCapacity("n", 2)]
    held = [SlotAllocation("run", (Slot(0, "m", 4),), at(50)), SlotAllocation("other", (Slot(0, "n", 1),), at(500))]
    said = placed([waits("big", cpus=4), waits("small", second=1)], held=held, rooms=rooms)
    assert said["small"].slots == (Slot(0, "n", 1),)


# --- passing a blocked job without time limits -------------------------------------------------------------------
GPU_ROOM = [MachineCapacity("m", 16, ("0",))]
TRAINS = SlotAllocation("trains", (Slot(0, "m", 1, ("0",)),))


def test_cpu_job_passes_a_job_that_waits_for_the_gpu():
    said = placed([waits("gpu", gpus=1), waits("prep", cpus=15, second=1)], [TRAINS], GPU_ROOM)
    assert said["gpu"].reason is Reason.WAITING_FOR_SLOTS
    assert said["prep"].slots == (Slot(0, "m", 15),), "the GPU comes free with the CPU slot that `gpu` needs"


def test_cpu_job_leaves_the_gpu_job_its_cpu_slots():
    queue = [waits("gpu", gpus=1, cpus=4), waits("wide", cpus=13, second=1), waits("small", cpus=12, second=2)]
    said = placed([queue[0], queue[1]], [TRAINS], GPU_ROOM)
    assert said["wide"].reason is Reason.WAITING_FOR_TURN
    assert placed([queue[0], queue[2]], [TRAINS], GPU_ROOM)["small"].slots


def test_cpu_job_takes_another_machine_where_it_would_narrow_the_gpu_jobs():
    rooms = [MachineCapacity("m", 4, ("0",)), MachineCapacity("n", 4)]
    said = placed([waits("gpu", gpus=1, cpus=2), waits("prep", cpus=3, second=1)], [TRAINS], rooms)
    assert said["prep"].slots == (Slot(0, "n", 3),)


def test_job_passes_on_a_machine_that_is_too_small_for_the_blocked_one():
    rooms = [MachineCapacity("m", 64), MachineCapacity("n", 8)]
    said = placed([waits("wide", cpus=32), waits("tiny", cpus=8, second=1)], [holds("run", 64)], rooms)
    assert said["tiny"].slots == (Slot(0, "n", 8),)


def test_gpus_that_no_node_of_the_blocked_job_could_take_are_passed_on():
    rooms = [MachineCapacity("m", 8, ("0",)), MachineCapacity("n", 8, ("0", "1", "2"))]
    queue = [waits("pair", nodes=2, gpus=1), *(waits(f"g{n}", gpus=1, second=n) for n in (1, 2, 3))]
    said = placed(queue, [TRAINS], rooms)
    assert [len(said[name].slots) for name in ("g1", "g2", "g3")] == [1, 1, 0], "one is for a node of `pair`"


def test_job_that_only_waits_for_cpu_slots_is_not_passed_by_small_ones():
    held = [TRAINS, holds("run", 10)]
    queue = [waits("gpu", gpus=1), waits("wide", cpus=8, second=1), waits("small", cpus=2, second=2)]
    said = placed(queue, held, GPU_ROOM)
    assert not said["small"].slots, "the slots that `run` gives back are for `wide`, which can run beside `gpu`"
    whole = replace(queue[1], need=Need(1, 16))
    assert placed([queue[0], whole, queue[2]], held, GPU_ROOM)["small"].slots, "`whole` waits for `gpu`"


def test_second_gpu_job_that_can_run_beside_the_first_keeps_its_slots_too():
    rooms, held = (
        [MachineCapacity("m", 16, ("0", "1"))],
        [SlotAllocation(f"t{gpu}", (Slot(0, "m", 1, (gpu,)),)) for gpu in "01"],
    )
    queue = [waits("a", gpus=1), waits("b", gpus=1, cpus=8, second=1), waits("c", gpus=1, cpus=8, second=2)]
    said = placed([*queue, waits("eight", cpus=8, second=3)], held, rooms)
    assert not said["eight"].slots
    assert placed([*queue, waits("seven", cpus=7, second=3)], held, rooms)["seven"].slots


small_needs = st.builds(Need, st.integers(1, 4), st.integers(1, 3), st.integers(0, 2))


@given(
    st.lists(st.tuples(st.sampled_from("mno"), st.integers(1, 3), st.integers(0, 1)), max_size=4),
    st.lists(small_needs, min_size=1, max_size=5),
)
def test_first_blocked_job_is_delayed_by_no_order_of_ends(taken: list[tuple[str, int, int]], wanted: list[Need]):
    rooms = [MachineCapacity("m", 6, ("0", "1")), MachineCapacity("n", 4, ("0",)), MachineCapacity("o", 4)]
    held: list[SlotAllocation] = []
    for number, (machine, cpus, gpus) in enumerate(taken):
        room = next(one for one in rooms if one.name == machine)
        if slots := fit(Need(1, cpus, gpus), [room], held):
            held.append(SlotAllocation(f"run{number}", slots))
    said = place([QueuedJob(f"j{n}", need, 0, at(n)) for n, need in enumerate(wanted)], rooms, held, START, compute="l")
    first = next((number for number, one in enumerate(said) if one.reason is Reason.WAITING_FOR_SLOTS), None)
    if first is None:
        return
    before = [SlotAllocation(one.job, one.slots) for one in said[:first] if one.slots]
    passing = [SlotAllocation(one.job, one.slots) for one in said[first:] if one.slots]
    others = [*held, *before]
    for count in range(len(others) + 1):
        for left in combinations(others, count):
            if fit(wanted[first], rooms, left):
                assert fit(wanted[first], rooms, [*left, *passing]), f"delayed by {passing}"


# --- machines that can't be used ---------------------------------------------------------------------------------
SSH_ROOMS = [MachineCapacity(f"gpu-{n}", 8) for n in range(3)]


def test_job_that_needs_a_missing_machine_delays_no_other(messages: Messages):
    rooms = [*SSH_ROOMS, MachineCapacity("gpu-3", 8, unusable="it doesn't answer by ssh", is_missing=True)]
    queue = [waits("big", nodes=4, cpus=4), waits("wide", nodes=3, cpus=8, second=1), waits("small", second=2)]
    said = placed(queue, rooms=rooms)
    assert said["wide"].slots
    assert said["big"].reason is Reason.WAITING_FOR_SLOTS
    messages.check(said["big"].sentence)
    assert said["small"].sentence.startswith("needs 1 CPU slot of local"), "it is the first that waits for slots"


@pytest.mark.parametrize("state", [NodeState.IDLE, NodeState.PREPARING])
def test_job_that_needs_a_machine_that_comes_back_keeps_its_place(state: NodeState, messages: Messages):
    rooms = [*SSH_ROOMS, MachineCapacity("gpu-3", 8, unusable="it is being started", state=state)]
    said = placed([waits("big", nodes=4, cpus=8), waits("small", second=2)], rooms=rooms)
    messages.check(said["big"].sentence)
    assert said["small"].reason is Reason.WAITING_FOR_TURN


def test_job_that_fits_without_the_missing_machine_keeps_its_place():
    rooms = [*SSH_ROOMS, MachineCapacity("gpu-3", 8, unusable="it doesn't answer by ssh", is_missing=True)]
    held = [SlotAllocation("run", (Slot(0, "gpu-0", 8),))]
    said = placed([waits("three", nodes=3, cpus=8), waits("small", second=2)], held, rooms)
    assert said["small"].reason is Reason.WAITING_FOR_TURN


def test_job_that_may_need_an_unseen_machine_delays_no_other_once_it_is_missing():
    rooms = [MachineCapacity("m", 4), MachineCapacity("n", 0, unusable="it has not answered yet")]
    queue = [waits("pair", nodes=2, cpus=4), waits("small", second=1)]
    assert not placed(queue, rooms=rooms)["small"].slots
    said = placed(queue, rooms=[rooms[0], replace(rooms[1], is_missing=True)])
    assert said["small"].slots
    assert (said["pair"].never, said["pair"].is_unsure) == (False, True)


def test_job_that_may_fit_an_unseen_machine_waits(messages: Messages):
    rooms = [MachineCapacity("m", 2), MachineCapacity("n", 0, unusable="no answer yet")]
    said = placed([waits("j", cpus=4)], rooms=rooms)["j"]
    assert (said.never, said.is_unsure) == (False, True)
    held = [SlotAllocation("run", (Slot(0, "m", 2),), None)]
    assert not placed([waits("j", cpus=2)], held=held, rooms=rooms)["j"].is_unsure, "it fits what was seen"
    messages.check(said.sentence)
    assert placed([waits("j", cpus=4)], rooms=rooms[:1])["j"].never


needs = st.builds(Need, st.integers(1, 3), st.integers(1, 3), st.integers(0, 1), st.booleans())


@given(st.lists(st.tuples(needs, st.integers(-1, 1), st.none() | st.integers(1, 50)), max_size=8), st.integers(0, 4))
def test_slots_are_never_booked_twice(wanted: list[tuple[Need, int, int | None]], taken: int):
    rooms = [MachineCapacity("m", 4, ("0", "1")), MachineCapacity("n", 2)]
    queue = [
        QueuedJob(f"j{n}", need, priority, at(n), timedelta(seconds=limit) if limit else None)
        for n, (need, priority, limit) in enumerate(wanted)
    ]
    held = [holds("run", taken, until=30)] if taken else []
    said = place(queue, rooms, held, START, compute="local")
    assert {p.job for p in said} == {w.job for w in queue}
    slots = [slot for p in said for slot in p.slots] + [slot for h in held for slot in h.slots]
    for room in rooms:
        mine = [slot for slot in slots if slot.machine == room.name]
        assert sum(slot.cpus for slot in mine) <= room.cpus
        devices = [gpu for slot in mine for gpu in slot.gpus]
        assert len(devices) == len(set(devices))
    for p in said:
        assert bool(p.slots) + bool(p.reason) + p.never == 1


# --- engines with a queue of their own --------------------------------------------------------------------------
def test_engine_with_a_queue_gets_every_job_at_once():
    said = enqueue(
        [waits("a", nodes=2, cpus=3), waits("b", nodes=2, cpus=4)],
        [MachineCapacity("m", 4), MachineCapacity("n", 4)],
        compute="c",
    )
    assert [one.slots for one in said] == [
        (Slot(0, "", 3), Slot(1, "", 3)),
        (Slot(0, "", 4), Slot(1, "", 4)),
    ]


@pytest.mark.parametrize("unusable", ["", "it is down"])
def test_job_never_fits_a_queue_only_if_no_set_of_machines_holds_it(unusable: str, messages: Messages):
    rooms = [MachineCapacity("m", 4, ("0", "1"), unusable), MachineCapacity("n", 4)]
    said = enqueue([waits("three", nodes=3), waits("two", nodes=2), waits("gpu", nodes=2, gpus=1)], rooms, compute="c")
    assert [one.never for one in said] == [True, False, True]
    messages.check(said[0].sentence)
    messages.check(said[2].sentence)


def test_machines_that_nodes_share_hold_as_many_as_fit_into_them(messages: Messages):
    rooms = [MachineCapacity("m", 64, ("0", "1", "2")), MachineCapacity("n", 3)]
    queue = [waits("two", nodes=2), waits("all", nodes=33, cpus=2), waits("much", nodes=34, cpus=2)]
    said = enqueue(
        [*queue, waits("gpu", nodes=3, gpus=1), waits("gpus", nodes=2, gpus=2)], rooms, compute="c", is_shared=True
    )
    assert [one.never for one in said] == [False, False, True, False, True]
    messages.check(said[2].sentence)


def test_machines_that_are_for_gpus_count_for_jobs_with_gpus_only(messages: Messages):
    rooms = [MachineCapacity("m", 4), MachineCapacity("n", 16, ("0",), is_for_gpus=True)]
    said = enqueue([waits("cpu", cpus=5), waits("gpu", cpus=5, gpus=1), waits("two", nodes=2)], rooms, compute="c")
    assert [one.never for one in said] == [True, False, True]
    messages.check(said[0].sentence)
    (said,) = enqueue([waits("all", cpus=64, alone=True)], rooms, compute="c")
    assert [slot.cpus for slot in said.slots] == [4]


def test_devices_in_a_queue_are_numbers_that_only_say_how_many():
    (said,) = enqueue([waits("a", gpus=2)], ROOM, compute="c")
    assert said.slots == (Slot(0, "", 1, ("0", "1")),)


def test_job_with_more_ranks_than_slots_requests_a_whole_machine():
    (said,) = enqueue(
        [waits("a", nodes=2, cpus=16, alone=True)], [MachineCapacity("m", 4), MachineCapacity("n", 4)], compute="c"
    )
    assert [slot.cpus for slot in said.slots] == [4, 4]

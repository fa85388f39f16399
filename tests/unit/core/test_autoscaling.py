"""Which machines are started and switched off, and what a job hears that waits for them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drumbeat.core.scheduling import autoscaling
from drumbeat.core.scheduling.autoscaling import Limits, ScaledMachine, ScaleStep, StartTimes
from drumbeat.core.scheduling.queued_job import Placement
from drumbeat.core.scheduling.resource_needs import Slot
from drumbeat.core.scheduling.slot_fitting import MachineCapacity
from drumbeat.model.api.computes import NodeState
from drumbeat.model.states import Reason
from tests.support.messages import Messages

pytestmark = pytest.mark.feature("C1", "C2")

NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)
IDLE, RUNNING, PREPARING = NodeState.IDLE, NodeState.RUNNING, NodeState.PREPARING
LEAVING, OFF, UNUSABLE = NodeState.LEAVING, NodeState.OFF, NodeState.UNUSABLE


def node(name: str, state: NodeState, ago_s: float = 0, *, is_held: bool = False) -> ScaledMachine:
    return ScaledMachine(name, state, NOON - timedelta(seconds=ago_s), is_held or state is RUNNING)


def limits(fewest: int = 0, most: int = 4, idle_s: float | None = 60) -> Limits:
    return Limits(fewest, most, None if idle_s is None else timedelta(seconds=idle_s))


def decided(numbers: Limits, *nodes: ScaledMachine, needed: set[str] = frozenset()) -> ScaleStep:
    return autoscaling.decide(numbers, nodes, needed, NOON)


def test_machines_that_a_waiting_job_needs_are_started():
    assert decided(limits(), node("a", OFF), node("b", OFF), node("c", OFF), needed={"b", "c"}).switch_on == ("b", "c")


def test_minimum_of_machines_is_started_without_a_job():
    assert decided(limits(2), node("a", OFF), node("b", IDLE), node("c", OFF)).switch_on == ("a",)


def test_no_more_are_started_than_there_may_be():
    nodes = (node("a", RUNNING), node("b", PREPARING), node("c", OFF), node("d", OFF))
    assert decided(limits(most=3), *nodes, needed={"c", "d"}).switch_on == ("c",)


def test_machine_idle_for_long_is_drained_and_then_switched_off():
    assert decided(limits(), node("a", IDLE, 61), node("b", IDLE, 59)) == ScaleStep(let_go=("a",))
    assert decided(limits(), node("a", LEAVING, 2)) == ScaleStep()
    assert decided(limits(), node("a", LEAVING, 3)) == ScaleStep(switch_off=("a",))


def test_minimum_of_machines_is_never_drained():
    nodes = (node("a", IDLE, 70), node("b", IDLE, 90), node("c", LEAVING))
    assert decided(limits(1), *nodes).let_go == ("b",), "the one that was idle for longest"
    assert decided(limits(2), *nodes).let_go == ()


def test_idle_machine_stays_on_without_an_idle_time():
    assert decided(limits(idle_s=None), node("a", IDLE, 1e6)) == ScaleStep()


def test_lower_maximum_drains_idle_machines_at_once():
    nodes = (node("a", RUNNING), node("b", IDLE), node("c", IDLE, 1))
    assert decided(limits(most=2), *nodes).let_go == ("c",)


@pytest.mark.parametrize(("needed", "is_held"), [({"a"}, False), (set[str](), True)])
def test_draining_machine_stays_if_a_job_needs_it(needed: set[str], is_held: bool):
    assert decided(limits(), node("a", LEAVING, 9, is_held=is_held), needed=needed) == ScaleStep(keep=("a",))


@given(st.data())
def test_no_machine_is_switched_off_under_a_job_and_limits_hold(data: st.DataObject):
    states = st.sampled_from([IDLE, RUNNING, PREPARING, LEAVING, OFF, UNUSABLE])
    ages = st.floats(0, 200)
    nodes = [
        node(str(n), data.draw(states), data.draw(ages), is_held=data.draw(st.booleans()))
        for n in range(data.draw(st.integers(0, 6)))
    ]
    fewest = data.draw(st.integers(0, 6))
    numbers = limits(fewest, data.draw(st.integers(max(1, fewest), 6)), data.draw(st.sampled_from([None, 0.0, 60.0])))
    needed = {one.name for one in nodes if data.draw(st.booleans())}
    step = decided(numbers, *nodes, needed=needed)
    held = {one.name for one in nodes if one.is_held}
    on = sum(one.state is not OFF for one in nodes)
    assert not held & {*step.let_go, *step.switch_off}
    assert not needed & set(step.let_go)
    assert on + len(step.switch_on) <= max(on, numbers.most)
    assert not step.let_go or on - len(step.let_go) >= numbers.fewest
    assert len({*step.switch_on, *step.let_go, *step.keep, *step.switch_off}) == sum(
        map(len, (step.switch_on, step.let_go, step.keep, step.switch_off))
    )


# --- what jobs are placed on ------------------------------------------------------------------------------------
def test_machines_beyond_the_maximum_do_not_count():
    rooms = [
        MachineCapacity("a", 4, state=OFF),
        MachineCapacity("b", 4),
        MachineCapacity("c", 4, state=OFF),
        MachineCapacity("d", 4, state=OFF),
    ]
    assert [room.name for room in autoscaling.within(rooms, 2)] == ["a", "b"]


def test_waiting_job_names_the_machines_started_for_it_and_the_usual_time(messages: Messages):
    rooms = [MachineCapacity("a", 4, state=OFF), MachineCapacity("b", 4), MachineCapacity("c", 4, state=PREPARING)]
    slots = (Slot(0, "a", 1), Slot(1, "b", 1), Slot(2, "c", 1))
    messages.check(autoscaling.awaited(slots, rooms, 4.0))
    messages.check(autoscaling.awaited(slots[:1], rooms, None))
    assert autoscaling.awaited(slots[1:2], rooms, 4.0) == ""


def test_usual_start_time_is_the_median_of_the_last_ones():
    times = StartTimes()
    assert times.usual_s() is None
    for seconds in [1000.0] * 20 + [3.2] * 12:
        times.add(seconds)
    assert times.usual_s() == 3
    assert autoscaling.format_time(180) == "3 minutes"


# --- a cap on a cluster's queue ---------------------------------------------------------------------------------
def placed(job: str, nodes: int) -> Placement:
    return Placement(job, tuple(Slot(n, "", 1) for n in range(nodes)))


def test_under_a_cap_jobs_are_handed_over_in_their_order(messages: Messages):
    said = autoscaling.capped([placed("a", 1), placed("b", 2), placed("c", 1)], 3, {"old": 1}, "rack")
    assert [bool(one.slots) for one in said] == [True, False, False]
    assert said[1].reason is Reason.WAITING_FOR_SLOTS
    messages.check(said[1].sentence)
    assert said[2].reason is Reason.WAITING_FOR_TURN, "a large job would never start if small ones passed it"


def test_a_job_that_is_larger_than_the_cap_never_fits(messages: Messages):
    (said,) = autoscaling.capped([placed("a", 4)], 3, {}, "rack")
    assert said.never is True
    messages.check(said.sentence)


def test_setting_of_a_cluster_that_overrides_the_file_is_named(messages: Messages):
    wish = {"min_instances": 0, "idle_time_before_scale_down": 60.0}
    actual = {"min_instances": 0, "idle_time_before_scale_down": 300.0, "tier": "dedicated"}
    set_by = {"min_instances": "SuspendExcNodes", "idle_time_before_scale_down": "SuspendTime", "tier": "PreemptMode"}
    (said,) = autoscaling.cluster_overrides(wish, actual, set_by)
    messages.check(said)

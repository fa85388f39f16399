"""Recent use: how it decays, and how it orders the jobs of a priority."""

import math
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drumbeat.core.scheduling.fair_share import (
    HeldSlots,
    PastUse,
    charged,
    decayed,
    describe_use,
    format_half_life,
    recent_use,
    slot_hours,
)
from drumbeat.core.scheduling.queued_job import Placement, QueuedJob
from drumbeat.core.scheduling.quota_balances import Balances
from drumbeat.core.scheduling.quotas import Payer
from drumbeat.core.scheduling.resource_needs import Need
from drumbeat.core.scheduling.scheduler import place
from drumbeat.core.scheduling.slot_fitting import MachineCapacity
from drumbeat.model.states import Reason
from tests.support.messages import Messages

from .jobs import START, at

pytestmark = pytest.mark.feature("C9")
WEEK = timedelta(days=7)


def held(user: str, slots: int, gpus: int = 0, since: float = 0) -> HeldSlots:
    return HeldSlots("local", f"{user}s", user, "e", slots, gpus, at(since))


def test_use_halves_with_each_half_life() -> None:
    assert [decayed(8.0, n * WEEK, WEEK) for n in range(4)] == [8.0, 4.0, 2.0, 1.0]
    assert decayed(8.0, -WEEK, WEEK) == 8.0


def test_use_of_a_short_attempt_is_its_slots_by_its_hours() -> None:
    assert slot_hours(held("ada", 4), at(3600), WEEK) == pytest.approx(4, rel=0.01)
    assert slot_hours(held("ada", 1, gpus=2), at(3600), WEEK) == pytest.approx(17, rel=0.01)
    assert slot_hours(held("ada", 1, since=10), at(5), WEEK) == 0.0
    assert slot_hours(HeldSlots("local", "j", "ada", "e", 4, 0), at(3600), WEEK) == 0.0


def test_use_of_an_endless_attempt_has_a_bound() -> None:
    assert slot_hours(held("ada", 1), START + 100 * WEEK, WEEK) == pytest.approx(7 * 24 / math.log(2))


@given(st.floats(0, 1e6), st.floats(0, 1e6), st.integers(0, 64))
def test_charging_an_attempt_changes_nothing_of_the_sum(first: float, more: float, slots: int) -> None:
    attempt = held("ada", slots)
    past = charged(PastUse("ada", 5.0, START), [attempt], at(first), WEEK)
    kept = recent_use([past], [], at(first + more), WEEK)["ada"]
    before = recent_use([PastUse("ada", 5.0, START)], [attempt], at(first), WEEK)["ada"]
    assert kept == pytest.approx(decayed(before, timedelta(seconds=more), WEEK))


def test_recent_use_sums_what_ran_and_what_runs() -> None:
    past = [PastUse("ada", 8.0, START - WEEK), PastUse("bob", 1.0, START)]
    assert recent_use(past, [held("bob", 3, since=-3600)], START, WEEK) == pytest.approx(
        {"ada": 4.0, "bob": 4.0}, rel=0.01
    )


def test_recent_use_is_printed_with_its_half_life(messages: Messages) -> None:
    messages.check(describe_use({"ada": 41.25}, ("bob", "ada"), WEEK))
    assert [format_half_life(timedelta(seconds=s)) for s in (5, 90, 7200, 129600)] == ["5 s", "1.5 min", "2 h", "1.5 d"]


# --- in the queue -------------------------------------------------------------------------------------------------
def waits(user: str, second: float, priority: int = 0) -> QueuedJob:
    return QueuedJob(user, Need(1, 2), priority, at(second), payer=Payer(user, "e"))


def placed(queue: list[QueuedJob], **use: float) -> dict[str, Placement]:
    queue = sorted(queue, key=lambda one: one.rank(use.get(one.job, 0.0)))
    said = place(queue, [MachineCapacity("m", 2)], [], START, compute="local", balances=Balances(use=use))
    return {one.job: one for one in said}


def test_job_of_the_person_who_has_used_less_comes_first() -> None:
    use = {"ada": 40.0, "bob": 2.0}
    said = placed([waits("ada", 0), waits("bob", 9)], **use)
    assert said["bob"].slots
    assert said["ada"].reason is Reason.WAITING_FOR_SLOTS


def test_numbers_stand_in_the_sentence_of_a_job_that_waits_for_its_turn(messages: Messages) -> None:
    use = {"ada": 40.0, "bob": 2.0, "eve": 1.0}
    said = placed([waits("ada", 0), waits("bob", 9), waits("eve", 9)], **use)
    messages.check(said["ada"].sentence)


def test_priority_comes_before_use() -> None:
    use = {"ada": 40.0, "bob": 2.0}
    said = placed([waits("ada", 9, priority=1), waits("bob", 0)], **use)
    assert said["ada"].slots


def test_single_user_sees_no_recent_use() -> None:
    queue = [waits("ada", n) for n in range(3)]
    queue = [QueuedJob(f"j{n}", one.need, 0, one.submitted_at, payer=one.payer) for n, one in enumerate(queue)]
    assert not any("recent use" in one.sentence for one in placed(queue).values())

"""Whether a rendezvous is stuck: by what each rank does, and for how long it has given no sign of work."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from drumbeat import launchers
from drumbeat.core.diagnosis.hangs.activity import Activity
from drumbeat.core.diagnosis.hangs.rendezvous import RendezvousLimit, RendezvousState, RendezvousVerdict, Roll, judge
from drumbeat.core.diagnosis.hangs.waits import Wait, WaitKind
from tests.support.messages import Messages

pytestmark = pytest.mark.feature("F4")

TIMEOUT_S = 300.0
RENDEZVOUS = Wait(WaitKind.STORE, "the rendezvous")


def arrived(rank: int, idle_s: float = 400.0, **more: Any) -> Activity:
    return Activity(rank, rank // 2, wait=RENDEZVOUS, place="train.py:9", is_at_start=True, idle_s=idle_s, **more)


def away(rank: int, kind: WaitKind | None = WaitKind.SLEEP, idle_s: float = 400.0, **more: Any) -> Activity:
    wait = Wait(kind, "NFS") if kind else None
    return Activity(rank, rank // 2, wait=wait, place="train.py:5", idle_s=idle_s, **more)


def past(rank: int) -> Activity:
    return Activity(rank, rank // 2, wait=Wait(WaitKind.COLLECTIVE, "all_reduce"), idle_s=400.0)


def verdict(
    *activities: Activity,
    nodes: int = 2,
    left: Sequence[int] = (),
    there_s: Mapping[int, float] | None = None,
    is_strict: bool = False,
) -> RendezvousVerdict:
    """Of a job with two ranks on each node."""
    roll = Roll(launchers.ranks("pytorch", nodes, 2), ("a", "b", "c", "d"), activities, left, there_s or {})
    return judge(roll, RendezvousLimit(TIMEOUT_S, is_strict))


def test_absent_rank_is_named_with_its_machine_and_what_it_does(messages: Messages):
    stuck = verdict(arrived(0), arrived(1), away(2, idle_s=350.0), arrived(3), is_strict=True)
    assert (stuck.state, stuck.rank, stuck.node, stuck.silent_s) == (RendezvousState.STUCK, 2, 1, 350.0)
    messages.check(stuck.sentence)


def test_several_absent_ranks_are_named_up_to_a_number(messages: Messages):
    stuck = verdict(arrived(0), *(away(rank, WaitKind.LOCK) for rank in range(1, 8)), nodes=4)
    assert (stuck.rank, stuck.node) == (1, 0)
    messages.check(stuck.sentence)


@pytest.mark.parametrize(
    ("absent", "doing"),
    [
        (away(3, WaitKind.NETWORK), "waits at a socket or pipe at train.py:5"),
        (away(3, None), "stands at train.py:5"),
        (away(3, None, is_stopped=True), "is stopped at train.py:5"),
        (arrived(3, is_stopped=True), "is stopped at train.py:9"),
    ],
    ids=["socket", "unknown", "stopped", "stopped there"],
)
def test_what_an_absent_rank_does_is_said(absent: Activity, doing: str, messages: Messages):
    stuck = verdict(arrived(0), arrived(1), arrived(2), absent, is_strict=True)
    assert stuck.state is RendezvousState.STUCK
    messages.check(stuck.sentence)


def test_rank_that_left_before_the_rendezvous_is_absent(messages: Messages):
    stuck = verdict(arrived(0), arrived(1), arrived(2), left=(3,))
    messages.check(stuck.sentence)


@pytest.mark.parametrize(
    "busy",
    [
        away(3, works=True),
        away(3, None, works=True),
        away(3, idle_s=299.0),
        away(3, WaitKind.FILE),
        away(3, WaitKind.FILE_LOCK),
        away(3, None, is_swapped=True),
    ],
    ids=["works", "imports", "idle for less", "reads a file", "waits for a file's lock", "swapped out"],
)
def test_rank_that_may_be_on_its_way_is_waited_for(busy: Activity):
    assert verdict(arrived(0), arrived(1), arrived(2), busy).state is RendezvousState.OPEN


def test_rank_of_which_nothing_is_known_is_waited_for():
    assert verdict(arrived(0), arrived(1), arrived(2)).state is RendezvousState.OPEN


def test_ranks_that_hold_no_rendezvous_are_left_alone():
    assert verdict(away(0), away(1), away(2), away(3)).state is RendezvousState.OPEN
    assert verdict(nodes=2).state is RendezvousState.OPEN


def test_rendezvous_that_a_rank_has_passed_is_over():
    assert verdict(arrived(0), past(1), away(2), away(3)).state is RendezvousState.OVER
    assert verdict(past(0), past(1), past(2), away(3)).state is RendezvousState.OVER


def test_rendezvous_in_which_every_rank_waits_is_stuck_after_the_time(messages: Messages):
    ranks = [arrived(0), arrived(1), arrived(2)]
    assert verdict(*ranks, arrived(3, idle_s=299.0)).state is RendezvousState.OPEN
    polling = arrived(3, idle_s=0.0, is_polling=True)
    assert verdict(*ranks, polling).state is RendezvousState.OPEN
    assert verdict(*ranks, polling, there_s={3: 299.0}).state is RendezvousState.OPEN
    stuck = verdict(*ranks, polling, there_s={3: 300.0})
    assert (stuck.state, stuck.rank, stuck.silent_s) == (RendezvousState.STUCK, None, 400.0)
    messages.check(stuck.sentence)


@pytest.mark.parametrize(
    "absent",
    [
        away(3),
        away(3, WaitKind.NETWORK),
        away(3, WaitKind.CHILD),
        away(3, None),
        away(3, WaitKind.LOCK, is_guess=True),
        away(3, WaitKind.LOCK, is_parked=True),
        away(3, WaitKind.LOCK, helper_kind=WaitKind.SLEEP),
    ],
    ids=["sleeps", "socket", "child", "unknown", "lock by the kernel", "lock of a busy thread", "lock of a helper"],
)
def test_absent_rank_that_may_yet_come_is_late_unless_the_job_set_the_time(absent: Activity, messages: Messages):
    ranks = (arrived(0), arrived(1), arrived(2), absent)
    late = verdict(*ranks)
    assert (late.state, late.rank) == (RendezvousState.LATE, 3)
    messages.check(late.sentence)
    assert verdict(*ranks, is_strict=True).state is RendezvousState.STUCK


@pytest.mark.parametrize(
    "absent",
    [away(3, WaitKind.LOCK), away(3, is_stopped=True), arrived(3, is_stopped=True)],
    ids=["lock", "stopped", "stopped there"],
)
def test_absent_rank_that_never_comes_is_the_cause_beside_one_that_may(absent: Activity):
    stuck = verdict(arrived(0), arrived(1), away(2), absent)
    assert (stuck.state, stuck.rank) == (RendezvousState.STUCK, 3)
    assert verdict(arrived(0), arrived(1), away(2), left=(3,)).rank == 3

"""What follows a failure."""

from __future__ import annotations

from datetime import timedelta

import pytest

from drumbeat.core.end_verdict import Verdict
from drumbeat.core.life.job import Failure
from drumbeat.core.life.recovery import Next, after
from drumbeat.protocol.states import Reason

from .jobs import START

pytestmark = pytest.mark.feature("F2")


def failures(*kinds: Reason, place: str = "", every: timedelta = timedelta(hours=1)) -> list[Failure]:
    return [
        Failure(1, n, Verdict(kind, "x", place=place and f"{place}{n}"), START + n * every)
        for n, kind in enumerate(kinds, 1)
    ]


def test_own_failures_are_tried_again_until_the_retries_are_used_up():
    own = [Reason.RANK_FAILED] * 4
    assert after(failures(*own[:3]), 3).next is Next.ROUND
    assert after(failures(*own[:3]), 3).sentence.endswith("retry 3 of 3")
    assert after(failures(*own), 3).next is Next.GIVE_UP


def test_lost_nodes_dont_count():
    mixed = [Reason.NODE_LOST] * 9 + [Reason.RANK_FAILED]
    assert after(failures(*mixed), 1).next is Next.ROUND
    assert after(failures(*[Reason.NODE_LOST] * 9), 0).next is Next.ATTEMPT


def test_where_a_node_is_lost_the_ranks_failure_counts_and_they_go_to_other_nodes():
    found = after(failures(Reason.RANK_FAILED), 2, has_nodes=False)
    assert (found.next, found.sentence) == (Next.ATTEMPT, "the job gets a new set of nodes; retry 1 of 2")


def test_nodes_that_are_lost_one_set_after_the_other_at_once_end_it():
    """Seen: a job that ended its agent each time had got 26 sets of nodes in 14 minutes, and no end."""
    at_once = timedelta(seconds=30)
    assert after(failures(*[Reason.NODE_LOST] * 4, every=at_once), 0).next is Next.ATTEMPT
    ended = after(failures(*[Reason.NODE_LOST] * 5, every=at_once), 3)
    assert ended.next is Next.GIVE_UP
    assert ended.sentence == "5 sets of nodes were lost within 10 minutes, so another won't last"
    between = [Reason.NODE_LOST] * 4 + [Reason.PREEMPTED, Reason.NODE_LOST]
    assert after(failures(*between, every=at_once), 0).next is Next.ATTEMPT
    assert after(failures(*[Reason.PREEMPTED] * 9, every=at_once), 0).next is Next.ATTEMPT


def test_nodes_that_never_call_are_not_asked_for_without_end():
    unheard = Reason.NODE_UNHEARD
    assert after(failures(unheard, unheard), 0).next is Next.ATTEMPT
    ended = after(failures(unheard, unheard, unheard), 9)
    assert ended.next is Next.GIVE_UP
    assert ended.sentence == "it was so with 3 sets of nodes in a row"
    assert after(failures(unheard, Reason.PREEMPTED, unheard, Reason.PREEMPTED, unheard), 0).next is Next.GIVE_UP
    in_turn = (unheard, Reason.NODE_LOST, unheard, Reason.NODE_LOST, unheard)
    assert after(failures(*in_turn), 0).next is Next.ATTEMPT
    assert after(failures(*in_turn, every=timedelta(seconds=30)), 0).next is Next.GIVE_UP


@pytest.mark.parametrize(
    "reason", [Reason.BAD_COMMAND, Reason.STAGING_FAILED, Reason.OUT_OF_REACH, Reason.NODES_REFUSED]
)
def test_some_failures_are_never_tried_again(reason: Reason):
    assert after(failures(reason), 3).next is Next.GIVE_UP


def test_the_same_place_twice_ends_it_and_another_place_doesnt():
    same = [Failure(1, n, Verdict(Reason.RANK_FAILED, "x", place="t.py:7 ValueError"), START) for n in (1, 2)]
    assert after(same, 3).next is Next.GIVE_UP
    assert after(failures(Reason.RANK_FAILED, Reason.RANK_FAILED, place="t.py:"), 3).next is Next.ROUND

"""What follows a failure."""

from __future__ import annotations

from datetime import timedelta

import pytest

from drumbeat.core.end_verdict import Verdict
from drumbeat.core.lifecycle.job import Failure
from drumbeat.core.lifecycle.recovery import Next, after
from drumbeat.core.scheduling.resource_needs import JobPolicy
from drumbeat.model.states import Reason
from tests.support.messages import Messages

from .jobs import START

pytestmark = pytest.mark.feature("F2")


def failures(*kinds: Reason, place: str = "", every: timedelta = timedelta(hours=1)) -> list[Failure]:
    return [
        Failure(1, n, Verdict(kind, "x", place=place and f"{place}{n}"), START + n * every)
        for n, kind in enumerate(kinds, 1)
    ]


def test_own_failures_are_tried_again_until_the_retries_are_used_up():
    own = [Reason.RANK_FAILED] * 4
    assert after(failures(*own[:3]), JobPolicy(max_retries=3)).next is Next.ROUND
    assert after(failures(*own[:3]), JobPolicy(max_retries=3)).sentence.endswith("retry 3 of 3")
    assert after(failures(*own), JobPolicy(max_retries=3)).next is Next.GIVE_UP


def test_lost_nodes_dont_count():
    mixed = [Reason.NODE_LOST] * 9 + [Reason.RANK_FAILED]
    assert after(failures(*mixed), JobPolicy(max_retries=1)).next is Next.ROUND
    assert after(failures(*[Reason.NODE_LOST] * 9), JobPolicy(max_retries=0)).next is Next.ATTEMPT


def test_failure_of_ranks_counts_and_moves_them_when_a_node_is_lost(messages: Messages):
    found = after(failures(Reason.RANK_FAILED), JobPolicy(max_retries=2), has_nodes=False)
    assert found.next == Next.ATTEMPT
    messages.check(found.sentence)


def test_nodes_that_are_lost_one_set_after_the_other_at_once_end_it(messages: Messages):
    """Seen: a job that ended its agent each time had got 26 sets of nodes in 14 minutes, and no end."""
    at_once = timedelta(seconds=30)
    assert after(failures(*[Reason.NODE_LOST] * 4, every=at_once), JobPolicy(max_retries=0)).next is Next.ATTEMPT
    ended = after(failures(*[Reason.NODE_LOST] * 5, every=at_once), JobPolicy(max_retries=3))
    assert ended.next is Next.GIVE_UP
    messages.check(ended.sentence)
    between = [Reason.NODE_LOST] * 4 + [Reason.PREEMPTED, Reason.NODE_LOST]
    assert after(failures(*between, every=at_once), JobPolicy(max_retries=0)).next is Next.ATTEMPT
    assert after(failures(*[Reason.PREEMPTED] * 9, every=at_once), JobPolicy(max_retries=0)).next is Next.ATTEMPT


def test_nodes_that_never_call_are_not_asked_for_without_end(messages: Messages):
    unheard = Reason.NODE_UNHEARD
    assert after(failures(unheard, unheard), JobPolicy(max_retries=0)).next is Next.ATTEMPT
    ended = after(failures(unheard, unheard, unheard), JobPolicy(max_retries=9))
    assert ended.next is Next.GIVE_UP
    messages.check(ended.sentence)
    assert (
        after(failures(unheard, Reason.PREEMPTED, unheard, Reason.PREEMPTED, unheard), JobPolicy(max_retries=0)).next
        is Next.GIVE_UP
    )
    in_turn = (unheard, Reason.NODE_LOST, unheard, Reason.NODE_LOST, unheard)
    assert after(failures(*in_turn), JobPolicy(max_retries=0)).next is Next.ATTEMPT
    assert after(failures(*in_turn, every=timedelta(seconds=30)), JobPolicy(max_retries=0)).next is Next.GIVE_UP


@pytest.mark.parametrize(
    "reason", [Reason.BAD_COMMAND, Reason.STAGING_FAILED, Reason.OUT_OF_REACH, Reason.NODES_REFUSED]
)
def test_permanent_failures_are_never_retried(reason: Reason):
    assert after(failures(reason), JobPolicy(max_retries=3)).next is Next.GIVE_UP


def test_second_failure_at_the_same_place_ends_the_job():
    same = [Failure(1, n, Verdict(Reason.RANK_FAILED, "x", place="t.py:7 ValueError"), START) for n in (1, 2)]
    assert after(same, JobPolicy(max_retries=3)).next is Next.GIVE_UP
    assert (
        after(failures(Reason.RANK_FAILED, Reason.RANK_FAILED, place="t.py:"), JobPolicy(max_retries=3)).next
        is Next.ROUND
    )


OWN = Failure(1, 1, Verdict(Reason.RANK_FAILED, "x", is_own=True), START)
KILLED = Failure(1, 1, Verdict(Reason.RANK_KILLED, "x"), START)
DEFAULT = JobPolicy(is_retry_asked=False)


def test_a_failure_of_the_program_itself_is_not_retried_before_its_first_checkpoint(messages: Messages):
    ended = after([OWN], DEFAULT)
    assert ended.next is Next.GIVE_UP
    messages.check(ended.sentence)


def test_a_failure_of_the_program_itself_is_retried_from_a_checkpoint_or_when_asked():
    assert after([OWN], DEFAULT, has_checkpoint=True).sentence.endswith("retry 1 of 3")
    assert after([OWN], JobPolicy(max_retries=2)).sentence.endswith("retry 1 of 2")


def test_a_failure_from_outside_is_retried_without_a_checkpoint():
    assert after([KILLED], DEFAULT).next is Next.ROUND
    lost = Failure(1, 1, Verdict(Reason.NODE_LOST, "x"), START)
    assert after([lost], DEFAULT, has_nodes=False).next is Next.ATTEMPT


def raised(round_: int, error: str, place: str) -> Failure:
    return Failure(1, round_, Verdict(Reason.RANK_FAILED, f"rank 0 on node 0 stopped: {error}", place=place), START)


def test_final_sentence_names_the_first_cause_of_failures_that_followed_from_it(messages: Messages):
    first = raised(1, "ValueError: no column price", "t.py:9 ValueError")
    later = [raised(n, "FileExistsError: [Errno 17] File exists: 'run'", "t.py:2 FileExistsError") for n in (2, 3)]
    messages.check(after([first, *later], JobPolicy(max_retries=3)).sentence)
    assert "began" not in after(later, JobPolicy(max_retries=3)).sentence


def test_lost_nodes_are_not_named_as_the_beginning(messages: Messages):
    lost = Failure(1, 1, Verdict(Reason.NODE_LOST, "node 1 was lost"), START)
    again = [raised(n, "ValueError: no column price", "t.py:9 ValueError") for n in (2, 3)]
    messages.check(after([lost, *again], JobPolicy(max_retries=3)).sentence)

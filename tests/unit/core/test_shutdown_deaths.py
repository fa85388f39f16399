"""Ranks whose programs had ended well before a signal ended their interpreters."""

from __future__ import annotations

from dataclasses import replace

import pytest

from drumbeat.core.diagnosis.blame import verdict
from drumbeat.core.diagnosis.shutdown_deaths import describe_deaths
from drumbeat.model.agent import Phase, RankExit
from drumbeat.model.states import Reason, State
from tests.support.messages import Messages

from .jobs import PEER_GONE, after, ended, killed, running, said

WORKED = "exiting group exited"


def died(rank: int, mark: str = WORKED, number: int = 6) -> RankExit:
    return replace(killed(rank, number), end_mark=mark)


@pytest.mark.feature("F2")
def test_rank_that_dies_after_a_clean_end_completes_the_job_with_a_note(messages: Messages):
    job = after(running(nodes=1), said(0, Phase.ENDED, exits=(ended(0), died(1))))
    assert (job.state, job.verdict and job.verdict.reason) == (State.FINALIZING, Reason.FINISHED)
    messages.check(job.sentence)


@pytest.mark.feature("F2")
def test_a_rank_that_dies_without_a_mark_has_failed():
    job = after(running(nodes=1), said(0, Phase.ENDED, exits=(ended(0), killed(1, 6))))
    assert job.failures[-1].verdict.reason is Reason.RANK_KILLED


def test_several_ranks_are_named_together_with_what_exit_handlers_may_have_left(messages: Messages):
    exits = [(0, died(0, "exiting", 11)), (1, died(3, "exiting exited"))]
    messages.check(describe_deaths(exits))
    assert describe_deaths([(0, ended(0))]) == ""


def test_rank_that_dies_after_a_clean_end_while_others_need_it_left_early(messages: Messages):
    found = verdict([(0, died(1)), (0, ended(0, 1, at=2.0, tail=PEER_GONE))])
    assert (found.reason, found.rank) == (Reason.RANK_LEFT_EARLY, 1)
    messages.check(found.sentence)

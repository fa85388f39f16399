"""What nodes may send when their attempt is over."""

from __future__ import annotations

from dataclasses import replace

import pytest

from drumbeat.core.lifecycle.job import Job
from drumbeat.core.lifecycle.late_nodes import LATE_FOR, is_heard_late
from drumbeat.model.agent import Phase
from drumbeat.model.states import State

from .jobs import START, a_job, status


def job_in(state: State, *phases: Phase | None, attempt: int = 1) -> Job:
    """A job whose nodes said last that they are in these phases, None = nothing."""
    nodes = tuple(status(node, phase) if phase else None for node, phase in enumerate(phases))
    ended_at = START if state.is_terminal else None
    return replace(a_job(), state=state, attempt=attempt, round=1, nodes=nodes, ended_at=ended_at, queued_at=START)


@pytest.mark.parametrize("phase", [Phase.ENDED, Phase.UPLOADING, Phase.UPLOADED])
@pytest.mark.parametrize("state", [State.COMPLETED, State.FAILED, State.CANCELED])
def test_node_that_sent_all_is_not_heard_after_the_job(state: State, phase: Phase):
    assert not is_heard_late(job_in(state, phase, Phase.RUNNING), 1, 0, START)


@pytest.mark.parametrize("phase", [None, Phase.STAGING, Phase.RUNNING])
def test_node_that_was_cut_off_is_heard_for_an_hour_after_the_job(phase: Phase | None):
    job = job_in(State.FAILED, Phase.UPLOADED, phase)
    assert is_heard_late(job, 1, 1, START + LATE_FOR)
    assert not is_heard_late(job, 1, 1, START + LATE_FOR * 1.01)


def test_node_that_ended_an_earlier_round_only_is_heard_after_the_job():
    job = job_in(State.FAILED, Phase.UPLOADED, Phase.ENDED)
    assert is_heard_late(replace(job, round=2), 1, 1, START)


def test_replaced_attempt_is_heard_until_the_job_has_ended():
    assert is_heard_late(job_in(State.RUNNING, Phase.RUNNING, attempt=2), 1, 5, START)
    assert not is_heard_late(job_in(State.COMPLETED, Phase.RUNNING, attempt=2), 1, 0, START)


def test_nodes_of_a_job_that_waits_for_others_are_heard_for_an_hour():
    job = job_in(State.QUEUED)
    assert is_heard_late(job, 1, 0, START + LATE_FOR)
    assert not is_heard_late(job, 1, 0, START + 2 * LATE_FOR)

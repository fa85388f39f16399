"""Requests to cancel a job: which are refused, which repeat an earlier one, and which go on to the table."""

from dataclasses import replace

import pytest

from drumbeat.core.end_verdict import Verdict
from drumbeat.core.lifecycle.cancellation import is_repeated, refusal
from drumbeat.core.lifecycle.events import CancelRequested
from drumbeat.core.lifecycle.job import Job, Published
from drumbeat.model.plan import OutputPlan
from drumbeat.model.states import Reason, State
from tests.support.messages import Messages

from .jobs import a_job

CANCEL, DISCARD = CancelRequested("a person"), CancelRequested("a person", discard=True)
MODEL = OutputPlan("model", "uri_folder", "upload", uri="file:///models/digits")


def job_in(state: State, reason: Reason = Reason.FINISHED, *outputs: OutputPlan) -> Job:
    job = a_job()
    plan = replace(job.plan, outputs=outputs)
    return replace(job, plan=plan, state=state, verdict=Verdict(reason, "why"), attempt=1)


@pytest.mark.parametrize("state", [state for state in State if not state.is_terminal and state is not State.FINALIZING])
def test_job_that_has_not_ended_can_be_canceled(state: State):
    assert refusal(job_in(state), CANCEL) is None
    assert not is_repeated(job_in(state), CANCEL)


def test_job_that_keeps_its_results_is_canceled_with_discard_only(messages: Messages):
    job = job_in(State.FINALIZING)
    error = refusal(job, CANCEL)
    assert error is not None
    messages.check(error.what)
    assert error.fix.endswith("drumbeat cancel job-1 --discard")
    assert refusal(job, DISCARD) is None


def test_second_request_while_results_are_kept_is_a_repeat():
    job = job_in(State.FINALIZING, Reason.CANCEL_REQUESTED)
    assert is_repeated(job, CANCEL)
    assert refusal(job, CANCEL) is None
    assert not is_repeated(job, DISCARD)


def test_outputs_that_are_being_published_are_given_up_with_discard_only(messages: Messages):
    job = job_in(State.COMPLETED, Reason.FINISHED, MODEL)
    error = refusal(job, CANCEL)
    assert error is not None
    messages.check(error.what)
    assert refusal(job, DISCARD) is None
    published = replace(job, published=(Published("model", MODEL.uri),))
    messages.check(str(refusal(published, DISCARD)))


def test_request_after_a_cancellation_is_a_repeat_and_after_another_end_is_refused(messages: Messages):
    assert is_repeated(job_in(State.CANCELED, Reason.CANCEL_REQUESTED), DISCARD)
    assert refusal(job_in(State.CANCELED, Reason.CANCEL_REQUESTED), CANCEL) is None
    messages.check(str(refusal(job_in(State.FAILED, Reason.TIMED_OUT), CANCEL)))

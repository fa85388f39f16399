"""What the table does about outputs that go somewhere when a job has ended."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from drumbeat.core.lifecycle.events import (
    CancelRequested,
    KeepEvents,
    NodeLost,
    OutputHeldUp,
    OutputPublished,
    Placed,
    PublishOutputs,
)
from drumbeat.core.lifecycle.job import HeldUp, Job, Published
from drumbeat.core.lifecycle.output_publication import FOLLOWER_TIMEOUT, OutputProgress, is_over, output_progress
from drumbeat.core.lifecycle.state_machine import decide
from drumbeat.core.scheduling.resource_needs import Slot
from drumbeat.model import wire
from drumbeat.model.api.jobs import OutputPlace
from drumbeat.model.plan import OutputPlan
from drumbeat.model.states import State
from tests.support.messages import Messages
from tests.support.sample_jobs import submission

pytestmark = pytest.mark.feature("D3")

NOW = datetime(2026, 11, 22, tzinfo=UTC)
LATER = NOW + FOLLOWER_TIMEOUT
TOLD = Published("model", "azureml://datastores/blobs/paths/m", 2, 10, "best:1")


def job(**output: str) -> Job:
    made = submission("j").job
    planned = OutputPlan("model", "uri_folder", **{"mode": "rw_mount", **output})
    return replace(made, plan=replace(made.plan, nodes=1, outputs=(planned,)))


def canceled(one: Job) -> list[str]:
    """The effects at the end of a job that is canceled while its nodes start."""
    granted = decide(one, Placed((Slot(0, "m", 1),)), NOW).job
    ended = decide(granted, CancelRequested("ann"), NOW)
    assert ended.job.state is State.CANCELED
    return [effect.kind for effect in ended.effects]


@pytest.mark.parametrize(
    ("output", "is_published"),
    [
        ({}, False),
        ({"uri": "s3://b/p"}, True),
        ({"uri": "s3://b/p", "mode": "upload"}, False),
        ({"asset": "best"}, False),
    ],
)
def test_canceled_job_publishes_only_outputs_of_mode_rw_mount(output: dict[str, str], is_published: bool):
    assert ("publish_outputs" in canceled(job(**output))) == is_published


def test_job_without_nodes_publishes_nothing():
    ended = decide(job(uri="s3://b/p"), CancelRequested("ann"), NOW)
    assert [type(effect) for effect in ended.effects] == [KeepEvents]


def ended() -> Job:
    return replace(job(uri="s3://b/p"), state=State.COMPLETED, sentence="done", attempt=1, ended_at=NOW)


def test_published_output_is_an_event_and_changes_nothing_else(messages: Messages):
    decision = decide(ended(), OutputPublished(TOLD), NOW)
    assert decision.job == replace(ended(), published=(TOLD,))
    messages.check(*[line.sentence for line in decision.events])
    assert decide(decision.job, OutputPublished(TOLD), NOW).events == ()


@pytest.mark.parametrize(
    ("told", "sentence"),
    [
        (Published("model", "", asset="best:1"), "output model: kept in the job's folder, known as azureml:best:1"),
        (Published("model", "s3://b/p", problem="no permission"), "output model: no permission"),
    ],
)
def test_sentence_of_an_output_has_its_place_or_the_error(told: Published, sentence: str):
    assert decide(ended(), OutputPublished(told), NOW).events[0].sentence == sentence


def test_running_job_publishes_nothing():
    running = replace(ended(), state=State.RUNNING)
    assert decide(running, OutputPublished(TOLD), NOW).job == running


def test_ended_job_changes_only_by_its_outputs():
    for event in (CancelRequested("ann"), NodeLost(1, 0, "gone")):
        assert decide(ended(), event, NOW).job == ended()


def held_up(why: str, output: str = "model") -> OutputHeldUp:
    return OutputHeldUp(output, why)


def test_reason_of_a_delayed_output_is_one_event_and_cleared_once_published(messages: Messages):
    first = decide(ended(), held_up("no answer"), NOW)
    messages.check(*[line.sentence for line in first.events])
    second = decide(first.job, held_up("no answer"), LATER)
    assert second.events == ()
    assert second.job.held_up == (HeldUp("model", "no answer", is_long=True),)
    third = decide(second.job, held_up("it is full"), LATER)
    assert "it is full" in third.events[0].sentence
    done = decide(third.job, OutputPublished(TOLD), LATER).job
    assert done.held_up == ()
    assert decide(done, held_up("late news"), LATER).job == done


def test_running_job_has_no_delayed_outputs():
    running = replace(ended(), state=State.RUNNING)
    assert decide(running, held_up("no answer"), NOW).job == running


def test_following_ends_once_outputs_are_published_or_after_a_timeout():
    running = replace(ended(), state=State.RUNNING)
    assert not is_over(running)
    assert not is_over(ended())
    assert not is_over(decide(ended(), held_up("no answer"), LATER - timedelta(seconds=1)).job)
    assert is_over(decide(ended(), held_up("no answer"), LATER).job)
    assert is_over(decide(ended(), OutputPublished(TOLD), NOW).job)


def test_delayed_output_does_not_hide_another_in_progress():
    other = OutputPlan("log", "uri_folder", "rw_mount", "s3://b/log")
    both = replace(ended(), plan=replace(ended().plan, outputs=(*ended().plan.outputs, other)))
    first = decide(both, held_up("no answer"), LATER).job
    assert not is_over(first)
    assert is_over(decide(first, held_up("no answer", "log"), LATER).job)


def test_output_published_after_it_was_given_up_counts_as_published():
    given_up = decide(ended(), CancelRequested("ann", discard=True), NOW).job
    after_all = decide(given_up, OutputPublished(TOLD), NOW)
    assert after_all.job.published == (TOLD,)
    assert "2 files in" in after_all.events[0].sentence
    refused = Published("model", "", problem="no permission")
    assert decide(given_up, OutputPublished(refused), NOW).job == given_up


def test_outputs_that_are_held_up_can_be_given_up(messages: Messages):
    given_up = decide(decide(ended(), held_up("no answer"), NOW).job, CancelRequested("ann", discard=True), NOW)
    messages.check(*[line.sentence for line in given_up.events])
    assert given_up.effects == (PublishOutputs(1),)
    assert given_up.job.state is State.COMPLETED
    assert is_over(given_up.job)
    assert [(one.place, one.problem) for one in output_progress(given_up.job)] == [
        (OutputPlace.FAILED, "given up by ann")
    ]


def test_progress_of_an_output_follows_the_jobs_state():
    running = replace(ended(), state=State.RUNNING)
    assert output_progress(running) == [OutputProgress(OutputPlace.TO_COME, Published("model", "s3://b/p"))]
    assert output_progress(ended()) == [OutputProgress(OutputPlace.UNDER_WAY, Published("model", "s3://b/p"))]
    waits = decide(ended(), held_up("no answer"), NOW).job
    assert output_progress(waits) == [
        OutputProgress(OutputPlace.UNDER_WAY, Published("model", "s3://b/p"), "no answer")
    ]
    assert output_progress(decide(waits, OutputPublished(TOLD), NOW).job) == [
        OutputProgress(OutputPlace.IN_PLACE, TOLD)
    ]
    failed = replace(job(uri="s3://b/p", mode="upload"), state=State.FAILED, attempt=1)
    assert output_progress(failed) == [OutputProgress(OutputPlace.KEPT, Published("model", ""))]
    assert output_progress(replace(job(), state=State.COMPLETED, attempt=1)) == []


def test_job_and_effect_survive_serialization():
    kept = replace(ended(), published=(TOLD,), held_up=(HeldUp("log", "no answer", is_long=True),))
    assert wire.loads(Job, wire.dumps(kept)) == kept
    from drumbeat.core.lifecycle.events import Effect

    assert wire.from_wire(Effect, wire.to_wire(PublishOutputs(3))) == PublishOutputs(3)

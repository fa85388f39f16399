"""What the table does about outputs that go somewhere when a job has ended."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from drumbeat.core.events import CancelRequested, Granted, KeepStory, NodeLost, OutputPublished, PublishOutputs
from drumbeat.core.job import Job, Published, Slot
from drumbeat.core.machine import decide
from drumbeat.core.states import State
from drumbeat.protocol import wire
from drumbeat.protocol.plan import OutputPlan
from drumbeat.testing.sample_jobs import submission

pytestmark = pytest.mark.feature("D3")

NOW = datetime(2026, 11, 22, tzinfo=UTC)
TOLD = Published("model", "azureml://datastores/blobs/paths/m", 2, 10, "best:1")


def job(**output: str) -> Job:
    made = submission("j").job
    planned = OutputPlan("model", "uri_folder", **{"mode": "rw_mount", **output})
    return replace(made, plan=replace(made.plan, nodes=1, outputs=(planned,)))


def canceled(one: Job) -> list[str]:
    """The effects at the end of a job that is canceled while its nodes start."""
    granted = decide(one, Granted((Slot(0, "m", 1),)), NOW).job
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
def test_of_a_canceled_job_only_what_it_wrote_as_to_a_disk_goes_anywhere(output: dict[str, str], is_published: bool):
    assert ("publish_outputs" in canceled(job(**output))) == is_published


def test_a_job_that_never_had_nodes_has_nothing_to_put_anywhere():
    ended = decide(job(uri="s3://b/p"), CancelRequested("ann"), NOW)
    assert [type(effect) for effect in ended.effects] == [KeepStory]


def ended() -> Job:
    return replace(job(uri="s3://b/p"), state=State.COMPLETED, sentence="done", attempt=1, ended_at=NOW)


def test_what_became_of_an_output_is_in_the_story_and_changes_nothing_else():
    decision = decide(ended(), OutputPublished(TOLD), NOW)
    assert decision.job == replace(ended(), published=(TOLD,))
    assert [line.sentence for line in decision.story] == [
        "output model: 2 files in azureml://datastores/blobs/paths/m, known as azureml:best:1"
    ]
    assert decide(decision.job, OutputPublished(TOLD), NOW).story == ()


@pytest.mark.parametrize(
    ("told", "sentence"),
    [
        (Published("model", "", asset="best:1"), "output model: kept in the job's folder, known as azureml:best:1"),
        (Published("model", "s3://b/p", problem="no permission"), "output model: no permission"),
    ],
)
def test_the_sentence_says_where_it_is_or_why_not(told: Published, sentence: str):
    assert decide(ended(), OutputPublished(told), NOW).story[0].sentence == sentence


def test_of_a_job_that_goes_on_nothing_is_published():
    running = replace(ended(), state=State.RUNNING)
    assert decide(running, OutputPublished(TOLD), NOW).job == running


def test_nothing_else_moves_a_job_that_has_ended():
    for event in (CancelRequested("ann"), NodeLost(1, 0, "gone")):
        assert decide(ended(), event, NOW).job == ended()


def test_a_job_and_its_effect_survive_being_written_down():
    kept = replace(ended(), published=(TOLD,))
    assert wire.loads(Job, wire.dumps(kept)) == kept
    from drumbeat.core.events import Effect

    assert wire.from_wire(Effect, wire.to_wire(PublishOutputs(3))) == PublishOutputs(3)

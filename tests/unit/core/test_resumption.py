"""Whether a job may begin with the checkpoints of an earlier one, and what is said of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from drumbeat.core.lifecycle.job import Job
from drumbeat.core.lifecycle.resumption import (
    LastCheckpoint,
    is_known_by_nodes,
    refusal,
    resumption,
    sentence,
    unreachable,
)
from drumbeat.jobfile.compute.compute_keys import CheckpointScope
from drumbeat.jobfile.compute.computes import compute_from
from drumbeat.model.agent import AgentStatus, Phase
from drumbeat.model.states import State
from tests.support.messages import Messages

from .jobs import a_job, said

pytestmark = pytest.mark.feature("M16")
SAVED = LastCheckpoint(step=300, is_there=True)


def status(node: int, *, saved: bool = False, phase: Phase = Phase.UPLOADED) -> AgentStatus:
    one = said(node, phase).status
    return replace(one, member=replace(one.member, checkpoints="/kept/j/checkpoints"), has_checkpoint=saved)


def ended(*nodes: AgentStatus | None, state: State = State.FAILED, **more: object) -> Job:
    return replace(a_job(max(1, len(nodes)), 1), state=state, nodes=nodes, **more)


def test_job_that_has_ended_with_a_checkpoint_is_continued() -> None:
    job = ended(status(0, saved=True), status(1))
    assert refusal(job, SAVED, CheckpointScope.MACHINE) is None
    begins = resumption(job, SAVED, CheckpointScope.MACHINE)
    assert (begins.job, begins.folders, begins.step, begins.is_per_machine) == (
        job.name,
        ("/kept/j/checkpoints",),
        300,
        True,
    )
    assert sentence(begins) == f"it continues {job.name} from its checkpoint at step 300"
    assert sentence(replace(begins, step=None)) == f"it continues {job.name} from its last checkpoint"


@pytest.mark.parametrize(
    ("job", "last", "scope"),
    [
        (ended(status(0), state=State.RUNNING), SAVED, CheckpointScope.COMPUTE),
        (ended(None), SAVED, CheckpointScope.COMPUTE),
        (ended(status(0, saved=True)), SAVED, CheckpointScope.NODE),
        (ended(status(0)), LastCheckpoint(is_seen=True, is_there=False), CheckpointScope.COMPUTE),
        (ended(status(0, saved=True)), LastCheckpoint(is_seen=True, is_there=False), CheckpointScope.COMPUTE),
    ],
    ids=["running", "without nodes", "pods", "none", "deleted"],
)
def test_refusal_says_why_and_what_to_do(
    job: Job, last: LastCheckpoint, scope: CheckpointScope, messages: Messages
) -> None:
    refused = refusal(job, last, scope)
    assert refused is not None
    assert refused.where == "resume"
    messages.check(f"{refused.what} | {refused.fix}")


def test_checkpoints_on_another_compute_name_it(messages: Messages) -> None:
    refused = unreachable(ended(status(0)), "rack")
    assert refused.where == "compute"
    messages.check(f"{refused.what} | {refused.fix}")


@pytest.mark.parametrize(
    ("nodes", "known"),
    [
        ([status(0), status(1)], False),
        ([status(0), status(1, saved=True)], True),
        ([status(0), status(1, phase=Phase.RUNNING)], None),
        ([status(0), None], None),
        ([], None),
    ],
)
def test_nodes_know_whether_a_checkpoint_was_saved(nodes: list[AgentStatus | None], known: bool | None) -> None:
    assert is_known_by_nodes(ended(*nodes)) is known


def test_job_that_waits_for_other_nodes_keeps_the_place_of_its_checkpoints() -> None:
    assert ended(status(0)).checkpoint_folders == ("/kept/j/checkpoints",)
    assert ended(None, checkpoints=("/before",)).checkpoint_folders == ("/before",)


@pytest.mark.parametrize(
    ("document", "scope"),
    [
        ({"type": "ssh", "hosts": ["a"]}, CheckpointScope.MACHINE),
        ({"type": "ray", "address": "http://a:8265"}, CheckpointScope.MACHINE),
        ({"type": "slurm", "folder": "/shared"}, CheckpointScope.COMPUTE),
        ({"type": "netlab"}, CheckpointScope.COMPUTE),
        ({"type": "kubernetes", "image": "i"}, CheckpointScope.NODE),
        (
            {
                "type": "kubernetes", "image": "i", "folder": "/data/d",
                "volumes": [{"name": "v", "mount_path": "/data", "source": {"emptyDir": {}}}],
            },
            CheckpointScope.COMPUTE,
        ),
    ],
)  # fmt: skip
def test_computes_say_which_nodes_see_checkpoints(document: dict[str, object], scope: CheckpointScope) -> None:
    assert compute_from({"name": "c", **document}).checkpoint_scope is scope

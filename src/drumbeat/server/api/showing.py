"""How the core's values look through the API."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from drumbeat.core.life.aftermath import whereabouts
from drumbeat.core.life.job import Job
from drumbeat.core.life.outcome import exit_code
from drumbeat.core.verdict import Verdict
from drumbeat.server.api.views import (
    ExitView,
    FailureView,
    JobView,
    JobWithStory,
    NodeView,
    OutputView,
    StoryView,
    VerdictView,
)

if TYPE_CHECKING:
    from drumbeat.core.life.events import StoryEntry
    from drumbeat.ports import Record


def job_view(record: Record, notice: str = "") -> JobView:
    """A stored job as the API shows it."""
    return JobView.model_validate({**_facts(record), "notice": notice})


def job_with_story(record: Record, story: list[StoryEntry], notice: str) -> JobWithStory:
    """A stored job and its story."""
    return JobWithStory.model_validate({**_facts(record), "notice": notice, "story": story_views(story)})


def story_views(story: list[StoryEntry], after: int = 0) -> list[StoryView]:
    """The lines of a story after the first `after`."""
    return [
        StoryView(
            n=n, at=line.at, state=line.state, reason=line.reason, sentence=line.sentence,
            attempt=line.attempt, round=line.round,
        )
        for n, line in enumerate(story[after:], after + 1)
    ]  # fmt: skip


def _facts(record: Record) -> dict[str, Any]:
    job, plan = record.job, record.job.plan
    same = (
        "name display_name description state reason sentence attempt round submitted_at started_at ended_at stop_at "
        "deadline tags observed"
    )
    return {field: getattr(job, field) for field in same.split()} | {
        "experiment": plan.experiment, "launcher": plan.launcher, "compute": plan.compute,
        "environment": plan.environment, "command": plan.command, "world_size": plan.world_size,
        "node_count": plan.nodes, "processes_per_node": plan.processes_per_node, "nodes": _nodes(job),
        "verdict": _verdict(job.verdict), "exit_code": exit_code(job), "archived": record.archived,
        "priority": job.policy.priority, "properties": _properties(record),
        "outputs": _outputs(job),
        "failures": [
            FailureView(attempt=f.attempt, round=f.round, at=f.at, verdict=VerdictView.model_validate(f.verdict))
            for f in job.failures
        ],
    }  # fmt: skip


def _properties(record: Record) -> dict[str, str]:
    """As the job was sent: a person's, and which commit its code was."""
    given = record.spec.get("properties")
    table = cast("dict[object, object]", given) if isinstance(given, dict) else {}
    return {str(key): str(value) for key, value in table.items()}


def _verdict(verdict: Verdict | None) -> VerdictView | None:
    return None if verdict is None else VerdictView.model_validate(verdict)


def _outputs(job: Job) -> list[OutputView]:
    return [
        OutputView(
            name=one.told.output, place=one.place, uri=one.told.uri, asset=one.told.asset, files=one.told.files,
            size=one.told.size, problem=one.problem,
        )
        for one in whereabouts(job)
    ]  # fmt: skip


def _nodes(job: Job) -> list[NodeView]:
    machines = {slot.node: slot.machine for slot in job.slots}
    return [_node(job, node, machines.get(node, "")) for node in range(max(len(job.nodes), len(machines)))]


def _node(job: Job, node: int, machine: str) -> NodeView:
    status = job.nodes[node] if node < len(job.nodes) else None
    if status is None:
        return NodeView(node=node, machine=machine, lost=node in job.lost)
    return NodeView(
        node=node, machine=machine, host=status.member.host, address=status.member.address, phase=status.phase,
        detail=status.detail, error=status.error, lost=status.lost or node in job.lost,
        exits=[ExitView.model_validate(one) for one in status.exits],
    )  # fmt: skip

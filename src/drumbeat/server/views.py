"""What the API says: response models, and how they come from the core's values."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict

from drumbeat.core.job import Job, Verdict
from drumbeat.core.outcome import exit_code
from drumbeat.core.states import Reason, State
from drumbeat.protocol.plan import Plan
from drumbeat.protocol.process import ProcessSpec

if TYPE_CHECKING:
    from drumbeat.core.events import StoryEntry
    from drumbeat.ports import Record


class View(BaseModel):
    """Reads its fields from any object that has them."""

    model_config = ConfigDict(from_attributes=True, frozen=True)


class ObservedView(View):
    """The engine's own word, and when it was seen."""

    word: str
    at: datetime


class ExitView(View):
    """How a rank ended."""

    rank: int
    code: int | None
    signal: int | None
    at: float


class NodeView(View):
    """A node of the present attempt. phase: "" until its agent has enrolled."""

    node: int
    machine: str = ""
    host: str = ""
    address: str = ""
    phase: str = ""
    detail: str = ""
    error: str = ""
    lost: bool = False
    exits: list[ExitView] = []


class VerdictView(View):
    """Why a job or a round ended."""

    reason: Reason
    sentence: str
    rank: int | None = None
    node: int | None = None
    code: int | None = None
    tail: str = ""
    advice: str = ""


class FailureView(View):
    """A round that went wrong."""

    attempt: int
    round: int
    at: datetime
    verdict: VerdictView


class StoryView(View):
    """A line of a job's story; n counts from 1."""

    n: int
    at: datetime
    state: State
    reason: Reason
    sentence: str
    attempt: int
    round: int


class JobView(View):
    """A job as the API shows it. exit_code: null until it has ended."""

    name: str
    display_name: str
    description: str
    experiment: str
    state: State
    reason: Reason
    sentence: str
    observed: ObservedView | None
    attempt: int
    round: int
    nodes: list[NodeView]
    world_size: int
    node_count: int
    processes_per_node: int
    launcher: str
    compute: str
    environment: str
    command: str
    submitted_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    stop_at: datetime | None
    deadline: datetime | None
    verdict: VerdictView | None
    exit_code: int | None
    failures: list[FailureView]
    tags: dict[str, str]
    archived: bool
    priority: int


class JobWithStory(JobView):
    """A job and everything that happened to it."""

    story: list[StoryView]


class JobPage(View):
    """Jobs, newest first. after: what to ask for the next page with, null on the last."""

    jobs: list[JobView]
    after: str | None


class PreviewView(View):
    """What would run."""

    plan: Plan
    processes: list[ProcessSpec]
    staged: list[str]
    queue: str
    notes: list[str]


class LogView(View):
    """A piece of a rank's log, decoded. offset: of its first byte in the rank's file."""

    position: int
    attempt: int
    round: int
    node: int
    rank: int
    offset: int
    text: str


class LogPage(View):
    """Pieces of logs. after: what to ask for the next page with; the same as asked when there is no more yet."""

    pieces: list[LogView]
    after: int


class EndView(View):
    """The last event of a stream."""

    state: State
    exit_code: int | None


class FileView(View):
    """A file of a job. path: relative to the job's folder. size: bytes."""

    path: str
    size: int


class AliasView(View):
    """What a cloud's name means here."""

    kind: str
    name: str
    target: str


class MachineView(View):
    """A machine of a compute."""

    name: str
    cpus: int
    gpus: list[str]
    memory_mib: int


class HeldView(View):
    """What one node of a job's attempt holds."""

    job: str
    attempt: int
    node: int
    machine: str
    cpus: int
    gpus: list[str]


class ComputeInfo(View):
    """A compute: its machines, who holds what, how many jobs wait."""

    name: str
    engine: str
    machines: list[MachineView]
    held: list[HeldView]
    waiting: int


class VersionView(View):
    """Who answers. protocol: client and server must have the same."""

    version: str
    protocol: int
    boot_id: str
    host: str
    pid: int
    home: str


class StatusView(View):
    """How the server is. idle_stop_s: it stops after that long with nothing to do; 0 = never."""

    uptime_s: float
    unfinished: list[str]
    idle_s: float
    idle_stop_s: float


def job_view(record: Record) -> JobView:
    """A stored job as the API shows it."""
    return JobView.model_validate(_facts(record))


def job_with_story(record: Record, story: list[StoryEntry]) -> JobWithStory:
    """A stored job and its story."""
    return JobWithStory.model_validate({**_facts(record), "story": story_views(story)})


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
        "priority": job.policy.priority,
        "failures": [
            FailureView(attempt=f.attempt, round=f.round, at=f.at, verdict=VerdictView.model_validate(f.verdict))
            for f in job.failures
        ],
    }  # fmt: skip


def _verdict(verdict: Verdict | None) -> VerdictView | None:
    return None if verdict is None else VerdictView.model_validate(verdict)


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

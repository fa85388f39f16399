"""What the API says: the response models."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from drumbeat.core.life.aftermath import Place
from drumbeat.protocol.plan import Plan
from drumbeat.protocol.process import ProcessSpec
from drumbeat.protocol.states import Reason, State


class View(BaseModel):
    """Reads its fields from any object that has them."""

    model_config = ConfigDict(from_attributes=True, frozen=True)


class ProblemView(View):
    """One thing that is wrong at one place."""

    what: str
    where: str
    fix: str


class ErrorView(ProblemView):
    """Every refusal and failure. code: one word of `drumbeat.protocol.errors`, in the header `Drumbeat-Error` too."""

    code: str
    fields: list[ProblemView]


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


class OutputView(View):
    """An output that goes into a store, or gets a name. place: how far it is. asset: `name:version`, once it has one.

    uri: where it goes, "" = it stays in the job's folder. size: bytes. problem: why it isn't in its place, or not yet.
    """

    name: str
    place: Place
    uri: str
    asset: str
    files: int
    size: int
    problem: str


class JobView(View):
    """A job as the API shows it.

    exit_code: null until it has ended. notice: what keeps its logs from being stored here just now; they aren't lost.
    """

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
    properties: dict[str, str] = {}
    archived: bool
    priority: int
    notice: str = ""
    outputs: list[OutputView] = []


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
    script: str
    line: str
    never: bool


class LogView(View):
    """A piece of a rank's log, decoded. rank: -1 = the node's own log. offset: of its first byte in its file."""

    position: int
    attempt: int
    round: int
    node: int
    rank: int
    offset: int
    text: str


class LogPage(View):
    """Pieces of logs. after: what to ask for the next page with; the same as asked when there is no more yet.

    end: what `after` is once all that was there has been read.
    """

    pieces: list[LogView]
    after: int
    end: int


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
    """A machine of a compute. word: the engine's own for how it is. unusable: why nothing may be started on it now."""

    name: str
    cpus: int
    gpus: list[str]
    memory_mib: int
    state: Literal["idle", "running", "unusable"]
    word: str
    unusable: str


class HeldView(View):
    """What one node of a job's attempt holds."""

    job: str
    attempt: int
    node: int
    machine: str
    cpus: int
    gpus: list[str]


class ComputeInfo(View):
    """A compute: its machines, who holds what, how many jobs wait. trouble: why no job can start there now.

    spec: what a person wrote; empty for one that is always there.
    """

    name: str
    engine: str
    machines: list[MachineView]
    held: list[HeldView]
    waiting: int
    trouble: str
    spec: dict[str, Any]


class VersionView(View):
    """Who answers. protocol: client and server must have the same."""

    version: str
    protocol: int
    boot_id: str
    host: str
    pid: int
    home: str


class DoorView(View):
    """Where agents on other hosts are listened for. ends: when the certificate does that is shown there now."""

    address: str
    port: int
    ends: datetime


class StatusView(View):
    """How the server is. idle_stop_s: it stops after that long with nothing to do; 0 = never. others: servers over the
    same store.
    """

    uptime_s: float
    unfinished: list[str]
    publishing: list[str] = []
    idle_s: float
    idle_stop_s: float
    doors: list[DoorView] = []
    others: list[str] = []

"""Jobs as the API shows them: state, nodes, outputs, events and logs."""

from __future__ import annotations

import operator
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from drumbeat.model.agent import WAITS
from drumbeat.model.api.checkpoints import ContinuedView
from drumbeat.model.api.constraints import limited
from drumbeat.model.api.metrics import NotFiniteView, PrimaryView
from drumbeat.model.api.preflight import PreflightView
from drumbeat.model.api.sessions import ServiceView
from drumbeat.model.logs import LogName
from drumbeat.model.plan import Elastic, Plan
from drumbeat.model.process import ProcessSpec
from drumbeat.model.states import JobKind, Reason, State

TERMINAL = frozenset(state for state in State if state.is_terminal)
"""States that a job never leaves."""

TRANSFERRING = frozenset({State.STAGING, State.FINALIZING})
"""States in which nodes fetch inputs or send outputs, and report their progress."""


class OutputPlace(StrEnum):
    """The progress of an output that goes into a store, or gets a name."""

    TO_COME = "to_come"
    UNDER_WAY = "under_way"
    IN_PLACE = "in_place"
    FAILED = "failed"
    KEPT = "kept"
    """In the job's folder only, as the job ended."""


@dataclass(frozen=True)
class EventView:
    """An event of a job; n counts from 1."""

    n: int
    at: datetime
    state: State
    reason: Reason
    sentence: str
    attempt: int
    round: int


@dataclass(frozen=True)
class ExitView:
    """How a rank ended. at: seconds since the epoch, by the clock of its node."""

    rank: int
    code: int | None
    signal: int | None
    at: float


@dataclass(frozen=True)
class NodeView:
    """A node of the present attempt, as its agent last reported it. phase: "" until its agent has enrolled."""

    node: int
    machine: str = ""
    host: str = ""
    address: str = ""
    phase: str = ""
    detail: str = ""
    error: str = ""
    lost: bool = False
    exits: tuple[ExitView, ...] = ()


@dataclass(frozen=True)
class ObservedView:
    """The engine's own status of the job, and when it was seen."""

    word: str
    at: datetime


@dataclass(frozen=True)
class VerdictView:
    """Why a job or a round ended.

    aftermath: how the other ranks ended, "" = there are none, or nothing is known of them.
    """

    reason: Reason
    sentence: str
    rank: int | None = None
    node: int | None = None
    code: int | None = None
    tail: str = ""
    advice: str = ""
    aftermath: str = ""


@dataclass(frozen=True)
class FailureView:
    """A round that failed."""

    attempt: int
    round: int
    at: datetime
    verdict: VerdictView


@dataclass(frozen=True)
class OutputView:
    """An output that goes into a store, or gets a name.

    place: how far it is. uri: where it goes, "" = it stays in the job's folder. asset: `name:version`, once it has one.
    size: bytes. problem: why it isn't in its place, or not yet. type: as in the job file, such as `custom_model`.
    """

    name: str
    place: OutputPlace
    uri: str
    asset: str
    files: int
    size: int
    problem: str
    type: str = ""

    @property
    def notice(self) -> str:
        """Why the output isn't stored, or what happens to it now; "" = it is stored, or not due yet."""
        if self.place == OutputPlace.FAILED:
            return f"output {self.name} isn't in its place: {self.problem}"
        if self.place != OutputPlace.UNDER_WAY:
            return ""
        if self.problem:
            return f"output {self.name} isn't in its place yet: {self.problem}; it is tried again"
        return f"output {self.name} is being put in its place"


PRIMARY = "The metric of rank 0 that counts, with its last and its best value; absent until there is one."
NOT_FINITE = "The first metric of rank 0 that is NaN or infinite, and since which step; absent when all are numbers."
BEST_TRIAL = "The best trial of a sweep so far; absent until one has a value, and for other jobs."
SLOW = "Whether a rank, or all of a node, was found slow in this round: the story says which; absent when not."
MESH = "Sizes of the dimensions in which the ranks divide a model, outermost first; absent when there are none."
ELASTIC = "The numbers of nodes between which the job runs; absent when its number is fixed."
SERVICES = "The interactive services beside the ranks, on each node that has them; absent when there are none."
PERSON = "Who submitted the job; absent when that is unknown."
PREFLIGHT = "What the nodes of the present attempt measured before their ranks started; absent where they did not."
ORIGIN = "The job that it was run again from; absent when there is none, or it was deleted."
SUCCESSORS = "The jobs that were run again from it, the newest first; absent when there are none."
CONTINUES = "The job that it continues from a checkpoint; absent when it began without one."
CONTINUED_BY = "Those of `successors` that continue from its last checkpoint; absent when there are none."
PARENT = "The sweep or pipeline that the job is a part of; absent when there is none."


@dataclass(frozen=True)
class BestTrialView:
    """The trial of a sweep with the best value so far. name: of the sweep's primary metric."""

    job: str
    name: str
    value: float
    parameters: dict[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True)
class JobView:
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
    nodes: tuple[NodeView, ...]
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
    failures: tuple[FailureView, ...]
    tags: dict[str, str]
    archived: bool
    priority: int
    properties: dict[str, str] = field(default_factory=dict[str, str], metadata=limited(default={}))
    notice: str = ""
    outputs: tuple[OutputView, ...] = ()
    parent: str = field(default="", metadata=limited(PARENT, exclude_if=operator.not_))
    person: str = field(default="", metadata=limited(PERSON, exclude_if=operator.not_))
    primary: PrimaryView | None = field(default=None, metadata=limited(PRIMARY, exclude_if=operator.not_))
    not_finite: NotFiniteView | None = field(default=None, metadata=limited(NOT_FINITE, exclude_if=operator.not_))
    best_trial: BestTrialView | None = field(default=None, metadata=limited(BEST_TRIAL, exclude_if=operator.not_))
    has_slow_rank: bool = field(default=False, metadata=limited(SLOW, exclude_if=operator.not_))
    mesh: dict[str, int] = field(default_factory=dict[str, int], metadata=limited(MESH, exclude_if=operator.not_))
    elastic: Elastic | None = field(default=None, metadata=limited(ELASTIC, exclude_if=operator.not_))
    type: JobKind = field(default=JobKind.COMMAND, metadata=limited("Whether it has ranks, or is the parent of jobs."))
    services: tuple[ServiceView, ...] = field(default=(), metadata=limited(SERVICES, exclude_if=operator.not_))

    @property
    def has_ended(self) -> bool:
        """Whether the job is in a terminal state."""
        return self.state in TERMINAL

    @property
    def progress(self) -> str:
        """The current activity: a node's progress with files, what holds outputs up, or the job's sentence."""
        if notices := [one.notice for one in self.outputs if one.notice]:
            return "; ".join([self.sentence, *notices])
        reporting = [node for node in self.nodes if node.detail and not node.error and not node.lost]
        if self.state not in TRANSFERRING or not reporting:
            return self.sentence
        node = next((each for each in reporting if WAITS in each.detail), reporting[0])
        detail = f"node {node.node}: {node.detail}" if self.node_count > 1 else node.detail
        return f"{detail}; {self.sentence}" if self.state == State.FINALIZING else detail

    def is_infrastructure(self, rank: int) -> bool:
        """Whether a rank is a part of Ray itself: its log is shown only on request."""
        return self.launcher == "ray" and rank > 0


@dataclass(frozen=True, kw_only=True)
class JobWithEvents(JobView):
    """A job with all of its events."""

    story: tuple[EventView, ...]
    origin: str = field(default="", metadata=limited(ORIGIN, exclude_if=operator.not_))
    successors: tuple[str, ...] = field(default=(), metadata=limited(SUCCESSORS, exclude_if=operator.not_))
    continues: ContinuedView | None = field(default=None, metadata=limited(CONTINUES, exclude_if=operator.not_))
    continued_by: tuple[str, ...] = field(default=(), metadata=limited(CONTINUED_BY, exclude_if=operator.not_))
    preflight: PreflightView | None = field(default=None, metadata=limited(PREFLIGHT, exclude_if=operator.not_))


@dataclass(frozen=True)
class JobPage:
    """Jobs, newest first. after: what to ask for the next page with, null on the last."""

    jobs: tuple[JobView, ...]
    after: str | None


@dataclass(frozen=True)
class StepPreview:
    """A step of a pipeline that would run, after the steps in `after`. type: a job's.

    sweep: what its trials would try, as a sentence; then the other fields are those of each trial. "" = it is no sweep.
    """

    name: str
    type: JobKind
    after: tuple[str, ...]
    launcher: str
    nodes: int
    processes_per_node: int
    world_size: int
    compute: str
    environment: str
    command: str
    sweep: str = ""


@dataclass(frozen=True)
class PreviewView:
    """What would run.

    processes: of every node, in rank order. staged, notes: sentences. queue: where the job would wait. script: what a
    scheduler would be handed; line: the launcher's own command; "" = there is none. never: the job could never start,
    as `queue` says; then there are neither processes nor ranks.

    parent: the sweep or pipeline that would run, "" = a job of its own; then the plan is that of an example trial or of
    the first step. sweep: what the sweep would try, as a sentence. steps: of the pipeline, in the order of its file.
    """

    plan: Plan
    processes: tuple[ProcessSpec, ...]
    staged: tuple[str, ...]
    queue: str
    notes: tuple[str, ...]
    script: str
    line: str
    never: bool
    parent: str = ""
    sweep: str = ""
    steps: tuple[StepPreview, ...] = ()


@dataclass(frozen=True)
class LogPiece:
    """A piece of a rank's log, decoded.

    position: grows over all pieces of a job. rank: -1 = the node's own log. offset: of its first byte in its file.
    at: when the server received it, in seconds since the epoch; 0 = unknown.
    """

    position: int
    attempt: int
    round: int
    node: int
    rank: int
    offset: int
    text: str
    at: float = 0.0

    @property
    def log(self) -> LogName:
        """The log that the piece belongs to."""
        return LogName(self.attempt, self.round, self.node, self.rank)


@dataclass(frozen=True)
class LogPage:
    """Pieces of logs.

    after: what to ask for the next page with; the same as asked when there is no more yet. end: what `after` is once
    everything that is stored now has been read. first: of an end that was asked for, the position up to which pieces
    hold what is older; one that was cut is among them.
    """

    pieces: tuple[LogPiece, ...]
    after: int
    end: int
    first: int = 0


@dataclass(frozen=True)
class End:
    """The last event of a stream: the job is over, and everything that it wrote was sent."""

    state: State
    exit_code: int | None


Event = EventView | JobView | LogPiece | End
"""The items of a job's stream."""


HOLES_HEADER = "Drumbeat-Holes"
"""Stretches of a file that are zeros and take no space, `start-end,start-end`: they needn't be fetched."""

SIZES_HEADER = "Drumbeat-Sizes"
"""The sizes of the files in one response, `size,size`; -1 = this one isn't in it."""


@dataclass(frozen=True)
class FileView:
    """A file of a job. path: relative to the job's folder. size: bytes."""

    path: str
    size: int

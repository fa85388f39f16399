"""The events that can happen to a job, and the effects that follow: two closed sets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from drumbeat.core.lifecycle.job import Job, Published, TakenNodes
from drumbeat.core.scheduling.resource_needs import Slot
from drumbeat.model.agent import AgentStatus
from drumbeat.model.states import Reason, State


class Loss(StrEnum):
    """Why nodes are gone, as far as their engine can tell. Closed: `state_machine` has a row for each."""

    LOST = "lost"
    UNHEARD = "unheard"
    """The engine has started it, and its agent has never called."""
    PREEMPTED = "preempted"
    TIMED_OUT = "timed_out"
    CANCELED = "canceled"
    OUT_OF_MEMORY = "out_of_memory"
    FAILED = "failed"
    """They ended by themselves, before or while they were of use."""


# --- events -----------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Placed:
    """Placement found slots for every node at once."""

    slots: tuple[Slot, ...]
    taken: TakenNodes | None = None
    """The nodes that the job takes over with them; None = it gets nodes of its own."""


@dataclass(frozen=True)
class PlacementDeferred:
    """Placement found that the job has to wait."""

    reason: Reason
    sentence: str


@dataclass(frozen=True)
class NeverFits:
    """Placement found that the compute can never provide that much, or that too few of its machines have a share."""

    sentence: str
    reason: Reason = Reason.TOO_BIG


@dataclass(frozen=True)
class GangObserved:
    """The engine's status of the gang of an attempt. waits: the engine has a queue, and the gang is in it.

    is_asked: False = the engine couldn't be asked for the gang yet, and so knows nothing of it. notice: that its nodes
    will be taken away, in a sentence, "" = the engine knows of no such plan.
    """

    attempt: int
    engine_status: str
    waits: bool = False
    is_asked: bool = True
    notice: str = ""


@dataclass(frozen=True)
class NodesNotConnected:
    """The engine has started the gang of an attempt a while ago, and not all of its agents have called. In words."""

    attempt: int
    sentence: str


@dataclass(frozen=True)
class GangRefused:
    """The engine can't start the gang of an attempt."""

    attempt: int
    sentence: str


@dataclass(frozen=True)
class StatusReported:
    """The agent of a node has reported its status."""

    attempt: int
    node: int
    status: AgentStatus


@dataclass(frozen=True)
class ValueLogged:
    """A rank has logged a value of a metric in this round, in a sentence."""

    attempt: int
    round: int
    sentence: str


@dataclass(frozen=True)
class StallObserved:
    """The ranks of a silent round were looked at; a sentence says what they do."""

    attempt: int
    round: int
    sentence: str
    is_hang: bool
    """Whether the round will not continue by itself; else one rank is slow."""
    is_certain: bool = False
    """Whether nothing from outside of the job can end the hang; at the rendezvous, whether the round is to end."""
    is_over: bool = False
    """Whether a hang that was reported has passed."""
    is_rendezvous: bool = False
    """Whether the ranks wait at their rendezvous for others, for longer than the job allows."""
    silent_s: float = 0.0
    """How long before the event the rank that is the cause gave its last sign of work."""
    rank: int | None = None
    node: int | None = None


@dataclass(frozen=True)
class NodeLost:
    """The engine says, or silence proves, that a node of an attempt is gone."""

    attempt: int
    node: int
    sentence: str
    cause: Loss = Loss.LOST


@dataclass(frozen=True)
class NodeDeparture:
    """The machine of a node has announced that it is about to leave: its ranks must end now to end well."""

    attempt: int
    node: int
    sentence: str


@dataclass(frozen=True)
class GrowthPossible:
    """Placement found this many nodes for an elastic job, including those that it has."""

    attempt: int
    nodes: int


@dataclass(frozen=True)
class CheckpointSaved:
    """The ranks have saved a whole checkpoint in this round. step: as the script counts."""

    attempt: int
    round: int
    step: int


@dataclass(frozen=True)
class CancelRequested:
    """A user asked for the job to stop. discard: also while it keeps its results; what isn't kept yet is lost."""

    by: str
    discard: bool = False


@dataclass(frozen=True)
class TimeUp:
    """The job's time limit is reached, by a clock that doesn't jump."""


@dataclass(frozen=True)
class JudgeDue:
    """A running job's `judge_at` is reached, by a clock that doesn't jump."""


@dataclass(frozen=True)
class RetryDue:
    """A waiting job's `retry_at` is reached, by a clock that doesn't jump."""


@dataclass(frozen=True)
class OutputPublished:
    """An output of a job that has ended is where it was to go, or can't be brought there."""

    published: Published


@dataclass(frozen=True)
class OutputHeldUp:
    """An output of a job that has ended can't be brought to its place now, and why; it is tried again.

    tries: those that failed before.
    """

    output: str
    why: str
    tries: int = 0


@dataclass(frozen=True)
class ChildStatus:
    """The status of a child of a parent. job: its name. ran_s: from its start to its end."""

    job: str
    state: State
    sentence: str = ""
    ran_s: float = 0.0
    is_waiting: bool = False
    """Whether it waits in the queue for slots that other jobs have."""
    failures: int = 0
    """How often it has failed and was started again, without those that are forgotten."""
    failure: str = ""
    """What the last of them was."""


@dataclass(frozen=True)
class ChildrenSeen:
    """The status of all children of a parent job: a level, which names every child whose job exists.

    reports: of each trial of a sweep by its number, the values of the primary metric that rank 0 reported, in order.
    busy: of completed trials by their number, the share of their time that their ranks worked, where it was measured.
    runs: of ended trials by their number, the run beside the trial's own that their reports come from, by its name:
    where the trial's own run has none.
    """

    children: tuple[ChildStatus, ...] = ()
    reports: Mapping[int, Sequence[float]] = field(default_factory=dict[int, Sequence[float]])
    busy: Mapping[int, float] = field(default_factory=dict[int, float])
    runs: Mapping[int, str] = field(default_factory=dict[int, str])


@dataclass(frozen=True)
class TrialsProposed:
    """The sampler's answer: the parameters of the trials from `first` on. is_exhausted: there are no others."""

    first: int
    values: tuple[dict[str, Any], ...] = ()
    is_exhausted: bool = False


@dataclass(frozen=True)
class ChildRefused:
    """A child's job can't be submitted."""

    job: str
    sentence: str


@dataclass(frozen=True)
class ChildPostponed:
    """A child's job can't be submitted yet; the server tries again. sentence: why."""

    job: str
    sentence: str


@dataclass(frozen=True)
class SamplerRefused:
    """A sweep's sampler can't propose parameters, now or later: a package is missing, for example."""

    sentence: str


@dataclass(frozen=True)
class StepReused:
    """A step of a pipeline is not run: an earlier job has the result that its own would have.

    job: the name that its own job would have. source: the earlier one.
    """

    job: str
    source: str


@dataclass(frozen=True)
class DeploymentAsked:
    """What is asked of a deployment now: a level."""

    generation: int
    wanted: int
    """The number of replicas."""
    sentence: str = ""
    """Why this number, "" = a user asked for it."""
    ready_within_s: float = 310.0
    snapshots: tuple[str, ...] = ()


@dataclass(frozen=True)
class ReplicasSeen:
    """The replicas of a deployment that take requests now, by the names of their jobs: a level."""

    ready: frozenset[str] = frozenset()


@dataclass(frozen=True)
class ReplicaSteady:
    """A replica has taken requests for so long that its failures before count no more."""

    attempt: int
    round: int
    sentence: str


@dataclass(frozen=True)
class LabelsChanged:
    """A job has another display name, note or tags."""

    display_name: str | None = None
    """None = as it was."""
    description: str | None = None
    """None = as it was."""
    tags: dict[str, str | None] = field(default_factory=dict[str, str | None])
    """Of a tag that is removed, None; tags that aren't named stay."""
    by: str = ""
    """The user; "" = the job's own script."""


Event = (
    Placed
    | PlacementDeferred
    | NeverFits
    | GangObserved
    | NodesNotConnected
    | GangRefused
    | StatusReported
    | ValueLogged
    | StallObserved
    | NodeLost
    | NodeDeparture
    | GrowthPossible
    | CheckpointSaved
    | CancelRequested
    | TimeUp
    | JudgeDue
    | RetryDue
    | OutputPublished
    | OutputHeldUp
    | ChildrenSeen
    | TrialsProposed
    | ChildRefused
    | ChildPostponed
    | SamplerRefused
    | StepReused
    | DeploymentAsked
    | ReplicasSeen
    | ReplicaSteady
    | LabelsChanged
)


# --- effects ----------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class StartGang:
    """Ask the engine for the gang of an attempt: all of its nodes or none."""

    attempt: int
    slots: tuple[Slot, ...]
    kind: str = "start_gang"


@dataclass(frozen=True)
class StopGang:
    """End every process of an attempt and give its slots back."""

    attempt: int
    gang: str = ""
    """The name under which the engine knows its nodes, "" = the attempt's own."""
    keep_s: float = 0.0
    """How long another job may take over the nodes before they are ended; 0 = none may."""
    kind: str = "stop_gang"


@dataclass(frozen=True)
class KeepEvents:
    """Write the job's plan and events into its folder, beside its results."""

    attempt: int
    kind: str = "keep_story"


@dataclass(frozen=True)
class PublishOutputs:
    """Store the outputs of a job that has ended in their destinations, and register them under their names."""

    attempt: int
    kind: str = "publish_outputs"


@dataclass(frozen=True)
class ProposeTrials:
    """Ask the sampler for the parameters of `count` trials, numbered from `first` on."""

    attempt: int
    first: int
    count: int
    kind: str = "propose_trials"


@dataclass(frozen=True)
class SubmitChild:
    """Submit the job of a child: a trial's or a step's. job: its name."""

    attempt: int
    job: str
    kind: str = "submit_child"


@dataclass(frozen=True)
class CancelChild:
    """Ask the job of a child to stop. by: who ends it, as its event says."""

    attempt: int
    job: str
    by: str
    kind: str = "cancel_child"


@dataclass(frozen=True)
class SendNotice:
    """Report the end of the job, or what one of its conditions says, to a notice target."""

    attempt: int
    target: str
    address: str = ""
    """The receiver of a mail, "" = those of the target."""
    sentence: str = ""
    """What was met, and how; "" = the job has ended."""
    kind: str = "send_notice"


DROPPED_WITH_JOB = (KeepEvents, SendNotice)
"""Effects that don't keep a job from being deleted."""

Effect = StartGang | StopGang | KeepEvents | PublishOutputs | ProposeTrials | SubmitChild | CancelChild | SendNotice


# --- what decide gives back -------------------------------------------------------------------------------------
@dataclass(frozen=True)
class JobEvent:
    """One event of a job, as users read it: what changed, when, and a message that says why."""

    at: datetime
    state: State
    reason: Reason
    sentence: str
    attempt: int = 0
    round: int = 0
    since: datetime | None = None
    """Of a hang: when the rank that is the cause gave its last sign of work; None = unknown."""


@dataclass(frozen=True)
class Decision:
    """The job after an event, the effects to carry out, and the events to record."""

    job: Job
    effects: tuple[Effect, ...] = ()
    events: tuple[JobEvent, ...] = ()
    notices: tuple[str, ...] = ()
    """What is to be told to those whom the job notifies, beside its end."""

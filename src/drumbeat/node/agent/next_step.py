"""The agent's next action and its status: pure functions of its facts and the directive."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, auto

from drumbeat.model.agent import AgentStatus, Directive, NodeMessage, Order, Phase, RankExit, ServiceStatus
from drumbeat.model.conditions import ConditionState
from drumbeat.model.preflight import NodeCheck
from drumbeat.model.roster import Member


class WorkState(Enum):
    """The state of work that runs beside the agent's loop."""

    NONE = auto()
    GOING = auto()
    DONE = auto()
    FAILED = auto()


class AgentAction(Enum):
    """An action that the agent takes next."""

    BEGIN_ROUND = auto()
    STAGE = auto()
    HOLD_PORT = auto()
    START = auto()
    STOP = auto()
    CLOSE_ROUND = auto()
    UPLOAD = auto()
    LEAVE = auto()


@dataclass
class RoundFacts:
    """The facts about one round on this node.

    port, more_ports: held; 0 and () = not yet. asked: the supervisor was told to start it. started, over: reported by
    the supervisor. clearing: some of its containers may still run. logs_sent: the server has all of its logs. closed:
    it was stopped before it started.
    """

    number: int = 0
    port: int = 0
    more_ports: tuple[int, ...] = ()
    asked: bool = False
    started: bool = False
    stopping: bool = False
    over: bool = False
    clearing: bool = False
    lost: bool = False
    abandoned: bool = False
    is_restarted: bool = False
    logs_sent: bool = False
    closed: bool = False
    exits: dict[int, RankExit] = field(default_factory=dict[int, RankExit])

    @property
    def has_begun(self) -> bool:
        """Whether ranks may be running or have run."""
        return self.asked or self.started

    @property
    def has_ended(self) -> bool:
        """Whether nothing of the round runs and nothing remains to be sent."""
        return (self.closed and not self.has_begun) or (self.is_over and self.logs_sent)

    @property
    def is_over(self) -> bool:
        """Whether nothing of the round runs."""
        return self.over and not self.clearing


@dataclass
class AttemptFacts:
    """The facts about the attempt on this node."""

    staging: WorkState = WorkState.NONE
    upload: WorkState = WorkState.NONE
    round: RoundFacts = field(default_factory=RoundFacts)
    detail: str = ""
    error: str = ""
    is_transient: bool = False
    is_share_missing: bool = False
    is_unusable: bool = False
    preflight: NodeCheck | None = None
    supervisor_error: str = ""
    is_preempted: bool = False
    messages: tuple[NodeMessage, ...] = ()
    is_building: bool = False
    """Whether the environment of the ranks is being built."""
    is_silent: bool = False
    """Whether the ranks of the round show no activity (`node.stacks.silence`)."""
    is_idle: bool = False
    """Whether a rank of the round shows no activity (`node.stacks.silence`)."""
    services: tuple[ServiceStatus, ...] = ()
    handover: str = ""
    """As `AgentStatus` has it."""
    has_checkpoint: bool = False
    """Whether the round is over and the job's checkpoint folder has files."""
    conditions: tuple[ConditionState, ...] = ()
    """As `AgentStatus` has it."""
    ends_early: bool = False
    """Whether a condition ends the job, and the server hasn't told this node to stop its ranks in time."""


def next_step(facts: AttemptFacts, wanted: Directive | None) -> AgentAction | None:
    """The next action towards the directive; None when it is reached or something must happen first."""
    if wanted is None:
        return None
    if wanted.order is Order.LEAVE:
        return AgentAction.LEAVE
    if wanted.round > facts.round.number:
        return _towards_new_round(facts.round)
    if wanted.round < facts.round.number:
        return None
    return _TOWARDS[wanted.order](facts)


def _towards_new_round(old: RoundFacts) -> AgentAction | None:
    if old.has_begun and not old.over:
        return None if old.stopping else AgentAction.STOP
    return None if old.clearing else AgentAction.BEGIN_ROUND


def _towards_ready(facts: AttemptFacts) -> AgentAction | None:
    if facts.round.has_begun or facts.round.closed:
        return None
    if facts.staging is WorkState.NONE:
        return AgentAction.STAGE
    return AgentAction.HOLD_PORT if facts.staging is WorkState.DONE and not facts.round.port else None


def _towards_running(facts: AttemptFacts) -> AgentAction | None:
    if facts.ends_early and facts.round.has_begun:
        return _towards_stopped(facts)
    if facts.round.has_begun or facts.round.closed:
        return None
    if facts.staging is WorkState.NONE:
        return AgentAction.STAGE
    return AgentAction.START if facts.staging is WorkState.DONE else None


def _towards_stopped(facts: AttemptFacts) -> AgentAction | None:
    here = facts.round
    if not here.has_begun:
        return None if here.closed else AgentAction.CLOSE_ROUND
    if not here.started and facts.supervisor_error:
        return AgentAction.CLOSE_ROUND
    return None if here.over or here.stopping else AgentAction.STOP


def _towards_uploaded(facts: AttemptFacts) -> AgentAction | None:
    if facts.round.has_begun and not facts.round.is_over:
        return None
    return AgentAction.UPLOAD if facts.upload is WorkState.NONE else None


_TOWARDS = {
    Order.PREPARE: _towards_ready,
    Order.RUN: _towards_running,
    Order.STOP: _towards_stopped,
    Order.UPLOAD: _towards_uploaded,
}


def phase(facts: AttemptFacts) -> Phase:
    """The agent's phase."""
    if facts.upload is not WorkState.NONE:
        return Phase.UPLOADED if facts.upload is WorkState.DONE else Phase.UPLOADING
    if facts.round.has_ended:
        return Phase.ENDED
    if facts.round.has_begun:
        return Phase.RUNNING
    if facts.round.port:
        return Phase.READY
    return Phase.ENROLLED if facts.staging is WorkState.NONE else Phase.STAGING


def status(facts: AttemptFacts, member: Member) -> AgentStatus:
    """The status for the server."""
    here = facts.round
    return AgentStatus(
        phase=phase(facts),
        round=here.number,
        member=member,
        port=here.port,
        exits=tuple(sorted(here.exits.values(), key=lambda each: each.order)),
        detail=facts.detail,
        error=facts.error or facts.supervisor_error,
        lost=here.lost,
        is_abandoned=here.abandoned,
        is_restarted=here.is_restarted,
        is_preempted=facts.is_preempted,
        more_ports=here.more_ports,
        messages=facts.messages,
        is_transient=facts.is_transient,
        builds_environment=facts.is_building,
        is_share_missing=facts.is_share_missing,
        is_silent=facts.is_silent,
        is_idle=facts.is_idle,
        services=facts.services,
        is_unusable=facts.is_unusable,
        preflight=facts.preflight,
        has_checkpoint=facts.has_checkpoint,
        handover=facts.handover,
        conditions=facts.conditions,
    )

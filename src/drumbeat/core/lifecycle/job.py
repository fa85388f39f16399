"""The job as the server knows it: the value that `decide` takes and returns."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import cast

from drumbeat.core.child_jobs import DeploymentProgress, PipelineProgress, SweepProgress
from drumbeat.core.end_verdict import Verdict
from drumbeat.core.lifecycle.node_statuses import Mark, NodeStatuses, when_ended
from drumbeat.core.scheduling.resource_needs import JobPolicy, Need, Slot
from drumbeat.launchers import host_file
from drumbeat.model import wire
from drumbeat.model.agent import WAITS, AgentStatus, Phase, RankExit
from drumbeat.model.plan import Plan
from drumbeat.model.roster import Roster
from drumbeat.model.states import JobKind, Reason, State
from drumbeat.model.unique_names import gang_name, unique_name


@dataclass(frozen=True)
class Observed:
    """The engine's own status of the gang, and when it was seen."""

    word: str
    at: datetime


@dataclass(frozen=True)
class Failure:
    """A round that went wrong, kept for recovery."""

    attempt: int
    round: int
    verdict: Verdict
    at: datetime


@dataclass(frozen=True)
class Published:
    """The result of storing an output after the job's end. uri: where it is, "" = in the job's folder only.

    asset: `name:version` that it is known by, "" = none. problem: why it isn't where it was to go, or isn't named.
    """

    output: str
    uri: str
    files: int = 0
    size: int = 0
    asset: str = ""
    problem: str = ""


@dataclass(frozen=True)
class HeldUp:
    """Why an output of a job that has ended isn't stored yet. is_long: followers of the job wait no longer."""

    output: str
    why: str
    is_long: bool = False


@dataclass(frozen=True)
class TakenNodes:
    """The nodes of an earlier job, which an attempt has taken over."""

    gang: str
    """The name under which the engine knows them."""
    job: str
    """Whose they were before."""
    attempt: int


@dataclass(frozen=True)
class Job:
    """A job with everything that the server knows of it. Times are aware datetimes in UTC; durations are in seconds.

    nodes: the last status of each agent of this attempt, None until it enrolled. verdict: why it is being
    stopped, or ended. avoided: machines of nodes that the last attempt lost. stop_at: when SIGKILL follows.
    judge_at: when the round is judged, while only ranks that miss a peer have ended so far.
    started_at: the first RUNNING. reported_subjects: subjects of this attempt's messages that have an event already.
    """

    name: str
    plan: Plan
    need: Need
    policy: JobPolicy
    submitted_at: datetime
    state: State = State.QUEUED
    reason: Reason = Reason.ACCEPTED
    sentence: str = ""
    observed: Observed | None = None
    attempt: int = 0
    round: int = 0
    slots: tuple[Slot, ...] = ()
    nodes: tuple[AgentStatus | None, ...] = ()
    roster: Roster | None = None
    verdict: Verdict | None = None
    stop_at: datetime | None = None
    judge_at: datetime | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    failures: tuple[Failure, ...] = ()
    lost: tuple[int, ...] = ()
    avoided: tuple[str, ...] = ()
    effects: int = 0
    display_name: str = ""
    description: str = ""
    tags: dict[str, str] = field(default_factory=dict[str, str])
    published: tuple[Published, ...] = ()
    reported_subjects: tuple[str, ...] = field(default=(), metadata={wire.KEY: "remarks"})
    held_up: tuple[HeldUp, ...] = ()
    parent: str = ""
    """The sweep, pipeline or deployment that the job is a part of; "" = none. Fixed when the job is submitted."""
    lacking: tuple[str, ...] = ()
    """Machines that lack a share of the compute or can't be used: the job isn't placed there any more."""
    user: str = field(default="", metadata={wire.KEY: "person"})
    """Who submitted the job, or its parent; "" = unknown. Fixed."""
    sweep: SweepProgress | None = None
    """Of a sweep: its trials. Its plan then has no nodes and no command."""

    pipeline: PipelineProgress | None = None
    """Of a pipeline: its steps. Its plan then has no nodes and no command."""

    deployment: DeploymentProgress | None = None
    """Of a deployment: its replicas. Its plan then has no nodes and no command."""

    growth: int = 0
    """The number of nodes that an elastic job takes next, or after its next checkpoint; 0 = it keeps what it has."""

    retry_at: datetime | None = None
    """When the job goes on after a failure that recurred; None = it doesn't wait for that."""

    kept: int = 0
    """While an elastic job is between two attempts: how many nodes of the last one were not lost."""

    queued_at: datetime | None = None
    """Since when it has asked for nodes again; None = since its submission, or as its failures say."""

    node_secrets_since: int = 0
    """The first attempt whose nodes have a secret each, 0 = none yet: before, one secret served a whole attempt."""

    taken: TakenNodes | None = None
    """The nodes that its attempt took over from another job; None = it was given nodes of its own, or has none."""

    checkpoints: tuple[str, ...] = ()
    """The folders of checkpoints on the nodes of the last attempt that was given up; () = there was none."""

    first_version: int = 1
    """The version that its record began with: beyond those of the deleted jobs that had its name. Set by the store."""

    def __post_init__(self) -> None:
        """Has what is counted over the nodes go along with their statuses."""
        if not isinstance(self.nodes, NodeStatuses):
            object.__setattr__(self, "nodes", NodeStatuses(self.nodes))

    @property
    def statuses(self) -> NodeStatuses:
        """What the agent of each node last said, with what is counted over them."""
        return cast("NodeStatuses", self.nodes)

    @property
    def unique_name(self) -> str:
        """The name that no other job has or had: what outlives a job is kept under it."""
        return unique_name(self.name, self.first_version)

    @property
    def checkpoint_folders(self) -> tuple[str, ...]:
        """Where its nodes keep their checkpoints, or those of the last attempt that had nodes; () = it had none."""
        folders = (status.member.checkpoints for status in self.nodes if status)
        return tuple(dict.fromkeys(folders)) or self.checkpoints

    @property
    def gang(self) -> str:
        """The name under which the engine knows the nodes of the current attempt."""
        return self.taken.gang if self.taken else gang_name(self.unique_name, self.attempt)

    @property
    def kind(self) -> JobKind:
        """Whether the job has ranks of its own, or is the parent of other jobs."""
        if self.pipeline:
            return JobKind.PIPELINE
        if self.deployment:
            return JobKind.DEPLOYMENT
        return JobKind.SWEEP if self.sweep else JobKind.COMMAND

    def has_node_secrets(self, attempt: int) -> bool:
        """Whether the nodes of an attempt, the current one or one before, have a secret each."""
        return 0 < self.node_secrets_since <= attempt

    @property
    def is_without_nodes(self) -> bool:
        """Whether its last attempt is over and no other has begun: it has ended, or waits in the queue."""
        return self.state.is_terminal or self.state is State.QUEUED

    @property
    def deadline(self) -> datetime | None:
        """When the time limit is reached; it counts from the first start of the ranks."""
        if self.started_at is None or self.policy.timeout_s is None:
            return None
        return self.started_at + timedelta(seconds=self.policy.timeout_s)

    @property
    def waits_for(self) -> str:
        """What its nodes wait for, such as `input train`; "" = nothing."""
        if not self.statuses.count(Mark.WAITS):
            return ""
        detail = next(status.detail for status in self.nodes if status and WAITS in status.detail)
        return detail.partition(WAITS)[0].partition(":")[0]

    @property
    def obstacle(self) -> str:
        """Why it can't go on, for sentences about jobs that wait for its slots: `hangs`; "" = it can."""
        if self.state is State.RUNNING and self.reason is Reason.HANGING:
            return "hangs"
        return f"{self.waits_for} waits" if self.waits_for else ""

    @property
    def exits(self) -> tuple[tuple[int, RankExit], ...]:
        """(node, exit) of every rank of this round that has ended, earliest first."""
        if not self.statuses.count_ranks(Mark.EXITS, self.round):
            return ()
        exits = [
            (node, one)
            for node, status in enumerate(self.nodes)
            if status and status.round == self.round
            for one in status.exits
        ]
        return tuple(sorted(exits, key=when_ended))

    @property
    def has_failures(self) -> bool:
        """Whether a rank of this round has failed."""
        return self.statuses.count_ranks(Mark.FAILURES, self.round) > 0

    @property
    def are_all_workers_well(self) -> bool:
        """Whether every worker rank exited 0 before it was stopped."""
        if self.statuses.count_ranks(Mark.WELL, self.round) < len(self.plan.workers):
            return False
        well = {one.rank for _, one in self.exits if not one.is_failure and not one.is_stopped}
        return well.issuperset(self.plan.workers)

    @property
    def are_workers_done(self) -> bool:
        """Whether every worker rank exited 0 while other processes of the job are still running.

        Those are service ranks, or the servers through which nodes run commands on each other.
        """
        has_services = len(self.plan.workers) < self.plan.world_size or host_file.is_visited(self.plan)
        return has_services and self.are_all_workers_well

    @property
    def has_ranks_left(self) -> bool:
        """Whether a rank of this round hasn't ended, on a node that isn't lost."""
        if not self.lost and self.statuses.count_ranks(Mark.EXITS, self.round) < len(self.plan.ranks):
            return True
        ended = {one.rank for _, one in self.exits}
        return any(one.rank not in ended and one.node not in self.lost for one in self.plan.ranks)

    @property
    def machine_faults(self) -> tuple[Verdict, ...]:
        """Why machines were given up for this job, in that order."""
        reasons = (Reason.SHARE_MISSING, Reason.NODE_UNUSABLE)
        return tuple(one.verdict for one in self.failures if one.verdict.reason in reasons)

    def are_all(self, *phases: Phase) -> bool:
        """Whether every node that isn't lost is in one of these phases of this round."""
        return self._are_nodes_left_in(phases, self.round)

    @property
    def have_all_uploaded(self) -> bool:
        """Whether every node that isn't lost has uploaded its outputs; the round of its status doesn't matter."""
        return self._are_nodes_left_in((Phase.UPLOADED,), None)

    def _are_nodes_left_in(self, phases: Collection[Phase], round: int | None) -> bool:
        lost = [self.nodes[node] for node in self.lost]
        gone = [one for one in lost if one and one.phase in phases and round in (None, one.round)]
        return self.statuses.count_nodes(phases, round) - len(gone) == len(self.nodes) - len(lost)

    def with_node(self, node: int, status: AgentStatus) -> Job:
        """Gives the job with the latest status of that node."""
        return replace(self, nodes=self.statuses.with_status(node, status))

    def without_node(self, node: int) -> Job:
        """Gives the job without that node, which is lost."""
        return replace(self, lost=tuple(sorted({*self.lost, node})))

"""The tables of reasons: the state, class of retry, advice and sentence of each, and the states that follow each state.

A reason decides the state and the class of retry, never the other way round. A word of an engine that isn't in these
tables changes no state; it is kept as `observed`.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from drumbeat.model.states import Reason, Retry, State

MOVES: dict[State, frozenset[State]] = {
    State.QUEUED: frozenset({State.PROVISIONING, State.CANCELED, State.FAILED}),
    # Before the ranks run there is nothing to stop or to keep, except the results of an earlier round.
    State.PROVISIONING: frozenset({State.STAGING, State.QUEUED, State.FAILED, State.CANCELED}),
    State.STAGING: frozenset({State.RUNNING, State.QUEUED, State.FINALIZING, State.FAILED, State.CANCELED}),
    State.RUNNING: frozenset({State.STOPPING, State.FINALIZING}),
    # Back to STAGING: a new round on the same nodes. Back to QUEUED: a new attempt on other nodes.
    # At once to the end: no node is left that could keep results.
    State.STOPPING: frozenset({State.STAGING, State.QUEUED, State.FINALIZING, State.FAILED, State.CANCELED}),
    State.FINALIZING: frozenset({State.COMPLETED, State.FAILED, State.CANCELED}),
    State.COMPLETED: frozenset(),
    State.FAILED: frozenset(),
    State.CANCELED: frozenset(),
}
"""The states that follow each state."""


class Evidence(StrEnum):
    """The evidence for a reason. Better evidence replaces weaker evidence while a job is stopping."""

    STATED = "stated"
    """A user, an engine, an agent or the server has stated it."""
    RANKS = "ranks"
    """It was concluded from how the ranks ended; later exits can change the conclusion."""
    SILENCE = "silence"
    """A node or its supervisor is gone. The engine may still state the cause."""


@dataclass(frozen=True)
class ReasonRow:
    """What one reason means for the user, for the state of the job and for recovery."""

    title: str
    ends: State | None = None
    """The state in which a job ends for this reason; None = the reason never ends a job."""
    retry: Retry = Retry.NEVER
    """What a failure for this reason counts as."""
    advice: str = ""
    """What the user can do about it."""
    evidence: Evidence = Evidence.STATED
    takes_nodes: bool = False
    """Whether the attempt's nodes are gone with it, so that a retry needs a new set."""
    is_final: bool = False
    """Whether the job ends with it as it is: it isn't recorded as a failure, and recovery isn't asked."""
    recurs_within: timedelta = timedelta(minutes=10)
    """The same failure within this time after a retry counts as a recurrence, and the next retry waits; 0 = never."""
    code: int | None = None
    """The exit code of `drumbeat run`, None = the failed rank's own, else 1."""


REASONS: dict[Reason, ReasonRow] = {
    Reason.ACCEPTED: ReasonRow("accepted; not scheduled yet"),
    Reason.WAITING_FOR_SLOTS: ReasonRow("the compute has too few free slots"),
    Reason.WAITING_FOR_TURN: ReasonRow("other jobs are ahead of this one in the queue"),
    Reason.WAITING_FOR_QUOTA: ReasonRow("the user or the experiment uses all that its quota allows"),
    Reason.REPLACING_NODES: ReasonRow("a node was lost; the job is back in the queue for a new set of nodes"),
    Reason.RESIZING: ReasonRow("the ranks of an elastic job end, to start again on another number of nodes"),
    Reason.IN_QUEUE: ReasonRow("the nodes are requested; waiting in the cluster's queue"),
    Reason.STARTING_NODES: ReasonRow("the engine is starting an agent on every node"),
    Reason.PREPARING_NODES: ReasonRow("code, inputs and environment are being prepared on every node"),
    Reason.BUILDING_ENVIRONMENT: ReasonRow("a node builds the environment of the ranks, or pulls their image"),
    Reason.BACKING_OFF: ReasonRow("the same failure has recurred; waiting before the ranks are started again"),
    Reason.RESTARTING_RANKS: ReasonRow("the ranks are being restarted on the nodes that the job has"),
    Reason.RANKS_RUNNING: ReasonRow("every rank has been started"),
    Reason.TRAINING: ReasonRow("a rank has logged its first value since the ranks started"),
    Reason.HANGING: ReasonRow("the ranks stand still: each waits, and as far as can be seen nothing will end that"),
    Reason.TRIALS_RUNNING: ReasonRow("the trials of the sweep are running"),
    Reason.STEPS_RUNNING: ReasonRow("the steps of the pipeline are running"),
    Reason.REPLICAS_RUNNING: ReasonRow("the replicas of the deployment are running, or are being started"),
    Reason.KEEPING_RESULTS: ReasonRow("outputs and the remaining logs are being saved"),
    Reason.FINISHED: ReasonRow("every rank exited with code 0", State.COMPLETED),
    Reason.STOPPED_EARLY: ReasonRow("a condition of the job was met, so it ended before its time", State.COMPLETED),
    Reason.TRIALS_ENDED: ReasonRow("every trial of the sweep has ended, and at least one completed", State.COMPLETED),
    Reason.STEPS_ENDED: ReasonRow("every step of the pipeline completed", State.COMPLETED),
    Reason.CANCEL_REQUESTED: ReasonRow("a user canceled the job", State.CANCELED, code=130),
    Reason.CANCELED_OUTSIDE: ReasonRow(
        "the job was canceled in the cluster itself, not through drumbeat", State.CANCELED, code=130
    ),
    Reason.TIMED_OUT: ReasonRow(
        "the job reached its time limit",
        State.FAILED,
        advice="Raise limits.timeout, or make the job shorter.",
        is_final=True,
        code=124,
    ),
    Reason.RANK_FAILED: ReasonRow(
        "a rank exited with an error",
        State.FAILED,
        Retry.OWN,
        "Fix the error at the end of its log, then run the job again.",
        evidence=Evidence.RANKS,
    ),
    Reason.RANK_KILLED: ReasonRow(
        "a rank was killed by a signal",
        State.FAILED,
        Retry.OWN,
        "Unless it was sent on purpose, check the memory: the kernel kills the largest process when memory runs out.",
        evidence=Evidence.RANKS,
    ),
    Reason.RANK_LEFT_EARLY: ReasonRow(
        "a rank exited with code 0 while the other ranks still needed it",
        State.FAILED,
        Retry.OWN,
        "Every rank must take the same number of steps: look for a loop or a data shard that is shorter on that rank.",
        evidence=Evidence.RANKS,
    ),
    Reason.RANK_COULD_NOT_START: ReasonRow(
        "a rank's process could not be started", State.FAILED, Retry.OWN, evidence=Evidence.RANKS
    ),
    Reason.BAD_COMMAND: ReasonRow(
        "the command itself is invalid",
        State.FAILED,
        advice="Run the command by hand in the code folder; a retry would end the same way.",
        evidence=Evidence.RANKS,
    ),
    Reason.STAGING_FAILED: ReasonRow(
        "a node could not be prepared: its code, an input, its environment or the job's preparation step failed",
        State.FAILED,
    ),
    Reason.OUT_OF_REACH: ReasonRow(
        "a service that is needed to prepare a node was unreachable: a datastore or a package index",
        State.FAILED,
        Retry.LATER,
        "Check that it is up and that the nodes and the server can reach it, then run the job again.",
    ),
    Reason.ENVIRONMENTS_DIFFER: ReasonRow(
        "the nodes don't have the same Python and packages",
        State.FAILED,
        advice="Use an environment with pinned versions, or install the same versions on every node.",
    ),
    Reason.RESULTS_LOST: ReasonRow(
        "the ranks finished, but their outputs could not be saved", State.FAILED, is_final=True
    ),
    Reason.NODE_LOST: ReasonRow(
        "a node was lost", State.FAILED, Retry.FREE, evidence=Evidence.SILENCE, takes_nodes=True
    ),
    Reason.NODE_UNHEARD: ReasonRow(
        "a node was started, but its agent never contacted the server",
        State.FAILED,
        Retry.FREE,
        "Check that the nodes can reach the server by TCP: a firewall may block them, or they may need another of its "
        "addresses (server_address of the compute). The agent's attempts are in agent.log in its folder on the node.",
        evidence=Evidence.SILENCE,
        takes_nodes=True,
    ),
    Reason.NODE_TAKEN: ReasonRow("a node's machine told it to stop", State.FAILED, Retry.FREE),
    Reason.PREEMPTED: ReasonRow(
        "nodes were taken away: by the cluster for another job, or because their machine leaves",
        State.FAILED,
        Retry.FREE,
        takes_nodes=True,
        recurs_within=timedelta(minutes=1),
    ),
    Reason.OUT_OF_MEMORY: ReasonRow(
        "a node reached its memory limit",
        State.FAILED,
        Retry.OWN,
        "Request more memory (options: [--mem=…] of a slurm compute), or use a smaller batch or model.",
        takes_nodes=True,
        code=137,
    ),
    Reason.NODES_FAILED: ReasonRow(
        "the nodes ended on their own before the job did",
        State.FAILED,
        Retry.OWN,
        "Check that every node has the compute's `python` (3.11 or newer) and sees its `folder` at the same path.",
        takes_nodes=True,
    ),
    Reason.KEEPER_LOST: ReasonRow(
        "the process that held a node's ranks was lost, or ended them because the node's agent stayed away",
        State.FAILED,
        Retry.OWN,
        evidence=Evidence.SILENCE,
    ),
    Reason.MACHINE_RESTARTED: ReasonRow(
        "a node's machine was restarted while ranks ran on it",
        State.FAILED,
        Retry.FREE,
        evidence=Evidence.SILENCE,
    ),
    Reason.RANKS_HUNG: ReasonRow(
        "the ranks hung, and the job restarts them (on_hang: restart)",
        State.FAILED,
        Retry.OWN,
        "Look at the stacks in the job's folder `hangs`: the rank that is named kept the others waiting.",
    ),
    Reason.RENDEZVOUS_TIMED_OUT: ReasonRow(
        "ranks waited at the rendezvous for others, which did not arrive in time (rendezvous_timeout_s)",
        State.FAILED,
        Retry.OWN,
        "Look at what the ranks that are named do before init_process_group: the stacks are in the job's folder "
        "`hangs`. If every rank waits there, check that node 0 can be reached from the other nodes.",
    ),
    Reason.NODES_REFUSED: ReasonRow("the engine refused to start the nodes", State.FAILED),
    Reason.SHARE_MISSING: ReasonRow(
        "a machine lacks a share of its compute, or the checkpoints that the job continues from; it isn't used for "
        "this job any more",
        State.FAILED,
        Retry.FREE,
        "Mount the share on that machine, or take it out of the compute: drumbeat compute show NAME. Checkpoints on "
        "the disks of machines are found on those machines alone.",
        takes_nodes=True,
        recurs_within=timedelta(),
    ),
    Reason.NODE_UNUSABLE: ReasonRow(
        "a machine can't take part: its disk takes nothing, or it reaches no other node; it isn't used for this job "
        "any more",
        State.FAILED,
        Retry.FREE,
        "Repair that machine. The measurements of the nodes: drumbeat compute check NAME.",
        takes_nodes=True,
        recurs_within=timedelta(),
    ),
    Reason.TOO_BIG: ReasonRow(
        "the job needs more than its compute can ever provide",
        State.FAILED,
        advice="Request fewer nodes or devices, or use another compute.",
    ),
    Reason.TRIALS_FAILED: ReasonRow(
        "no trial of the sweep completed",
        State.FAILED,
        advice="Look at one of them: drumbeat sweep trials SWEEP, then drumbeat logs TRIAL.",
        is_final=True,
    ),
    Reason.STEP_FAILED: ReasonRow(
        "a step of the pipeline did not complete",
        State.FAILED,
        advice="Look at that step's logs: drumbeat logs PIPELINE.",
        is_final=True,
    ),
    Reason.REPLICAS_FAILED: ReasonRow(
        "the replicas of the deployment failed before any of them was ready",
        State.FAILED,
        advice="Look at a replica's log: drumbeat logs REPLICA. Then update the deployment.",
        is_final=True,
    ),
}

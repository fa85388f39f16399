"""What the states and reasons of a job mean: the tables that everything else reads.

A reason decides the state and the class of retry, never the other way round. A word of an engine that isn't here
moves nothing; it is kept as `observed`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from drumbeat.protocol.states import Reason, Retry, State

MOVES: dict[State, frozenset[State]] = {
    State.QUEUED: frozenset({State.PROVISIONING, State.CANCELED, State.FAILED}),
    # Before the ranks run there is nothing to stop or to keep, unless an earlier round left results.
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
"""From each state, where a job can go."""


class Evidence(StrEnum):
    """What a reason rests on. Better evidence replaces weaker evidence while a job is stopping."""

    STATED = "stated"
    """A person, an engine, an agent or the server has stated it."""
    RANKS = "ranks"
    """It was concluded from how the ranks ended; later exits can change the conclusion."""
    SILENCE = "silence"
    """A node or its keeper is gone. The engine may still state the cause."""


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
    code: int | None = None
    """The exit code of `drumbeat run`, None = the failed rank's own, else 1."""


REASONS: dict[Reason, ReasonRow] = {
    Reason.ACCEPTED: ReasonRow("written down, not looked at yet"),
    Reason.WAITING_FOR_SLOTS: ReasonRow("the compute has too few free slots"),
    Reason.WAITING_FOR_TURN: ReasonRow("jobs before this one come first"),
    Reason.REPLACING_NODES: ReasonRow("a node is gone; the job goes back to the queue for a new set"),
    Reason.IN_QUEUE: ReasonRow("the nodes are asked for, and the cluster's own queue hasn't given them yet"),
    Reason.STARTING_NODES: ReasonRow("the engine is starting an agent on every node"),
    Reason.PREPARING_NODES: ReasonRow("code, inputs and environment are being brought to every node"),
    Reason.RESTARTING_RANKS: ReasonRow("the ranks start again on the nodes they have"),
    Reason.RANKS_RUNNING: ReasonRow("every rank has been started"),
    Reason.KEEPING_RESULTS: ReasonRow("outputs and the rest of the logs are being kept"),
    Reason.FINISHED: ReasonRow("every rank ended with exit code 0", State.COMPLETED),
    Reason.CANCEL_REQUESTED: ReasonRow("a person asked for it", State.CANCELED, code=130),
    Reason.CANCELED_OUTSIDE: ReasonRow("somebody canceled it in the cluster itself", State.CANCELED, code=130),
    Reason.TIMED_OUT: ReasonRow(
        "the job's time limit was reached",
        State.FAILED,
        advice="Raise limits.timeout, or make the job shorter.",
        is_final=True,
        code=124,
    ),
    Reason.RANK_FAILED: ReasonRow(
        "a rank ended with an error",
        State.FAILED,
        Retry.OWN,
        "Mend the error that ends its log, then run the job again.",
        evidence=Evidence.RANKS,
    ),
    Reason.RANK_KILLED: ReasonRow(
        "a rank was ended by a signal",
        State.FAILED,
        Retry.OWN,
        "If nobody sent it, look at the machine's memory: the kernel ends the largest process when memory runs out.",
        evidence=Evidence.RANKS,
    ),
    Reason.RANK_LEFT_EARLY: ReasonRow(
        "a rank ended with exit code 0 while the others still needed it",
        State.FAILED,
        Retry.OWN,
        "Every rank must take the same number of steps: look for a loop or a shard of data that is shorter there.",
        evidence=Evidence.RANKS,
    ),
    Reason.RANK_COULD_NOT_START: ReasonRow(
        "a rank's process could not be started", State.FAILED, Retry.OWN, evidence=Evidence.RANKS
    ),
    Reason.BAD_COMMAND: ReasonRow(
        "the command itself is wrong",
        State.FAILED,
        advice="Try the command by hand in the code folder; trying it again here would end the same way.",
        evidence=Evidence.RANKS,
    ),
    Reason.STAGING_FAILED: ReasonRow(
        "a node could not be made ready: code, an input, its environment or the job's preparation", State.FAILED
    ),
    Reason.OUT_OF_REACH: ReasonRow(
        "what a node needs to be made ready could not be reached: a store, or an index of packages",
        State.FAILED,
        Retry.LATER,
        "See that it is up and that the nodes and the server reach it, then run the job again.",
    ),
    Reason.ENVIRONMENTS_DIFFER: ReasonRow(
        "the nodes don't have the same Python and packages",
        State.FAILED,
        advice="Give the job an environment whose versions are pinned, or install the same on every node.",
    ),
    Reason.RESULTS_LOST: ReasonRow(
        "the ranks were done, but their outputs could not be kept", State.FAILED, is_final=True
    ),
    Reason.NODE_LOST: ReasonRow(
        "a node is gone", State.FAILED, Retry.FREE, evidence=Evidence.SILENCE, takes_nodes=True
    ),
    Reason.NODE_UNHEARD: ReasonRow(
        "a node was started, and its agent has never called the server",
        State.FAILED,
        Retry.FREE,
        "See that the nodes reach the server by TCP: a firewall, or another of its addresses (server_address of the "
        "compute). What the agent tried is in agent.log in its folder on the node.",
        evidence=Evidence.SILENCE,
        takes_nodes=True,
    ),
    Reason.NODE_TAKEN: ReasonRow("its machine told a node to stop", State.FAILED, Retry.FREE),
    Reason.PREEMPTED: ReasonRow(
        "the cluster took the nodes away for somebody else", State.FAILED, Retry.FREE, takes_nodes=True
    ),
    Reason.OUT_OF_MEMORY: ReasonRow(
        "a node's memory limit was reached",
        State.FAILED,
        Retry.OWN,
        "Ask for more memory (options: [--mem=…] of a slurm compute), or make batches or the model smaller.",
        takes_nodes=True,
        code=137,
    ),
    Reason.NODES_FAILED: ReasonRow(
        "the nodes ended by themselves before the job did",
        State.FAILED,
        Retry.OWN,
        "See that every node has the compute's `python` (3.11 or newer) and sees its `folder` under the same path.",
        takes_nodes=True,
    ),
    Reason.KEEPER_LOST: ReasonRow(
        "the process that held a node's ranks is gone", State.FAILED, Retry.OWN, evidence=Evidence.SILENCE
    ),
    Reason.NODES_REFUSED: ReasonRow("the engine refused to start the nodes", State.FAILED),
    Reason.TOO_BIG: ReasonRow(
        "the job asks for more than its compute will ever have",
        State.FAILED,
        advice="Ask for fewer nodes or devices, or name another compute.",
    ),
}

"""Judges rounds, attempts and jobs: gives the verdict that says why one is stopped, or has ended.

What the exits and logs of failed ranks mean is judged in `core/diagnosis/blame.py`.
"""

from __future__ import annotations

from dataclasses import replace

from drumbeat.core.diagnosis import blame, shutdown_deaths
from drumbeat.core.end_verdict import Verdict
from drumbeat.core.lifecycle.events import CancelRequested, Loss, NodeDeparture, NodeLost
from drumbeat.core.lifecycle.job import Job
from drumbeat.core.lifecycle.node_statuses import Mark
from drumbeat.core.reason_table import REASONS
from drumbeat.launchers import world_size
from drumbeat.model.plurals import counted
from drumbeat.model.states import Reason


def for_reason(reason: Reason, sentence: str, *, node: int | None = None) -> Verdict:
    """Gives the verdict with the exit code and the advice of its reason."""
    row = REASONS[reason]
    is_own = reason is Reason.OUT_OF_MEMORY
    return Verdict(reason, sentence, node=node, code=row.code, advice=row.advice, is_own=is_own)


def finished(job: Job) -> Verdict:
    """Judges a round whose workers have all exited 0, or died after their programs had ended well."""
    ended, late = counted(len(job.plan.workers), "rank"), shutdown_deaths.describe_deaths(job.exits)
    ended += f" ended well, but {late}" if late else " ended with exit code 0"
    return for_reason(Reason.FINISHED, ended + _describe_wrong_world(job, "but"))


def has_finished(job: Job) -> bool:
    """Tells whether every worker had exited 0 before it was stopped, on nodes that are all there."""
    return not job.lost and job.are_all_workers_well


def growing(job: Job, nodes: int, why: str = "") -> Verdict:
    """Judges a round that ends so that the next attempt has more nodes: it is no failure."""
    return for_reason(Reason.RESIZING, f"the job grows from {job.plan.nodes} to {counted(nodes, 'node')}{why}")


def failed(job: Job) -> Verdict:
    """Judges a round in which at least one rank failed."""
    cause = blame.verdict(job.exits, job.plan.world_size, job.plan.names)
    return replace(cause, sentence=cause.sentence + _describe_wrong_world(job, "and"))


def _describe_wrong_world(job: Job, joined_by: str) -> str:
    """Repeats at the end that the number of ranks wasn't the intended one; "" = it was."""
    remarks = ((node, one) for node, status in enumerate(job.nodes) if status for one in status.messages)
    apart = (f"; {joined_by} on node {node} {one.sentence}" for node, one in remarks if one.subject == world_size.ABOUT)
    return next(apart, "")


REASON_OF_LOSS: dict[Loss, Reason] = {
    Loss.LOST: Reason.NODE_LOST,
    Loss.UNHEARD: Reason.NODE_UNHEARD,
    Loss.PREEMPTED: Reason.PREEMPTED,
    Loss.TIMED_OUT: Reason.TIMED_OUT,
    Loss.CANCELED: Reason.CANCELED_OUTSIDE,
    Loss.OUT_OF_MEMORY: Reason.OUT_OF_MEMORY,
    Loss.FAILED: Reason.NODES_FAILED,
}
"""The reason that each kind of loss is for a job."""


def by_loss(event: NodeLost) -> Verdict:
    """Judges a lost node by the status that its engine gives."""
    sentence = f"node {event.node} is gone: {event.sentence}" if event.cause is Loss.LOST else event.sentence
    return for_reason(REASON_OF_LOSS[event.cause], sentence, node=event.node)


def lost(job: Job) -> Verdict | None:
    """Judges a round in which a supervisor died with its ranks, alone or with its machine, or has ended them because
    its agent didn't come back.

    None = there is no such node, or a rank has a failure of its own.
    """
    if not job.statuses.count(Mark.LOST):
        return None
    statuses = (one for node, one in enumerate(job.nodes) if one and node not in job.lost)
    status = next((one for one in statuses if one.lost and one.round == job.round), None)
    own = [(node, one) for node, one in job.exits if one.is_failure and not one.is_stopped]
    if status is None or (own and not blame.is_guess(own)):
        return None
    node = status.member.node
    if status.is_restarted:
        sentence = f"the machine of node {node} was restarted, and its ranks are gone"
        return for_reason(Reason.MACHINE_RESTARTED, sentence, node=node)
    abandoned = f"node {node} was without its agent for longer than lost_after_s, so its supervisor ended the ranks"
    sentence = abandoned if status.is_abandoned else f"the supervisor of node {node} is gone, and its ranks with it"
    return for_reason(Reason.KEEPER_LOST, sentence, node=node)


def taken(node: int) -> Verdict:
    """Judges a node that something other than drumbeat told to stop."""
    sentence = f"node {node} was told to stop (SIGTERM), and not by drumbeat"
    return for_reason(Reason.NODE_TAKEN, sentence, node=node)


def leaving(event: NodeDeparture) -> Verdict:
    """Judges a node whose machine is about to leave."""
    return for_reason(Reason.PREEMPTED, f"node {event.node} is taken away: {event.sentence}", node=event.node)


def timed_out(job: Job) -> Verdict:
    """Judges a job that has reached its time limit."""
    return for_reason(Reason.TIMED_OUT, f"the time limit of {job.policy.timeout_s or 0.0:.12g} s was reached")


def canceled(event: CancelRequested) -> Verdict:
    """Judges a job that a user canceled."""
    return for_reason(Reason.CANCEL_REQUESTED, f"canceled by {event.by}")

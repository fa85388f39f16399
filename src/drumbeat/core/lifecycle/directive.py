"""Computes what the agent of a node should be doing now: a pure function of the job, so that no command is lost."""

from __future__ import annotations

from drumbeat.core.lifecycle.job import Job
from drumbeat.core.reason_table import REASONS
from drumbeat.model.agent import Directive, Order
from drumbeat.model.states import State

_ORDERS = {
    State.PROVISIONING: Order.PREPARE,
    State.STAGING: Order.PREPARE,
    State.RUNNING: Order.RUN,
    State.STOPPING: Order.STOP,
    State.FINALIZING: Order.UPLOAD,
}


def directive(job: Job, *, is_kept: bool = False) -> Directive:
    """Returns the directive for every node of the attempt; a job that is waiting or has ended needs no agent.

    is_kept: whether its nodes wait for another job. Their agents have done what `UPLOAD` says, and go on waiting.
    """
    order = Order.UPLOAD if is_kept and job.state.is_terminal else _ORDERS.get(job.state, Order.LEAVE)
    roster = job.roster if order is Order.RUN else None
    is_canceled = job.verdict is not None and REASONS[job.verdict.reason].ends is State.CANCELED
    return Directive(order, job.attempt, job.round, roster, job.plan.grace_s, is_canceled=is_canceled)

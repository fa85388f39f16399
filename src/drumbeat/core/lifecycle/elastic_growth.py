"""How elastic jobs grow: rows of the table in state_machine.py, which says when.

A job shrinks because it has lost nodes, and nothing here is needed for that: `ending.py` queues it again, and its next
attempt takes the nodes that `core/scheduling/scheduler.py` finds. It grows by ending its round well and starting an
attempt on more nodes. When it grows is the job's key `grow`, with a default in `jobfile/job/timeouts_and_retries.py`.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from drumbeat.core.lifecycle import ending, verdict_rules
from drumbeat.core.lifecycle.events import CheckpointSaved, Decision, GrowthPossible, JobEvent
from drumbeat.core.lifecycle.job import Job
from drumbeat.core.reason_table import REASONS
from drumbeat.core.scheduling.elastic_sizes import resized
from drumbeat.core.scheduling.resource_needs import Slot
from drumbeat.model.plan import Elastic, Growth, Plan
from drumbeat.model.plurals import counted
from drumbeat.model.states import Reason, State

FIRST_PAUSE = timedelta(seconds=5)
"""How long a job doesn't grow after it has lost nodes; twice as long after each further loss."""
MAX_PAUSE = timedelta(minutes=10)
MAX_DOUBLINGS = 8

_GROWTH = "growth"
"""The subject of the message that there are nodes to grow to."""


def may_grow(job: Job, now: datetime) -> bool:
    """Tells whether a job takes more nodes now, if there are any.

    Not while its ranks end, and not soon after it has lost nodes: a machine that fails again and again would end its
    round each time.
    """
    elastic = job.plan.elastic
    if elastic is None or job.plan.nodes >= elastic.max_nodes:
        return False
    if job.state is not State.RUNNING or job.judge_at or job.exits or job.lost:
        return False
    losses = [one for one in job.failures if REASONS[one.verdict.reason].takes_nodes]
    if not losses:
        return True
    pause = FIRST_PAUSE * 2 ** min(len(losses) - 1, MAX_DOUBLINGS)
    return now - losses[-1].at >= min(pause, MAX_PAUSE)


def decide(job: Job, event: GrowthPossible | CheckpointSaved, now: datetime) -> Decision:
    """Gives the job after an event that may change its number of nodes; nothing while it may not grow."""
    if job.plan.elastic is None or event.attempt != job.attempt or not may_grow(job, now):
        return Decision(job)
    if isinstance(event, CheckpointSaved):
        return _checkpoint_saved(job, event, now)
    return _growth_possible(job, job.plan.elastic, event, now)


def _growth_possible(job: Job, elastic: Elastic, event: GrowthPossible, now: datetime) -> Decision:
    """Notes how many nodes the job could have, and takes them now or after its next checkpoint."""
    if event.nodes <= job.plan.nodes:
        return Decision(replace(job, growth=0))
    if elastic.grow is Growth.AT_ONCE:
        return ending.stop(replace(job, growth=event.nodes), verdict_rules.growing(job, event.nodes), now)
    noted = replace(job, growth=event.nodes)
    if _GROWTH in job.reported_subjects:
        return Decision(noted)
    free = event.nodes - job.plan.nodes
    sentence = (
        f"{counted(free, 'more node')} {'is' if free == 1 else 'are'} free: the job grows from {job.plan.nodes} to "
        f"{counted(event.nodes, 'node')} after its next checkpoint"
    )
    line = JobEvent(now, job.state, job.reason, sentence, job.attempt, job.round)
    return Decision(replace(noted, reported_subjects=(*job.reported_subjects, _GROWTH)), (), (line,))


def _checkpoint_saved(job: Job, event: CheckpointSaved, now: datetime) -> Decision:
    """Takes more nodes, if there are any, now that little work is lost by it."""
    if event.round != job.round or job.growth <= job.plan.nodes:
        return Decision(job)
    return ending.stop(
        job, verdict_rules.growing(job, job.growth, f" after the checkpoint of step {event.step:,}"), now
    )


def granted(job: Job, slots: tuple[Slot, ...]) -> tuple[Plan, str]:
    """Returns the plan of the attempt with these slots, and the message on its size."""
    plan = resized(job.plan, len(slots))
    return plan, _describe_placement(job, plan)


def _describe_placement(job: Job, plan: Plan) -> str:
    plain = f"{counted(plan.nodes, 'node')} granted on {plan.compute}"
    if plan.elastic is None:
        return plain
    before, wanted = job.plan.nodes, plan.elastic.nodes
    if job.attempt and plan.nodes > before:
        return f"{plain}: the job grows from {before} to {plan.nodes}"
    if job.attempt and plan.nodes < before:
        return f"continues with {plan.nodes} of {counted(before, 'node')}{_describe_cause(job)}; {plain}"
    if plan.nodes != wanted:
        return f"{plain}; the job asks for {wanted} and runs on {plan.elastic.min_nodes} to {plan.elastic.max_nodes}"
    return plain


def _describe_cause(job: Job) -> str:
    """Says why the last attempt ended, where the loss of a node ended it."""
    last = job.failures[-1] if job.failures else None
    if last is None or last.attempt != job.attempt or last.verdict.node is None:
        return ""
    what = "taken away" if last.verdict.reason is Reason.PREEMPTED else "lost"
    return f": node {last.verdict.node} was {what}"

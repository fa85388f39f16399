"""Conditions of a job: when one that its nodes have met ends it, and when one is a notice.

Rows of the table in state_machine.py. What meets a condition is decided on each node (`node/metrics/conditions.py`,
`node/agent/idle_watch.py`), and read from the file by `jobfile/job/conditions.py`.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from drumbeat.core.end_verdict import Verdict
from drumbeat.core.lifecycle import verdict_rules
from drumbeat.core.lifecycle.events import Decision, JobEvent, StatusReported
from drumbeat.core.lifecycle.job import Job
from drumbeat.core.reason_table import REASONS
from drumbeat.model.agent import AgentStatus
from drumbeat.model.conditions import ConditionAction, ConditionState, JobCondition
from drumbeat.model.states import Reason, State

MAX_NOTICES = 10
"""How often one condition is told in an attempt: a curve that swings about a limit crosses it again and again."""


def verdict(job: Job) -> Verdict | None:
    """Returns why a condition ends the job; None = no condition does."""
    for number, condition in enumerate(job.plan.conditions):
        if condition.action is ConditionAction.STOP and (state := _met_state(job, number, condition)):
            return verdict_rules.for_reason(Reason.STOPPED_EARLY, f"stopped early: {state.sentence}")
    return None


def outranking(job: Job) -> Verdict | None:
    """Returns the verdict of a condition that takes the place of the one for which the job is being stopped.

    A failure doesn't start the job again that was to end anyway: ranks may fail over the very value that met the
    condition, or because those of another node were stopped already.
    """
    if job.verdict is None or job.lost or not job.plan.conditions:
        return None
    row = REASONS[job.verdict.reason]
    is_followed = job.verdict.reason is Reason.RESIZING or (row.ends is State.FAILED and not row.is_final)
    return verdict(job) if is_followed else None


def add_notices(job: Job, event: StatusReported, now: datetime) -> Decision:
    """Returns the job with what is to be told of conditions that a node has just met; the node's status isn't taken."""
    if not event.status.conditions:
        return Decision(job)
    after = job.with_node(event.node, event.status)
    kept, lines, notices = job, list[JobEvent](), list[str]()
    for state in event.status.conditions:
        condition = _condition(job, state)
        if condition is None or condition.action is not ConditionAction.NOTIFY:
            continue
        if not _has_become_true(job, after, event.node, state, condition):
            continue
        subject = f"condition {state.condition}"
        count = kept.reported_subjects.count(subject) + 1
        if count > MAX_NOTICES:
            continue
        kept = replace(kept, reported_subjects=(*kept.reported_subjects, subject))
        last = "" if count < MAX_NOTICES else f"; this is told for the {MAX_NOTICES}th and last time"
        sentence = f"{state.sentence}{_before_end(job, condition)}{last}"
        notices.append(sentence)
        lines.append(JobEvent(now, job.state, job.reason, f"notify_when: {sentence}", job.attempt, job.round))
    return Decision(kept, (), tuple(lines), tuple(notices))


def _before_end(job: Job, condition: JobCondition) -> str:
    """Returns, for the warning before an idle job ends, when that is; "" = it is no warning."""
    ends = (one for one in job.plan.conditions if one.action is ConditionAction.STOP and one.kind is condition.kind)
    end = next((one for one in ends if condition.is_warning_of(one)), None)
    return f"; it ends in {end.lasting_s - condition.lasting_s:.0f} s unless it is used" if end else ""


def _has_become_true(before: Job, after: Job, node: int, state: ConditionState, condition: JobCondition) -> bool:
    if condition.is_everywhere:
        return bool(_met_state(after, state.condition, condition)) and not _met_state(
            before, state.condition, condition
        )
    earlier = _state(before.nodes[node], state.condition)
    has_news = state.times > (earlier.times if earlier else 0)
    others = (one for number, one in enumerate(before.nodes) if number != node)
    return has_news and not any(other.is_met for one in others if (other := _state(one, state.condition)))


def _met_state(job: Job, number: int, condition: JobCondition) -> ConditionState | None:
    """Returns the state by which the job meets a condition; None = it doesn't, or not any more.

    One that ends the job does so even if the value has changed meanwhile.
    """
    states = (_state(one, number) for one in job.nodes)
    if condition.is_everywhere:
        of_nodes = list(states)
        return of_nodes[0] if of_nodes and all(one is not None and one.is_met for one in of_nodes) else None
    return next((one for one in states if one is not None and one.times), None)


def _state(status: AgentStatus | None, number: int) -> ConditionState | None:
    return next((one for one in status.conditions if one.condition == number), None) if status else None


def _condition(job: Job, state: ConditionState) -> JobCondition | None:
    return job.plan.conditions[state.condition] if 0 <= state.condition < len(job.plan.conditions) else None

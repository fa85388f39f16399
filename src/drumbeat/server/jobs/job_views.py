"""Converts jobs of the core to views of the API."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from drumbeat.core.child_jobs import trial_name
from drumbeat.core.diagnosis.aftermath import aftermath
from drumbeat.core.end_verdict import Verdict
from drumbeat.core.lifecycle.exit_code import exit_code
from drumbeat.core.lifecycle.hang_response import slow_subject
from drumbeat.core.lifecycle.job import Job
from drumbeat.core.lifecycle.output_publication import output_progress
from drumbeat.core.lifecycle.sweep import leading_trial
from drumbeat.launchers.services import is_web, services_on
from drumbeat.model.api.jobs import (
    BestTrialView,
    EventView,
    ExitView,
    FailureView,
    JobView,
    JobWithEvents,
    NodeView,
    ObservedView,
    OutputView,
    VerdictView,
)
from drumbeat.model.api.metrics import NotFiniteView, PrimaryView
from drumbeat.model.api.sessions import ServiceView
from drumbeat.model.metrics import value_to_json
from drumbeat.model.states import State
from drumbeat.server.jobs.preflight_view import preflight_view

if TYPE_CHECKING:
    from collections.abc import Iterator

    from drumbeat.core.lifecycle.events import JobEvent
    from drumbeat.model.metrics import MetricHighlights, PrimarySeries
    from drumbeat.server.database.records import Record


MAX_LISTED_NODES = 256
"""A list has no nodes of jobs with more."""


def job_view(record: Record, notice: str = "", metrics: MetricHighlights | None = None) -> JobView:
    """Returns a stored job as the API shows it."""
    return JobView(**_facts(record), **_highlights(metrics), notice=notice)


def listed_job(record: Record, notice: str = "", metrics: MetricHighlights | None = None) -> JobView:
    """Returns a job as lists show it: of thousands of nodes, a list has none."""
    facts = _facts(record, has_nodes=record.job.plan.nodes <= MAX_LISTED_NODES)
    return JobView(**facts, **_highlights(metrics), notice=notice)


def job_with_events(
    record: Record, events: list[JobEvent], notice: str, metrics: MetricHighlights | None = None
) -> JobWithEvents:
    """Returns a stored job with its events."""
    lines = tuple(event_lines(events))
    facts: dict[str, Any] = {**_facts(record), **_highlights(metrics), "preflight": preflight_view(record.job)}
    return JobWithEvents(**facts, notice=notice, story=lines)


def _highlights(metrics: MetricHighlights | None) -> dict[str, Any]:
    if metrics is None:
        return {}
    lost = metrics.not_finite
    return {
        "primary": _primary(metrics.primary) if metrics.primary else None,
        "not_finite": NotFiniteView(lost.name, str(value_to_json(lost.value)), lost.step) if lost else None,
    }


def _primary(one: PrimarySeries) -> PrimaryView:
    last, best = one.series.last, one.best
    value, step = (best.value, best.step) if best else (None, None)
    return PrimaryView(last.name, value_to_json(last.value), last.step, one.goal, value, step, one.source)


def event_lines(events: list[JobEvent], after: int = 0) -> list[EventView]:
    """Returns the events after the first `after`, as the API shows them."""
    return [
        EventView(n, line.at, line.state, line.reason, line.sentence, line.attempt, line.round)
        for n, line in enumerate(events[after:], after + 1)
    ]


def _facts(record: Record, *, has_nodes: bool = True) -> dict[str, Any]:
    job, plan, seen = record.job, record.job.plan, record.job.observed
    return {
        "name": job.name, "display_name": job.display_name, "description": job.description, "tags": job.tags,
        "properties": _properties(record), "archived": record.archived, "priority": job.policy.priority,
        "state": job.state, "reason": job.reason, "sentence": job.sentence,
        "observed": ObservedView(seen.word, seen.at) if seen else None,
        "attempt": job.attempt, "round": job.round, "nodes": _nodes(job) if has_nodes else (), "outputs": _outputs(job),
        "submitted_at": job.submitted_at, "started_at": job.started_at, "ended_at": job.ended_at,
        "stop_at": job.stop_at, "deadline": job.deadline,
        "verdict": _verdict(job.verdict, aftermath(job.verdict, job.exits)) if job.verdict else None,
        "exit_code": exit_code(job),
        "failures": tuple(FailureView(one.attempt, one.round, one.at, _verdict(one.verdict)) for one in job.failures),
        "experiment": plan.experiment, "launcher": plan.launcher, "compute": plan.compute,
        "environment": plan.environment, "command": plan.command, "world_size": plan.world_size,
        "node_count": plan.nodes, "processes_per_node": plan.processes_per_node, "parent": job.parent,
        "person": job.user, "type": job.kind, "mesh": plan.mesh,
        "elastic": plan.elastic, "services": tuple(service_views(job)), "best_trial": _best_trial(job),
        "has_slow_rank": job.state is State.RUNNING and slow_subject(job) in job.reported_subjects,
    }  # fmt: skip


def _best_trial(job: Job) -> BestTrialView | None:
    best = leading_trial(job.sweep) if job.sweep else None
    if job.sweep is None or best is None or best.best is None:
        return None
    return BestTrialView(trial_name(job.name, best.number), job.sweep.metric, best.best, best.values)


def _properties(record: Record) -> dict[str, str]:
    """The properties with which the job was submitted: a user's, and the commit of its code."""
    given = record.spec.get("properties")
    table = cast("dict[object, object]", given) if isinstance(given, dict) else {}
    return {str(key): str(value) for key, value in table.items()}


def _verdict(one: Verdict, others: str = "") -> VerdictView:
    return VerdictView(one.reason, one.sentence, one.rank, one.node, one.code, one.tail, one.advice, others)


def _outputs(job: Job) -> tuple[OutputView, ...]:
    types = {one.name: one.type for one in job.plan.outputs}
    return tuple(
        OutputView(
            done.output, one.place, done.uri, done.asset, done.files, done.size, one.problem, types.get(done.output, "")
        )
        for one in output_progress(job)
        for done in (one.published,)
    )


def service_views(job: Job) -> Iterator[ServiceView]:
    """Yields the services of each node, as its agent last reported them."""
    for node in range(job.plan.nodes if job.plan.services else 0):
        status = job.nodes[node] if node < len(job.nodes) else None
        is_there = status is not None and status.round == job.round and not job.state.is_terminal
        reported = {one.name: one for one in status.services} if status and is_there else {}
        for service in services_on(job.plan, node):
            one = reported.get(service.name)
            yield ServiceView(
                service.name, service.type, node, is_running=bool(one and one.is_running),
                problem=one.problem if one else "", is_web=is_web(service),
            )  # fmt: skip


def _nodes(job: Job) -> tuple[NodeView, ...]:
    machines = {slot.node: slot.machine for slot in job.slots}
    return tuple(_node(job, node, machines.get(node, "")) for node in range(max(len(job.nodes), len(machines))))


def _node(job: Job, node: int, machine: str) -> NodeView:
    status = job.nodes[node] if node < len(job.nodes) else None
    if status is None:
        return NodeView(node, machine, lost=node in job.lost)
    return NodeView(
        node, machine, status.member.host, status.member.address, status.phase, status.detail, status.error,
        lost=status.lost or node in job.lost,
        exits=tuple(ExitView(one.rank, one.code, one.signal, one.at) for one in status.exits),
    )  # fmt: skip

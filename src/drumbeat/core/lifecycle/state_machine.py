"""The whole life of a job: decide(job, event, now) returns the job as it is now, what to do, and the job's new events.

A pure function over a table. An event that has no row for the job's state changes nothing; that is how late, doubled
and stale messages are harmless.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from drumbeat.core.diagnosis import blame, node_differences, preflight
from drumbeat.core.diagnosis.preflight import PreflightVerdict
from drumbeat.core.lifecycle import (
    deployment,
    early_end,
    elastic_growth,
    ending,
    hang_response,
    labels,
    output_publication,
    pipeline,
    sweep,
    verdict_rules,
)
from drumbeat.core.lifecycle.events import (
    CancelRequested,
    CheckpointSaved,
    Decision,
    Event,
    GangObserved,
    GangRefused,
    GrowthPossible,
    JobEvent,
    JudgeDue,
    LabelsChanged,
    NeverFits,
    NodeDeparture,
    NodeLost,
    NodesNotConnected,
    OutputHeldUp,
    OutputPublished,
    Placed,
    PlacementDeferred,
    ReplicaSteady,
    RetryDue,
    StallObserved,
    StartGang,
    StatusReported,
    TimeUp,
    ValueLogged,
)
from drumbeat.core.lifecycle.job import Job, Observed
from drumbeat.core.lifecycle.node_statuses import Mark, when_ended
from drumbeat.core.lifecycle.transitions import is_same_trouble, move, then
from drumbeat.core.lifecycle.unusable_machines import checked_nodes, give_up
from drumbeat.model.agent import Phase
from drumbeat.model.plurals import counted
from drumbeat.model.roster import Roster
from drumbeat.model.states import Reason, State

JUDGE_AFTER = timedelta(seconds=5)
"""The delay before ranks that miss a peer are stopped. A launcher needs up to 1 s to notice that its process is gone
(`ray start` looks once a second), and longer on a busy node. Stopped earlier, it wouldn't report why."""

_PREEMPTION = "preemption"
"""The subject of the message that the nodes will be taken away."""

_PREFLIGHT = "pre-flight"
"""The subject of the message with the pre-flight's verdict."""

_OF_AN_ATTEMPT = GangObserved | NodesNotConnected | GangRefused | StatusReported | NodeLost | NodeDeparture
"""Events that count for the attempt that they name only."""


def decide(job: Job, event: Event, now: datetime) -> Decision:  # noqa: C901, PLR0915 (the table: one row a case)
    """Gives the job after the event. Raises ValueError for a move that MOVES doesn't hold: a defect."""
    if isinstance(event, LabelsChanged):
        return labels.changed(job, event, now)
    if job.pipeline:
        return pipeline.decide(job, job.pipeline, event, now)
    if job.deployment:
        return deployment.decide(job, job.deployment, event, now)
    is_of_outputs = job.state.is_terminal and isinstance(event, OutputPublished | OutputHeldUp | CancelRequested)
    if job.sweep and not is_of_outputs:
        return sweep.decide(job, job.sweep, event, now)
    if isinstance(event, _OF_AN_ATTEMPT) and event.attempt != job.attempt:
        return Decision(job)
    if isinstance(event, StatusReported) and _is_old_news(job, event):
        return Decision(job)
    if (
        isinstance(event, StatusReported)
        and not job.state.is_terminal
        and (reported := _with_messages(job, event, now)).events
    ):
        return then(reported, decide(reported.job, event, now))
    if isinstance(event, GrowthPossible | CheckpointSaved):
        return elastic_growth.decide(job, event, now)
    if isinstance(event, NodeDeparture):
        return _node_leaving(job, event, now)
    match job.state, event:
        case State.QUEUED, PlacementDeferred():
            return move(job, now, State.QUEUED, event.reason, event.sentence)
        case State.QUEUED, Placed():
            return _granted(job, event, now)
        case State.QUEUED, NeverFits():
            return ending.end(replace(job, verdict=verdict_rules.for_reason(event.reason, event.sentence)), now)
        case ((State.QUEUED | State.STAGING), RetryDue()) if job.retry_at:
            return _retry_due(job, now)
        case ((State.QUEUED | State.PROVISIONING | State.STAGING), TimeUp()) if job.deadline:
            return _time_up(job, now)
        case State.QUEUED, CancelRequested():
            return ending.end(replace(job, verdict=verdict_rules.canceled(event)), now)
        case State.PROVISIONING, GangRefused():
            return ending.stop(job, verdict_rules.for_reason(Reason.NODES_REFUSED, event.sentence), now)
        case State.PROVISIONING, NodesNotConnected() if event.sentence != job.sentence:
            return move(job, now, State.PROVISIONING, Reason.STARTING_NODES, event.sentence)
        case ((State.PROVISIONING | State.STAGING), StatusReported()):
            return _agent_preparing(job, event, now)
        case State.RUNNING, StatusReported():
            noticed = early_end.add_notices(job, event, now)
            return then(noticed, _agent_running(noticed.job, event, now))
        case State.RUNNING, ValueLogged() if event.attempt == job.attempt and event.round == job.round:
            return _training(job, event, now)
        case State.RUNNING, ReplicaSteady() if (event.attempt, event.round) == (job.attempt, job.round):
            return _steady(job, event, now)
        case State.RUNNING, StallObserved() if (event.attempt, event.round) == (job.attempt, job.round):
            return hang_response.seen(job, event, now)
        case State.RUNNING, TimeUp():
            return _time_up(job, now)
        case State.RUNNING, JudgeDue() if job.judge_at:
            return ending.stop(job, verdict_rules.failed(job), now)
        case ((State.PROVISIONING | State.STAGING | State.RUNNING), NodeLost()):
            return _node_lost(job, event, now)
        case ((State.PROVISIONING | State.STAGING | State.RUNNING), CancelRequested()):
            return ending.stop(job, hang_response.with_hang(verdict_rules.canceled(event), job), now)
        case State.STOPPING, StatusReported():
            return ending.stopped(job.with_node(event.node, event.status), now)
        case State.STOPPING, NodeLost():
            return ending.lost_stopping(job, event, now)
        case State.STOPPING, CancelRequested():
            return ending.cancel_stopping(job, event, now)
        case State.FINALIZING, StatusReported():
            return ending.agent_finalizing(job, event, now)
        case State.FINALIZING, CancelRequested(discard=True):
            verdict = verdict_rules.canceled(event)
            discarded = replace(verdict, sentence=f"{verdict.sentence}; results that weren't kept yet are discarded")
            return ending.end(replace(job, verdict=discarded), now)
        case State.FINALIZING, NodeLost():
            return ending.results_lost(job, event.node, event.sentence, now)
        case _, OutputPublished() if job.state.is_terminal:
            return output_publication.published(job, event.published, now)
        case _, OutputHeldUp():
            return output_publication.held_up(job, event, now)
        case _, CancelRequested(discard=True):
            return output_publication.given_up(job, event.by, now)
        case _, GangObserved() if not job.state.is_terminal:
            noticed = _noticed(job, event, now)
            return then(noticed, _gang_seen(noticed.job, event, now))
        case _:
            return Decision(job)


# --- waiting ----------------------------------------------------------------------------------------------------


def _granted(job: Job, event: Placed, now: datetime) -> Decision:
    attempt = job.attempt + 1
    plan, sentence = elastic_growth.granted(job, event.slots)
    placed = replace(
        job,
        plan=plan,
        attempt=attempt,
        node_secrets_since=job.node_secrets_since or attempt,
        round=1,
        slots=event.slots,
        nodes=(None,) * plan.nodes,
        lost=(),
        observed=None,
        roster=None,
        verdict=None,
        reported_subjects=(),
        growth=0,
        kept=0,
        retry_at=None,
        taken=event.taken,
    )
    if event.taken:
        sentence = f"{sentence}; takes over the nodes of {event.taken.job}"
    effect = StartGang(attempt, event.slots)
    return move(placed, now, State.PROVISIONING, Reason.STARTING_NODES, sentence, effect)


def _retry_due(job: Job, now: datetime) -> Decision:
    """Goes on after the wait that followed a failure: with the ranks if the nodes are ready, or in the queue."""
    due = replace(job, retry_at=None)
    if job.state is State.QUEUED:
        return move(due, now, State.QUEUED, Reason.REPLACING_NODES, "the wait is over; the job asks for nodes again")
    again = move(due, now, State.STAGING, Reason.RESTARTING_RANKS, "the wait is over; the ranks start again")
    return then(again, _if_ready(again.job, now))


# --- getting ready ----------------------------------------------------------------------------------------------
def _gang_seen(job: Job, event: GangObserved, now: datetime) -> Decision:
    if not event.is_asked:
        sentence = f"{job.plan.compute} could not be asked for nodes yet: {event.engine_status}"
        return _in_queue(job, sentence, now) if job.state is State.PROVISIONING else Decision(job)
    if job.observed and job.observed.word == event.engine_status:
        return Decision(job)
    seen = replace(job, observed=Observed(event.engine_status, now))
    if job.state is State.PROVISIONING and event.waits:
        return _in_queue(seen, f"waits in the queue of {job.plan.compute}: {event.engine_status}", now)
    if job.state is State.PROVISIONING and job.reason is Reason.IN_QUEUE:
        sentence = f"{job.plan.compute} has given the nodes: {event.engine_status}"
        return move(seen, now, State.PROVISIONING, Reason.STARTING_NODES, sentence)
    return Decision(seen)


def _in_queue(job: Job, sentence: str, now: datetime) -> Decision:
    """Has the job wait for its nodes. Schedulers count the pods of other users: a new count is no event of this job."""
    if job.reason is Reason.IN_QUEUE and is_same_trouble(job.sentence, sentence):
        return Decision(replace(job, sentence=sentence))
    return move(job, now, State.PROVISIONING, Reason.IN_QUEUE, sentence)


def _noticed(job: Job, event: GangObserved, now: datetime) -> Decision:
    """Adds an event, once an attempt, that its nodes will be taken away: the ranks have the time until then."""
    if not event.notice or _PREEMPTION in job.reported_subjects:
        return Decision(job)
    line = JobEvent(now, job.state, job.reason, event.notice, job.attempt, job.round)
    return Decision(replace(job, reported_subjects=(*job.reported_subjects, _PREEMPTION)), (), (line,))


def _agent_preparing(job: Job, event: StatusReported, now: datetime) -> Decision:
    updated = job.with_node(event.node, event.status)
    if event.status.error:
        sentence = f"node {event.node} could not be prepared: {event.status.error}"
        if event.status.is_share_missing:
            return give_up(updated, event.node, event.status.error, Reason.SHARE_MISSING, now)
        if event.status.is_unusable:
            return give_up(updated, event.node, event.status.error, Reason.NODE_UNUSABLE, now)
        reason = Reason.OUT_OF_REACH if event.status.is_transient else Reason.STAGING_FAILED
        return ending.stop(updated, verdict_rules.for_reason(reason, sentence, node=event.node), now)
    enrolled = Decision(updated)
    if updated.state is State.PROVISIONING and not updated.statuses.count(Mark.MISSING):
        sentence = f"{counted(len(updated.nodes), 'agent')} enrolled"
        enrolled = move(updated, now, State.STAGING, Reason.PREPARING_NODES, sentence)
    built = then(enrolled, _environment_building(enrolled.job, now))
    # A single agent can enrol and be ready with one status.
    return then(built, _if_ready(built.job, now))


def _environment_building(job: Job, now: datetime) -> Decision:
    """Records when nodes begin to build the environment of their ranks, and when the last one has finished."""
    has_builders = job.statuses.count(Mark.BUILDS) > 0
    is_building = job.reason is Reason.BUILDING_ENVIRONMENT
    if job.state is not State.STAGING or has_builders is is_building:
        return Decision(job)
    if is_building:
        return move(job, now, State.STAGING, Reason.PREPARING_NODES, "what the ranks run in is ready on every node")
    builder = next(number for number, status in enumerate(job.nodes) if status and status.builds_environment)
    sentence = f"node {builder} builds the environment {job.plan.environment}"
    if job.plan.container:
        sentence = f"node {builder} pulls or builds the image {job.plan.container.image}"
    return move(job, now, State.STAGING, Reason.BUILDING_ENVIRONMENT, sentence)


def _if_ready(job: Job, now: datetime) -> Decision:
    if job.retry_at or not job.are_all(Phase.READY):
        return Decision(job)
    if differs := node_differences.difference([status.member for status in job.nodes if status]):
        return ending.stop(job, verdict_rules.for_reason(Reason.ENVIRONMENTS_DIFFER, differs), now)
    if _PREFLIGHT in job.reported_subjects or not (checked := checked_nodes(job)):
        return _run(job, now)
    return _checked(job, preflight.judge(checked), now)


def _checked(job: Job, verdict: PreflightVerdict, now: datetime) -> Decision:
    """Starts the ranks after the pre-flight, with its message as an event, unless a node can't take part."""
    if verdict.isolated is not None:
        return give_up(job, verdict.isolated, verdict.sentence, Reason.NODE_UNUSABLE, now)
    if verdict.is_partitioned:
        has_tried = any(one.verdict.reason is Reason.NODE_UNUSABLE for one in job.failures)
        if job.plan.nodes == 2 and not has_tried:  # Either machine may be the cause: the job tries another pair.
            return give_up(job, 1, verdict.sentence, Reason.NODE_UNUSABLE, now)
        return ending.stop(job, verdict_rules.for_reason(Reason.STAGING_FAILED, verdict.sentence), now)
    line = JobEvent(now, job.state, job.reason, verdict.sentence, job.attempt, job.round)
    reported = replace(job, reported_subjects=(*job.reported_subjects, _PREFLIGHT))
    return then(Decision(reported, (), (line,)), _run(reported, now))


def _run(job: Job, now: datetime) -> Decision:
    members = tuple(status.member for status in job.nodes if status)
    ports = tuple(status.port for status in job.nodes if status)
    more = tuple(status.more_ports for status in job.nodes if status)
    unique_job = job.unique_name if job.unique_name != job.name else ""
    roster = Roster(job.attempt, job.round, members, ports[0] if ports else 0, ports, more, unique_job)
    started = replace(job, roster=roster, started_at=job.started_at or now)
    sentence = f"{counted(job.plan.world_size, 'rank')} started on {counted(job.plan.nodes, 'node')}"
    if job.plan.container and (image := node_differences.format_image(members)):
        sentence += f", in containers of {job.plan.container.image} ({image})"
    return move(started, now, State.RUNNING, Reason.RANKS_RUNNING, sentence)


# --- running ----------------------------------------------------------------------------------------------------
def _agent_running(job: Job, event: StatusReported, now: datetime) -> Decision:
    updated = job.with_node(event.node, event.status)
    if event.status.is_preempted:
        return ending.stop(updated, verdict_rules.taken(event.node), now)
    if event.status.conditions and not updated.are_all_workers_well and (early := early_end.verdict(updated)):
        return ending.stop(updated, early, now)
    if updated.are_workers_done:
        return ending.stop(updated, verdict_rules.finished(updated), now)
    lost = verdict_rules.lost(updated)
    if lost is not None:
        return ending.stop(updated, lost, now)
    if updated.has_failures and not (updated.has_ranks_left and _is_guess(job, event)):
        return ending.stop(updated, verdict_rules.failed(updated), now)
    if updated.has_failures:
        return _wait_for_the_first(updated, now)
    # An agent that has lost its supervisor, and can't start another, reports no exits.
    updated = replace(updated, judge_at=None)
    if updated.are_all(Phase.ENDED):
        return ending.finalize(replace(updated, verdict=verdict_rules.finished(updated)), now)
    return Decision(updated)


def _wait_for_the_first(job: Job, now: datetime) -> Decision:
    if job.judge_at:
        return Decision(job)
    lost = verdict_rules.failed(job).sentence
    sentence = f"{lost}; the rank that failed first has {JUDGE_AFTER.total_seconds():g} s to say why"
    return move(replace(job, judge_at=now + JUDGE_AFTER), now, State.RUNNING, job.reason, sentence)


def _training(job: Job, event: ValueLogged, now: datetime) -> Decision:
    """Records the first value of the round: from now on the ranks are known to work."""
    subject = hang_response.first_value_subject(job)
    if job.reason is Reason.TRAINING or subject in job.reported_subjects:
        return Decision(job)
    reported = replace(job, reported_subjects=(*job.reported_subjects, subject))
    return move(reported, now, State.RUNNING, Reason.TRAINING, event.sentence)


def _steady(job: Job, event: ReplicaSteady, now: datetime) -> Decision:
    """Forgets the failures of a replica that has served for a while: the next one is as the first."""
    if not job.failures:
        return Decision(job)
    line = JobEvent(now, job.state, job.reason, event.sentence, job.attempt, job.round)
    return Decision(replace(job, failures=()), (), (line,))


def _is_guess(job: Job, event: StatusReported) -> bool:
    """Whether no rank's exit explains the failures yet.

    Where that was so before, only the first failure among the earlier exits is read again: there may be a thousand.
    """
    if not job.judge_at:
        return blame.is_guess(job.with_node(event.node, event.status).exits)
    before = job.nodes[event.node]
    ranks = {one.rank for one in before.exits} if before and before.round == job.round else set[int]()
    exits = event.status.exits if event.status.round == job.round else ()
    new = sorted(((event.node, one) for one in exits if one.rank not in ranks), key=when_ended)
    first = job.statuses.first_failure(job.round)
    return blame.is_guess([*([first] if first else []), *new])


def _time_up(job: Job, now: datetime) -> Decision:
    if job.policy.timeout_s is None:
        return Decision(job)
    verdict = hang_response.with_hang(verdict_rules.timed_out(job), job)
    if job.state is State.QUEUED:
        return ending.end(replace(job, verdict=verdict), now)
    return ending.stop(job, verdict, now)


def _node_lost(job: Job, event: NodeLost, now: datetime) -> Decision:
    return ending.stop(job.without_node(event.node), verdict_rules.by_loss(event), now)


def _node_leaving(job: Job, event: NodeDeparture, now: datetime) -> Decision:
    if job.state in (State.PROVISIONING, State.STAGING, State.RUNNING):
        return ending.stop(job, verdict_rules.leaving(event), now)
    return ending.leaving_stopping(job, event) if job.state is State.STOPPING else Decision(job)


# --- small parts ------------------------------------------------------------------------------------------------
def _is_old_news(job: Job, event: StatusReported) -> bool:
    """Whether a later status came first: an agent has two connections, so that statuses can overtake each other."""
    latest = job.nodes[event.node] if event.node < len(job.nodes) else None
    return latest is not None and event.status.serial < latest.serial


def _with_messages(job: Job, event: StatusReported, now: datetime) -> Decision:
    """Adds the node's new messages to the events; each subject once, by the first node that reports it."""
    new = [one for one in event.status.messages if one.subject not in job.reported_subjects]
    if not new:
        return Decision(job)
    kept = replace(job, reported_subjects=(*job.reported_subjects, *(one.subject for one in new)))
    sentences = (f"node {event.node}: {one.sentence}" for one in new)
    lines = (JobEvent(now, job.state, job.reason, sentence, job.attempt, job.round) for sentence in sentences)
    return Decision(kept, (), tuple(lines))

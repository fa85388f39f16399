"""The whole life of a job: decide(job, event, now) gives the job as it is now, what to do, and the story.

A pure function over a table. An event that has no row for the job's state changes nothing; that is how late, doubled
and stale messages are harmless.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from drumbeat.core import aftermath, alike, blame, recovery
from drumbeat.core.events import (
    AgentSaid,
    CancelRequested,
    Decision,
    Effect,
    Event,
    GangRefused,
    GangSeen,
    Granted,
    JudgeDue,
    KeepStory,
    Loss,
    NeverFits,
    NodeLost,
    OutputHeldUp,
    OutputPublished,
    PublishOutputs,
    StartGang,
    StopGang,
    StoryEntry,
    TimeUp,
    Waits,
)
from drumbeat.core.job import Failure, Job, Observed, Verdict
from drumbeat.core.recovery import Next
from drumbeat.core.states import MOVES, REASONS, Reason, State
from drumbeat.core.words import counted
from drumbeat.launch import worlds
from drumbeat.protocol.agent import Phase
from drumbeat.protocol.roster import Roster

JUDGE_AFTER = timedelta(seconds=5)
"""How long ranks that miss a peer wait to be stopped: a launcher needs up to 1 s to see that its process is gone (`ray
start` looks once a second), and longer on a busy node. Told to stop first, it wouldn't say why."""


def decide(job: Job, event: Event, now: datetime) -> Decision:  # noqa: C901 (the table: one row a case)
    """The job after the event. A move that MOVES doesn't hold is a defect: it raises, and the tests look for it."""
    if isinstance(event, GangSeen | GangRefused | AgentSaid | NodeLost) and event.attempt != job.attempt:
        return Decision(job)
    if isinstance(event, AgentSaid) and _is_old_news(job, event):
        return Decision(job)
    if isinstance(event, AgentSaid) and not job.state.is_terminal and (told := _remarked(job, event, now)).story:
        return _then(told, decide(told.job, event, now))
    match job.state, event:
        case State.QUEUED, Waits():
            return _move(job, now, State.QUEUED, event.reason, event.sentence)
        case State.QUEUED, Granted():
            return _granted(job, event, now)
        case State.QUEUED, NeverFits():
            return _end(replace(job, verdict=_verdict(Reason.TOO_BIG, event.sentence)), now)
        case State.QUEUED, CancelRequested():
            return _end(replace(job, verdict=_canceled(event)), now)
        case State.PROVISIONING, GangRefused():
            return _stop(job, _verdict(Reason.NODES_REFUSED, event.sentence), now)
        case ((State.PROVISIONING | State.STAGING), AgentSaid()):
            return _agent_preparing(job, event, now)
        case State.RUNNING, AgentSaid():
            return _agent_running(job, event, now)
        case State.RUNNING, TimeUp():
            return _time_up(job, now)
        case State.RUNNING, JudgeDue() if job.judge_at:
            return _stop(job, _failed(job), now)
        case ((State.PROVISIONING | State.STAGING | State.RUNNING), NodeLost()):
            return _node_lost(job, event, now)
        case ((State.PROVISIONING | State.STAGING | State.RUNNING), CancelRequested()):
            return _stop(job, _canceled(event), now)
        case State.STOPPING, AgentSaid():
            return _stopped(job.with_node(event.node, event.status), now)
        case State.STOPPING, NodeLost():
            return _lost_stopping(job, event, now)
        case State.STOPPING, CancelRequested():
            return _cancel_stopping(job, event, now)
        case State.FINALIZING, AgentSaid():
            return _agent_finalizing(job, event, now)
        case State.FINALIZING, CancelRequested(discard=True):
            verdict = _canceled(event)
            discarded = replace(verdict, sentence=f"{verdict.sentence}; results that weren't kept yet are discarded")
            return _end(replace(job, verdict=discarded), now)
        case State.FINALIZING, NodeLost():
            return _results_lost(job, event.node, event.sentence, now)
        case _, OutputPublished() if job.state.is_terminal:
            return aftermath.published(job, event.published, now)
        case _, OutputHeldUp():
            return aftermath.held_up(job, event, now)
        case _, CancelRequested(discard=True):
            return aftermath.given_up(job, event.by, now)
        case _, GangSeen() if not job.state.is_terminal:
            return _gang_seen(job, event, now)
        case _:
            return Decision(job)


# --- waiting ----------------------------------------------------------------------------------------------------


def _granted(job: Job, event: Granted, now: datetime) -> Decision:
    attempt = job.attempt + 1
    placed = replace(
        job,
        attempt=attempt,
        round=1,
        slots=event.slots,
        nodes=(None,) * job.plan.nodes,
        lost=(),
        observed=None,
        roster=None,
        verdict=None,
        remarks=(),
    )
    sentence = f"{counted(job.plan.nodes, 'node')} granted on {job.plan.compute}"
    effect = StartGang(attempt, event.slots)
    return _move(placed, now, State.PROVISIONING, Reason.STARTING_NODES, sentence, effect)


# --- getting ready ----------------------------------------------------------------------------------------------
def _gang_seen(job: Job, event: GangSeen, now: datetime) -> Decision:
    if not event.is_asked:
        sentence = f"{job.plan.compute} could not be asked for nodes yet: {event.word}"
        is_due = job.state is State.PROVISIONING
        return _move(job, now, State.PROVISIONING, Reason.IN_QUEUE, sentence) if is_due else Decision(job)
    if job.observed and job.observed.word == event.word:
        return Decision(job)
    seen = replace(job, observed=Observed(event.word, now))
    if job.state is State.PROVISIONING and event.waits:
        sentence = f"waits in the queue of {job.plan.compute}: {event.word}"
        return _move(seen, now, State.PROVISIONING, Reason.IN_QUEUE, sentence)
    if job.state is State.PROVISIONING and job.reason is Reason.IN_QUEUE:
        sentence = f"{job.plan.compute} has given the nodes: {event.word}"
        return _move(seen, now, State.PROVISIONING, Reason.STARTING_NODES, sentence)
    return Decision(seen)


def _agent_preparing(job: Job, event: AgentSaid, now: datetime) -> Decision:
    told = job.with_node(event.node, event.status)
    if event.status.error:
        sentence = f"node {event.node} could not be prepared: {event.status.error}"
        reason = Reason.OUT_OF_REACH if event.status.is_passing else Reason.STAGING_FAILED
        return _stop(told, _verdict(reason, sentence, node=event.node), now)
    if told.are_all(Phase.READY):
        if differs := alike.difference([status.member for status in told.nodes if status]):
            return _stop(told, _verdict(Reason.ENVIRONMENTS_DIFFER, differs), now)
        return _run(told, now)
    if told.state is State.PROVISIONING and all(told.nodes):
        return _move(told, now, State.STAGING, Reason.PREPARING_NODES, f"{counted(len(told.nodes), 'agent')} enrolled")
    return Decision(told)


def _run(job: Job, now: datetime) -> Decision:
    members = tuple(status.member for status in job.nodes if status)
    ports = tuple(status.port for status in job.nodes if status)
    more = tuple(status.more_ports for status in job.nodes if status)
    roster = Roster(job.attempt, job.round, members, ports[0] if ports else 0, ports, more)
    started = replace(job, roster=roster, started_at=job.started_at or now)
    through = started
    if job.state is State.PROVISIONING:  # A single agent can be enrolled and ready in the same breath.
        through = replace(started, state=State.STAGING)
    sentence = f"{counted(job.plan.world_size, 'rank')} started on {counted(job.plan.nodes, 'node')}"
    if job.plan.container and (image := alike.say_image(members)):
        sentence += f", in containers of {job.plan.container.image} ({image})"
    return _move(through, now, State.RUNNING, Reason.RANKS_RUNNING, sentence)


# --- running ----------------------------------------------------------------------------------------------------
def _agent_running(job: Job, event: AgentSaid, now: datetime) -> Decision:
    told = job.with_node(event.node, event.status)
    if event.status.is_taken:
        return _stop(told, _taken(event.node), now)
    if told.is_served:
        return _stop(told, _finished(told), now)
    has_failed = any(ended.is_failure for _, ended in told.exits)
    if has_failed and not (_has_ranks_left(told) and blame.is_guess(told.exits)):
        return _stop(told, _failed(told), now)
    if event.status.lost and event.status.round == job.round:
        sentence = f"the keeper of node {event.node} is gone, and its ranks with it"
        return _stop(told, _verdict(Reason.KEEPER_LOST, sentence, node=event.node), now)
    if has_failed:
        return Decision(replace(told, judge_at=told.judge_at or now + JUDGE_AFTER))
    if told.are_all(Phase.ENDED):
        return _finalize(replace(told, verdict=_finished(told)), now)
    return Decision(told)


def _finished(job: Job) -> Verdict:
    """All that don't serve have ended well."""
    ended = f"{counted(len(job.plan.workers), 'rank')} ended with exit code 0"
    return _verdict(Reason.FINISHED, ended + _apart(job, "but"))


def _failed(job: Job) -> Verdict:
    """At least one has failed."""
    cause = blame.verdict(job.exits, job.plan.world_size, job.plan.names)
    return replace(cause, sentence=cause.sentence + _apart(job, "and"))


def _apart(job: Job, joined_by: str) -> str:
    """Whether ranks weren't as many as was meant, told once more at the end; "" = they were."""
    remarks = ((node, one) for node, status in enumerate(job.nodes) if status for one in status.remarks)
    apart = (f"; {joined_by} on node {node} {one.sentence}" for node, one in remarks if one.about == worlds.ABOUT)
    return next(apart, "")


def _time_up(job: Job, now: datetime) -> Decision:
    if job.policy.timeout_s is None:
        return Decision(job)
    sentence = f"the time limit of {job.policy.timeout_s:g} s was reached"
    return _stop(job, _verdict(Reason.TIMED_OUT, sentence, code=124), now)


def _node_lost(job: Job, event: NodeLost, now: datetime) -> Decision:
    return _stop(_without(job, event.node), _by_loss(event), now)


_LOSSES: dict[Loss, tuple[Reason, int | None]] = {
    Loss.LOST: (Reason.NODE_LOST, None),
    Loss.PREEMPTED: (Reason.PREEMPTED, None),
    Loss.TIMED_OUT: (Reason.TIMED_OUT, 124),
    Loss.CANCELED: (Reason.CANCELED_OUTSIDE, 130),
    Loss.OUT_OF_MEMORY: (Reason.OUT_OF_MEMORY, 137),
    Loss.FAILED: (Reason.NODES_FAILED, None),
}
"""What each kind of loss is to the job, and the exit code of whoever follows it."""


def _by_loss(event: NodeLost) -> Verdict:
    reason, code = _LOSSES[event.cause]
    if event.cause is Loss.LOST:
        return _verdict(reason, f"node {event.node} is gone: {event.sentence}", node=event.node)
    return _verdict(reason, event.sentence, node=event.node, code=code)


def _taken(node: int) -> Verdict:
    sentence = f"node {node} was told to stop (SIGTERM), and not by drumbeat"
    return _verdict(Reason.NODE_TAKEN, sentence, node=node)


# --- stopping ---------------------------------------------------------------------------------------------------
def _stop(job: Job, verdict: Verdict, now: datetime) -> Decision:
    """Ends the ranks, if there are any; what follows is decided when they have ended."""
    judged = replace(job, verdict=verdict, judge_at=None)
    if job.state is not State.RUNNING:
        return _after_stop(judged, now)
    grace = timedelta(seconds=job.plan.grace_s)
    stopping = replace(judged, stop_at=now + grace)
    whom = "those that served them" if verdict.reason is Reason.FINISHED else "every rank"
    order = f"; SIGTERM to {whom}, SIGKILL after {job.plan.grace_s:g} s" if _has_ranks_left(judged) else ""
    sentence = f"{verdict.sentence}{order}"
    moved = _move(stopping, now, State.STOPPING, verdict.reason, sentence)
    # Those that are left may all have ended already: then nobody will say anything new.
    return _then(moved, _stopped(moved.job, now))


def _has_ranks_left(job: Job) -> bool:
    ended = {one.rank for _, one in job.exits}
    return any(one.rank not in ended and one.node not in job.lost for one in job.plan.ranks)


def _cancel_stopping(job: Job, event: CancelRequested, now: datetime) -> Decision:
    """A person's word outranks a failure: the job isn't tried again. It doesn't undo what has ended well."""
    if job.verdict and REASONS[job.verdict.reason].ends in (State.CANCELED, State.COMPLETED):
        return Decision(job)
    verdict = _canceled(event)
    return _move(replace(job, verdict=verdict), now, State.STOPPING, verdict.reason, verdict.sentence)


def _lost_stopping(job: Job, event: NodeLost, now: datetime) -> Decision:
    """A node that its engine took away was the cause, whatever was heard of its ranks before."""
    left = _without_results(job, event.node, event.sentence)
    reason = job.verdict.reason if job.verdict else None
    is_cause = reason is Reason.NODE_TAKEN or (event.cause is not Loss.LOST and reason in _BELOW_A_LOSS)
    return _stopped(replace(left, verdict=_by_loss(event)) if is_cause else left, now)


def _stopped(job: Job, now: datetime) -> Decision:
    there = [status for node, status in enumerate(job.nodes) if status and node not in job.lost]
    taken = next((status.member.node for status in there if status.is_taken), None)
    if taken is not None:  # Its engine will say what for, or its agent is started again.
        is_cause = job.verdict is not None and job.verdict.reason in _BY_RANK
        return Decision(replace(job, verdict=_taken(taken)) if is_cause else job)
    if not job.are_all(Phase.ENDED, Phase.UPLOADING, Phase.UPLOADED):
        return Decision(job)
    return _after_stop(_judged_again(job), now)


_BY_RANK = (
    Reason.RANK_FAILED,
    Reason.RANK_KILLED,
    Reason.BAD_COMMAND,
    Reason.RANK_LEFT_EARLY,
    Reason.RANK_COULD_NOT_START,
)
_BELOW_A_LOSS = (*_BY_RANK, Reason.NODE_LOST, Reason.KEEPER_LOST)
"""What is seen first where an engine ends a node: it says itself why."""


_FINAL = (Reason.TIMED_OUT, Reason.RESULTS_LOST)
"""Failures after which nothing is tried again."""


def _judged_again(job: Job) -> Job:
    """Now that every rank has ended, the cause may be another one than the first that was heard of."""
    if job.verdict and job.verdict.reason in _BY_RANK:
        if job.is_served:  # One that served missed them, and was heard of first.
            well = replace(job, verdict=_finished(job))
            return _without_results(well, job.lost[0], "the node is gone") if job.lost else well
        return replace(job, verdict=_failed(job))
    return job


def _after_stop(job: Job, now: datetime) -> Decision:
    verdict = job.verdict
    if verdict is None:
        raise ValueError(f"job {job.name} is stopped without a verdict")
    if REASONS[verdict.reason].ends is not State.FAILED or verdict.reason in _FINAL:
        return _finalize(job, now)
    failed = replace(job, failures=(*job.failures, Failure(job.attempt, job.round, verdict, now)))
    following = recovery.after(failed.failures, job.policy.max_retries)
    if following.next is Next.ROUND and job.roster and not job.lost:
        again = replace(failed, round=job.round + 1, roster=None, verdict=None, stop_at=None)
        return _move(again, now, State.STAGING, Reason.RESTARTING_RANKS, _and(verdict.sentence, following.sentence))
    if following.next is not Next.GIVE_UP:
        return _requeue(failed, now, _and(verdict.sentence, following.sentence))
    gave_up = replace(failed, verdict=replace(verdict, sentence=_and(verdict.sentence, following.sentence)))
    return _finalize(gave_up, now)


def _requeue(job: Job, now: datetime, sentence: str) -> Decision:
    avoided = tuple(sorted({slot.machine for slot in job.slots if slot.node in job.lost}))
    freed = replace(job, slots=(), nodes=(), roster=None, verdict=None, stop_at=None, lost=(), observed=None)
    freed = replace(freed, avoided=avoided)
    return _move(freed, now, State.QUEUED, Reason.REPLACING_NODES, sentence, StopGang(job.attempt))


# --- the end ----------------------------------------------------------------------------------------------------
def _finalize(job: Job, now: datetime) -> Decision:
    """Keeps what the ranks left, if any ran; else ends at once."""
    ran = job.roster is not None or job.round > 1
    alive = any(status is not None and node not in job.lost for node, status in enumerate(job.nodes))
    if not (ran and alive):
        return _end(job, now)
    sentence = job.verdict.sentence if job.verdict else ""
    return _move(replace(job, stop_at=None), now, State.FINALIZING, Reason.KEEPING_RESULTS, sentence)


def _agent_finalizing(job: Job, event: AgentSaid, now: datetime) -> Decision:
    told = job.with_node(event.node, event.status)
    if event.status.error and event.status.phase is Phase.UPLOADING:
        return _results_lost(told, event.node, event.status.error, now)
    return _finalized(told, now)


def _results_lost(job: Job, node: int, why: str, now: datetime) -> Decision:
    return _finalized(_without_results(job, node, why), now)


def _without_results(job: Job, node: int, why: str) -> Job:
    lost = _without(job, node)
    if job.verdict is None or job.verdict.reason is not Reason.FINISHED:
        return lost
    sentence = f"the ranks ended well, but the outputs of node {node} could not be kept: {why}"
    return replace(lost, verdict=_verdict(Reason.RESULTS_LOST, sentence, node=node))


def _finalized(job: Job, now: datetime) -> Decision:
    """Whatever round a node had come to: one that has uploaded has nothing more to do in this attempt."""
    there = [status for node, status in enumerate(job.nodes) if node not in job.lost]
    is_done = all(status is not None and status.phase is Phase.UPLOADED for status in there)
    return _end(job, now) if is_done else Decision(job)


def _end(job: Job, now: datetime) -> Decision:
    verdict = job.verdict
    state = REASONS[verdict.reason].ends if verdict else None
    if verdict is None or state is None:
        raise ValueError(f"job {job.name} can't end: {verdict}")
    stop = (StopGang(job.attempt),) if job.slots else ()
    ended = replace(job, ended_at=now, stop_at=None)
    publish = (PublishOutputs(job.attempt),) if aftermath.outputs_left(replace(ended, state=state)) else ()
    return _move(ended, now, state, verdict.reason, verdict.sentence, *stop, KeepStory(job.attempt), *publish)


def _remarked(job: Job, event: AgentSaid, now: datetime) -> Decision:
    """What a node says of how it has what the ranks need: of each thing the story has one node's word."""
    new = [one for one in event.status.remarks if one.about not in job.remarks]
    kept = replace(job, remarks=(*job.remarks, *(one.about for one in new)))
    sentences = (f"node {event.node}: {one.sentence}" for one in new)
    lines = (StoryEntry(now, job.state, job.reason, said, job.attempt, job.round) for said in sentences)
    return Decision(kept, (), tuple(lines))


# --- small parts ------------------------------------------------------------------------------------------------
def _is_old_news(job: Job, event: AgentSaid) -> bool:
    """An agent has two connections, and what it said first may come last."""
    known = job.nodes[event.node] if event.node < len(job.nodes) else None
    return known is not None and event.status.serial < known.serial


def _without(job: Job, node: int) -> Job:
    return replace(job, lost=tuple(sorted({*job.lost, node})))


def _move(job: Job, now: datetime, state: State, reason: Reason, sentence: str, *effects: Effect) -> Decision:
    if (job.state, job.reason, job.sentence) == (state, reason, sentence) and not effects:
        return Decision(job)
    if state is not job.state and state not in MOVES[job.state]:
        raise ValueError(f"job {job.name} can't go from {job.state} to {state}")
    moved = replace(job, state=state, reason=reason, sentence=sentence, effects=job.effects + len(effects))
    return Decision(moved, effects, (StoryEntry(now, state, reason, sentence, moved.attempt, moved.round),))


def _then(first: Decision, second: Decision) -> Decision:
    return Decision(second.job, first.effects + second.effects, first.story + second.story)


def _verdict(reason: Reason, sentence: str, *, node: int | None = None, code: int | None = None) -> Verdict:
    return Verdict(reason, sentence, node=node, code=code, advice=REASONS[reason].advice)


def _canceled(event: CancelRequested) -> Verdict:
    return _verdict(Reason.CANCEL_REQUESTED, f"canceled by {event.by}", code=130)


def _and(sentence: str, more: str) -> str:
    return f"{sentence.removesuffix('.')}; {more}"

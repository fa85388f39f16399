"""The life of a deployment: which replicas are submitted and canceled, how generations follow each other, how it ends.

Rows of the table for deployments, which state_machine.py calls. A deployment is submitted in RUNNING: it needs no
nodes. What is asked of it, what is seen of its replicas' jobs and which of them take requests comes as levels: an event
that is lost, doubled or late does no harm. It ends only when it is canceled, or when its first generation fails.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from drumbeat.core.child_jobs import DeploymentProgress, ReplicaProgress, replica_name
from drumbeat.core.lifecycle import ending, parent_jobs, verdict_rules
from drumbeat.core.lifecycle.events import (
    CancelChild,
    CancelRequested,
    ChildPostponed,
    ChildRefused,
    ChildrenSeen,
    ChildStatus,
    Decision,
    DeploymentAsked,
    Effect,
    Event,
    ReplicasSeen,
    SubmitChild,
)
from drumbeat.core.lifecycle.job import Job
from drumbeat.core.lifecycle.transitions import is_same_trouble, move, then, with_effects
from drumbeat.model.plurals import counted
from drumbeat.model.states import Reason, State

STEADY_AFTER = timedelta(seconds=60)
"""After this time in which it took requests, a replica's failures before are forgotten."""
SLOT_PATIENCE = timedelta(seconds=5)
"""How long the extra replica of a rolling replacement waits for a slot before an old one gives it up."""
FIRST_PAUSE, MAX_PAUSE = timedelta(seconds=1), timedelta(minutes=5)
"""Before a replica follows one whose job has failed; doubles with each further one."""


def decide(job: Job, progress: DeploymentProgress, event: Event, now: datetime) -> Decision:
    """Gives the deployment after the event."""
    match job.state, event:
        case State.RUNNING, DeploymentAsked():
            return _advance(job, progress, _asked(progress, event), now, event.sentence)
        case State.RUNNING, ChildrenSeen():
            return _advance(job, progress, _seen(progress, job.name, event, now), now)
        case State.RUNNING, ReplicasSeen():
            ready = _ready(progress, job.name, event, now)
            return _advance(job, progress, _without_late(job.name, ready, now), now)
        case State.RUNNING, ChildPostponed():
            return _advance(job, progress, _postponed(progress, job.name, event), now)
        case State.RUNNING, ChildRefused():
            return _advance(job, progress, _refused(progress, job.name, event), now)
        case State.RUNNING, CancelRequested():
            moved = parent_jobs.stop(job, verdict_rules.canceled(event), now, len(progress.replicas))
            return then(moved, _stopping(moved.job, progress, now))
        case State.STOPPING, ChildrenSeen():
            return _stopping(job, _seen(progress, job.name, event, now), now)
        case State.STOPPING, ChildRefused():
            return _stopping(job, _refused(progress, job.name, event), now)
        case State.STOPPING, CancelRequested():
            return parent_jobs.cancel_stopping(job, event, now)
        case _:
            return Decision(job)


# --- what is asked and seen ---------------------------------------------------------------------------------------
def _asked(progress: DeploymentProgress, event: DeploymentAsked) -> DeploymentProgress:
    if event.generation < progress.generation:  # An older request that was overtaken.
        return progress
    is_new = event.generation > progress.generation
    return replace(
        progress,
        generation=event.generation,
        wanted=event.wanted,
        ready_within_s=event.ready_within_s,
        snapshots=event.snapshots,
        failures=0 if is_new else progress.failures,
        retry_at=None if is_new else progress.retry_at,
    )


def _seen(progress: DeploymentProgress, name: str, event: ChildrenSeen, now: datetime) -> DeploymentProgress:
    children = {child.job: child for child in event.children}
    replicas = tuple(_replica_seen(one, children.get(replica_name(name, one.number)), now) for one in progress.replicas)
    return replace(progress, replicas=replicas)


def _replica_seen(replica: ReplicaProgress, child: ChildStatus | None, now: datetime) -> ReplicaProgress:
    if child is None or replica.has_ended:
        return replica
    is_running = child.state is State.RUNNING
    return replace(
        replica,
        state=child.state,
        sentence=child.sentence,
        started_at=(replica.started_at or now) if is_running else None,
        ready_since=replica.ready_since if is_running else None,
        waits_since=(replica.waits_since or now) if child.is_waiting else None,
        failures=child.failures,
        failure=child.failure,
    )


def _ready(progress: DeploymentProgress, name: str, event: ReplicasSeen, now: datetime) -> DeploymentProgress:
    replicas = tuple(
        _replica_ready(one, now, is_ready=replica_name(name, one.number) in event.ready) for one in progress.replicas
    )
    newest = max((one.generation for one in replicas if one.is_ready), default=0)
    return replace(progress, replicas=replicas, serving=max(progress.serving, newest))


def _replica_ready(replica: ReplicaProgress, now: datetime, *, is_ready: bool) -> ReplicaProgress:
    if not is_ready or replica.state is not State.RUNNING:  # One that drains has connections, too.
        return replace(replica, ready_since=None)
    return replace(replica, ready_since=replica.ready_since or now, was_ready=True)


def _without_late(name: str, progress: DeploymentProgress, now: datetime) -> DeploymentProgress:
    """Gives up replicas that have run for long without ever being ready."""
    limit = timedelta(seconds=progress.ready_within_s)
    for one in progress.replicas:
        if one.is_leaving or one.was_ready or one.started_at is None or now - one.started_at < limit:
            continue
        sentence = f"not ready {progress.ready_within_s:g} s after its start (readiness_probe)"
        progress = _with(progress, replace(one, is_leaving=True))
        progress = _with_failure(progress, one, name, sentence, now)
    return progress


def _postponed(progress: DeploymentProgress, name: str, event: ChildPostponed) -> DeploymentProgress:
    one = progress.replica(name, event.job)
    if one is None or one.state is not None or is_same_trouble(one.sentence, event.sentence):
        return progress
    return _with(progress, replace(one, sentence=event.sentence))


def _refused(progress: DeploymentProgress, name: str, event: ChildRefused) -> DeploymentProgress:
    one = progress.replica(name, event.job)
    if one is None or one.state is not None:
        return progress
    return _with(progress, replace(one, state=State.FAILED, sentence=event.sentence))


def _with(progress: DeploymentProgress, replica: ReplicaProgress) -> DeploymentProgress:
    replicas = tuple(replica if one.number == replica.number else one for one in progress.replicas)
    return replace(progress, replicas=replicas)


# --- failures -----------------------------------------------------------------------------------------------------
def _without_ended(progress: DeploymentProgress, name: str, now: datetime) -> DeploymentProgress:
    """Drops the replicas whose jobs have ended, and counts those that did so by themselves."""
    for one in [one for one in progress.replicas if one.has_ended]:
        progress = replace(progress, replicas=tuple(each for each in progress.replicas if each is not one))
        if not one.is_leaving:
            progress = _with_failure(progress, one, name, one.sentence, now)
    return progress


def _with_failure(
    progress: DeploymentProgress, replica: ReplicaProgress, name: str, sentence: str, now: datetime
) -> DeploymentProgress:
    """Counts the failure of a replica; the generation is given up if none of its replicas was ever ready."""
    if replica.generation != progress.target or replica.generation == progress.failed:
        return progress
    why = f"{replica_name(name, replica.number)}: {sentence.removesuffix('.')}"
    is_proved = replica.generation <= progress.serving
    if not is_proved and replica.state is not State.CANCELED:
        return replace(progress, failed=replica.generation, failure=why)
    pause = min(MAX_PAUSE, FIRST_PAUSE * 2 ** min(progress.failures, 20))
    return replace(progress, failures=progress.failures + 1, retry_at=now + pause)


def _calmed(progress: DeploymentProgress, now: datetime) -> DeploymentProgress:
    """Forgets failures once a replica of the generation that should serve has been ready for a while."""
    steady = [
        one
        for one in progress.ready
        if one.generation == progress.target and one.ready_since and now - one.ready_since >= STEADY_AFTER
    ]
    return replace(progress, failures=0, retry_at=None) if progress.failures and steady else progress


# --- what follows -------------------------------------------------------------------------------------------------
def _advance(
    job: Job, before: DeploymentProgress, progress: DeploymentProgress, now: datetime, why: str = ""
) -> Decision:
    """Submits and cancels replicas, records the news, or ends a deployment whose first generation has failed."""
    progress = _calmed(_without_ended(progress, job.name, now), now)
    if progress.failed == progress.generation and not progress.serving:
        sentence = f"no replica became ready; {progress.failure}"
        moved = parent_jobs.stop(
            replace(job, deployment=progress),
            verdict_rules.for_reason(Reason.REPLICAS_FAILED, sentence),
            now,
            len(progress.replicas),
        )
        return then(moved, _stopping(moved.job, progress, now))
    progress = _with_leavers(progress, now)
    progress, submits = _with_newcomers(progress, job, now)
    progress, cancels = _canceling(progress, job)
    changed = replace(job, deployment=progress) if progress != before else job
    return _reported(changed, progress, (*submits, *cancels), now, why)


def _with_newcomers(
    progress: DeploymentProgress, job: Job, now: datetime
) -> tuple[DeploymentProgress, tuple[Effect, ...]]:
    """Adds the replicas that are missing: at most one more than wanted exist, those that leave included."""
    if progress.retry_at and now < progress.retry_at:
        return progress, ()
    own = [one for one in progress.replicas if one.generation == progress.target and not one.is_leaving]
    count = min(progress.wanted - len(own), progress.wanted + 1 - len(progress.replicas))
    numbers = range(progress.next_number, progress.next_number + max(0, count))
    new = tuple(ReplicaProgress(number, progress.target) for number in numbers)
    grown = replace(
        progress, replicas=(*progress.replicas, *new), next_number=progress.next_number + len(new), retry_at=None
    )
    return grown, tuple(SubmitChild(job.attempt, replica_name(job.name, number)) for number in numbers)


def _with_leavers(progress: DeploymentProgress, now: datetime) -> DeploymentProgress:
    """Marks the replicas that are wanted no more."""
    leaving = {one.number for one in (*_surplus(progress), *_replaced(progress, now))}
    replicas = tuple(replace(one, is_leaving=True) if one.number in leaving else one for one in progress.replicas)
    return replace(progress, replicas=replicas)


def _surplus(progress: DeploymentProgress) -> Sequence[ReplicaProgress]:
    """Replicas of the right generation beyond the wanted number: those that aren't ready first, then the newest."""
    own = [one for one in progress.replicas if one.generation == progress.target and not one.is_leaving]
    own.sort(key=lambda one: (not one.is_ready, one.number))
    return own[progress.wanted :]


def _replaced(progress: DeploymentProgress, now: datetime) -> Sequence[ReplicaProgress]:
    """Replicas of other generations that can be spared now: never so many that fewer are ready than wanted."""
    staying = [one for one in progress.replicas if not one.is_leaving]
    old = [one for one in staying if one.generation != progress.target]
    if not old:
        return ()
    own = [one for one in staying if one.generation == progress.target]
    own_ready = [one for one in own if one.is_ready]
    idle = [one for one in old if not one.is_ready]
    ready = [one for one in old if one.is_ready]
    must_make_room = len(own) < progress.wanted and len(progress.replicas) > progress.wanted
    spared = idle if must_make_room or len(own_ready) >= progress.wanted else []
    count = len(own_ready) + len(ready) - progress.wanted
    if lacks_slot(progress, now) and len(progress.replicas) == len(staying):
        count = max(count, len(own_ready) + len(ready) - progress.wanted + 1)
    return [*spared, *ready[: max(0, count)]]


def lacks_slot(progress: DeploymentProgress, now: datetime) -> bool:
    """Whether a replica of the generation that should serve has waited for a slot for a while."""
    return any(
        one.waits_since is not None and now - one.waits_since >= SLOT_PATIENCE
        for one in progress.replicas
        if one.generation == progress.target and not one.is_leaving
    )


def _canceling(progress: DeploymentProgress, job: Job) -> tuple[DeploymentProgress, tuple[Effect, ...]]:
    """Cancels the jobs of replicas that leave. One that isn't submitted yet is refused by `SubmitChild`, or seen."""
    asked = [one for one in progress.replicas if one.is_leaving and one.is_active and not one.is_canceling]
    marked = tuple(replace(one, is_canceling=True) if one in asked else one for one in progress.replicas)
    effects = tuple(CancelChild(job.attempt, replica_name(job.name, one.number), "the deployment") for one in asked)
    return replace(progress, replicas=marked), effects


def _reported(job: Job, progress: DeploymentProgress, effects: tuple[Effect, ...], now: datetime, why: str) -> Decision:
    """Returns the job with an event for what is new."""
    sentence = describe(progress, now)
    if job.sentence == sentence or job.sentence.startswith(f"{sentence}; because "):
        return with_effects(job, *effects) if effects else Decision(job)
    text = f"{sentence}; because {why}" if why else sentence
    return then(Decision(job), move(job, now, State.RUNNING, Reason.REPLICAS_RUNNING, text, *effects))


def describe(progress: DeploymentProgress, now: datetime) -> str:
    """Returns how many replicas are ready, whether a generation rolls out or was given up, and what they wait for."""
    ready = progress.ready
    count = f"{len(ready)} of {counted(progress.wanted, 'replica')} ready"
    parts = [count if progress.wanted else "no replica is wanted"]
    if progress.failed == progress.generation:
        before = f"generation {progress.target} goes on" if progress.serving else "none was ready before"
        parts.append(f"generation {progress.failed} was given up ({progress.failure}), and {before}")
    others = [one for one in progress.replicas if one.generation != progress.target]
    if others and progress.wanted and progress.failed != progress.generation:
        own = sum(one.generation == progress.target for one in ready)
        parts.append(f"generation {progress.target} replaces the one before: {own} of {progress.wanted} ready")
        if lacks_slot(progress, now):
            parts.append("no slot is free for one replica more, so one fewer serves meanwhile")
    elif waiting := next(filter(_is_held_up, progress.replicas), None):
        parts.append(f"a replica waits: {waiting.sentence}")
    parts += [_trouble(one) for one in progress.replicas if one.failures and not one.is_leaving]
    if progress.retry_at:
        parts.append(f"{counted(progress.failures, 'replica')} failed, and the next one waits")
    return "; ".join(parts)


def _trouble(replica: ReplicaProgress) -> str:
    """Returns how often a replica was started again, and why."""
    times = "once" if replica.failures == 1 else f"{replica.failures} times, the last time"
    return f"replica {replica.number} failed {times}: {replica.failure.removesuffix('.')}"


def _is_held_up(replica: ReplicaProgress) -> bool:
    return replica.waits_since is not None or (replica.state is None and replica.sentence != "")


# --- the end ------------------------------------------------------------------------------------------------------
def _stopping(job: Job, progress: DeploymentProgress, now: datetime) -> Decision:
    """Cancels all replicas, and ends the deployment when their jobs have ended.

    One whose job isn't submitted yet counts: `SubmitChild` is under way, and will report it or give it up.
    """
    left = tuple(replace(one, is_leaving=True) for one in progress.replicas if not one.has_ended)
    asked, effects = _canceling(replace(progress, replicas=left), job)
    stopping_job = replace(job, deployment=asked)
    if not left:
        return ending.end(stopping_job, now)
    return with_effects(stopping_job, *effects)

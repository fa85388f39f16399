"""What follows when the ranks of a round are silent: one event for each hang, or a new round.

Rows of the table in state_machine.py, which says when.

Which of them is the job's key `on_hang`, with a default in `jobfile/job/timeouts_and_retries.py`.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from drumbeat.core.end_verdict import Verdict
from drumbeat.core.lifecycle import ending, verdict_rules
from drumbeat.core.lifecycle.events import Decision, StallObserved
from drumbeat.core.lifecycle.job import Job
from drumbeat.core.lifecycle.transitions import move
from drumbeat.model.states import Reason, State

RESTART = "restart"
HANGS, MAY_HANG = "the job hangs: ", "the job may hang: "
"""How the sentences of hangs begin."""


def seen(job: Job, event: StallObserved, now: datetime) -> Decision:
    """Records each hang once, and its end, and a slow rank once a round.

    A certain hang ends the round where the job has it so, and is recorded after the uncertain one that it was at first.
    """
    if event.is_rendezvous:
        return _at_rendezvous(job, event, now)
    if not event.is_hang:
        return _slow(job, event, now)
    if event.is_over:
        return _hang_over(job, event, now) if is_hung(job) else Decision(job)
    if is_recorded(job, is_certain=event.is_certain):
        return Decision(job)
    if event.is_certain and job.plan.on_hang == RESTART:
        return _restart(job, Reason.RANKS_HUNG, event, now)
    subject = certain_hang_subject(job) if event.is_certain else hang_subject(job)
    return _dated(move(_with_reported(job, subject), now, State.RUNNING, Reason.HANGING, event.sentence), event, now)


def _slow(job: Job, event: StallObserved, now: datetime) -> Decision:
    subject = slow_subject(job)
    if subject in job.reported_subjects:
        return Decision(job)
    return move(_with_reported(job, subject), now, State.RUNNING, job.reason, event.sentence)


def _hang_over(job: Job, event: StallObserved, now: datetime) -> Decision:
    return move(_with_reported(job, _passed_subject(job)), now, State.RUNNING, _reason_before(job), event.sentence)


def _with_reported(job: Job, subject: str) -> Job:
    return replace(job, reported_subjects=(*job.reported_subjects, subject))


def _at_rendezvous(job: Job, event: StallObserved, now: datetime) -> Decision:
    """Ends a round that is stuck at its rendezvous, whatever `on_hang` says: nothing has been computed yet.

    Absent ranks that may yet come are recorded once. A round that has logged a value is past its rendezvous.
    """
    if first_value_subject(job) in job.reported_subjects:
        return Decision(job)
    if event.is_certain:
        return _restart(job, Reason.RENDEZVOUS_TIMED_OUT, event, now)
    subject = late_subject(job)
    if subject in job.reported_subjects:
        return Decision(job)
    return move(_with_reported(job, subject), now, State.RUNNING, job.reason, event.sentence)


def _restart(job: Job, reason: Reason, event: StallObserved, now: datetime) -> Decision:
    """Ends the round; what follows is decided as after any other failure."""
    verdict = replace(verdict_rules.for_reason(reason, event.sentence, node=event.node), rank=event.rank)
    return _dated(ending.stop(job, verdict, now), event, now)


def _dated(decision: Decision, event: StallObserved, now: datetime) -> Decision:
    """Returns the decision with the beginning of the silence in its first line."""
    if not event.silent_s or not decision.events:
        return decision
    first, *more = decision.events
    since = now - timedelta(seconds=event.silent_s)
    return replace(decision, events=(replace(first, since=since), *more))


def _reason_before(job: Job) -> Reason:
    return Reason.TRAINING if first_value_subject(job) in job.reported_subjects else Reason.RANKS_RUNNING


def first_value_subject(job: Job) -> str:
    """Returns the subject of the message that a rank of the round has logged a value."""
    return f"first value of round {job.round}"


def hang_subject(job: Job) -> str:
    """Returns the subject of the message that the round may hang. Each hang and each end of one has a message."""
    return f"hang in round {job.round}"


def certain_hang_subject(job: Job) -> str:
    """Returns the subject of the message that the round hangs for certain."""
    return f"certain hang in round {job.round}"


def late_subject(job: Job) -> str:
    """Returns the subject of the message that ranks are late at the rendezvous of the round."""
    return f"late at the rendezvous of round {job.round}"


def slow_subject(job: Job) -> str:
    """Returns the subject of the message that a rank of the round is slow."""
    return f"slow rank in round {job.round}"


def _passed_subject(job: Job) -> str:
    return f"hang in round {job.round} has passed"


def is_hung(job: Job) -> bool:
    """Whether a hang of this round was recorded, and hasn't passed."""
    return _last_subject(job) in (hang_subject(job), certain_hang_subject(job))


def with_hang(verdict: Verdict, job: Job) -> Verdict:
    """Returns the verdict on a job that is ended from outside, with the hang in which that found it."""
    hung = {HANGS: "it hung: ", MAY_HANG: "it may have hung: "}
    sentences = [
        f"{past}{job.sentence.removeprefix(now)}" for now, past in hung.items() if job.sentence.startswith(now)
    ]
    if job.reason is not Reason.HANGING or not sentences:
        return verdict
    return replace(verdict, sentence=f"{verdict.sentence}; {sentences[0]}")


def is_recorded(job: Job, *, is_certain: bool) -> bool:
    """Whether this hang has an event already: one that hasn't passed, and was no less certain."""
    return is_hung(job) and (not is_certain or _last_subject(job) == certain_hang_subject(job))


def hangs_recorded(job: Job) -> int:
    """Returns how many hangs of this round were recorded; one that became certain counts twice."""
    return sum(one in (hang_subject(job), certain_hang_subject(job)) for one in job.reported_subjects)


def _last_subject(job: Job) -> str:
    """Returns the last subject about a hang of this round, or its end; "" = there is none."""
    subjects = (hang_subject(job), certain_hang_subject(job), _passed_subject(job))
    return next((one for one in reversed(job.reported_subjects) if one in subjects), "")

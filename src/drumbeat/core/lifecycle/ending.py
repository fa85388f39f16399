"""How a round, an attempt and a job end: ranks are stopped, results are kept, and what follows a failure is decided.

Rows of the table in state_machine.py, which says when. The grace time between SIGTERM and SIGKILL is the job's key
`grace_s`, with a default in `jobfile/job/timeouts_and_retries.py`.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from drumbeat.core.end_verdict import Verdict
from drumbeat.core.lifecycle import backoff, early_end, handover, output_publication, recovery, verdict_rules
from drumbeat.core.lifecycle.events import (
    CancelRequested,
    Decision,
    KeepEvents,
    NodeDeparture,
    NodeLost,
    PublishOutputs,
    StatusReported,
    StopGang,
)
from drumbeat.core.lifecycle.job import Failure, Job
from drumbeat.core.lifecycle.node_statuses import Mark
from drumbeat.core.lifecycle.recovery import Next
from drumbeat.core.lifecycle.transitions import move, then
from drumbeat.core.reason_table import REASONS, Evidence
from drumbeat.core.scheduling.elastic_sizes import format_sizes
from drumbeat.model.agent import Phase
from drumbeat.model.states import Reason, State

_EARLY = (Reason.RESIZING, Reason.STOPPED_EARLY)
"""Why a round is stopped that has done nothing wrong."""


# --- stopping ---------------------------------------------------------------------------------------------------
def stop(job: Job, verdict: Verdict, now: datetime) -> Decision:
    """Stops the ranks, if there are any; what follows is decided when they have ended."""
    judged = replace(job, verdict=verdict, judge_at=None, retry_at=None)
    if job.state is not State.RUNNING:
        return _after_stop(judged, now)
    grace = timedelta(seconds=job.plan.grace_s)
    stopping = replace(judged, stop_at=now + grace)
    whom = "those that served them" if verdict.reason is Reason.FINISHED else "every rank"
    order = f"; SIGTERM to {whom}, SIGKILL after {job.plan.grace_s:g} s" if judged.has_ranks_left else ""
    sentence = f"{verdict.sentence}{order}"
    moved = move(stopping, now, State.STOPPING, verdict.reason, sentence)
    # The remaining ranks may all have ended already: then no further status will come.
    return then(moved, stopped(moved.job, now))


def cancel_stopping(job: Job, event: CancelRequested, now: datetime) -> Decision:
    """A request to cancel outranks a failure: the job isn't retried. It doesn't undo a success."""
    if job.verdict and REASONS[job.verdict.reason].ends in (State.CANCELED, State.COMPLETED):
        return Decision(job)
    verdict = verdict_rules.canceled(event)
    return move(replace(job, verdict=verdict), now, State.STOPPING, verdict.reason, verdict.sentence)


def lost_stopping(job: Job, event: NodeLost, now: datetime) -> Decision:
    """A node that its engine took away is the cause, whatever its ranks reported before."""
    left = _without_results(job, event.node, event.sentence)
    is_stated = REASONS[verdict_rules.REASON_OF_LOSS[event.cause]].evidence is Evidence.STATED
    is_weaker = is_stated and _evidence(job) in (Evidence.RANKS, Evidence.SILENCE)
    is_cause = is_weaker or (job.verdict is not None and job.verdict.reason is Reason.NODE_TAKEN)
    return stopped(replace(left, verdict=verdict_rules.by_loss(event)) if is_cause else left, now)


def leaving_stopping(job: Job, event: NodeDeparture) -> Decision:
    """A node that was told to stop from outside, whose machine now says that it leaves: that is the cause."""
    is_cause = job.verdict is not None and job.verdict.reason is Reason.NODE_TAKEN
    return Decision(replace(job, verdict=verdict_rules.leaving(event)) if is_cause else job)


def stopped(job: Job, now: datetime) -> Decision:
    """Decides what follows once all ranks that are being stopped have ended; nothing before that."""
    taken_node = _preempted_node(job)
    if taken_node is not None:  # Its engine will report the cause, or its agent is started again.
        is_cause = _evidence(job) is Evidence.RANKS
        return Decision(replace(job, verdict=verdict_rules.taken(taken_node)) if is_cause else job)
    if not job.are_all(Phase.ENDED, Phase.UPLOADING, Phase.UPLOADED):
        return Decision(job)
    return _after_stop(_judged_again(job), now)


def _preempted_node(job: Job) -> int | None:
    """The first node that its machine asked to leave, of those that aren't lost."""
    if not job.statuses.count(Mark.PREEMPTED):
        return None
    statuses = (status for node, status in enumerate(job.nodes) if status and node not in job.lost)
    return next((status.member.node for status in statuses if status.is_preempted), None)


def _evidence(job: Job) -> Evidence | None:
    return REASONS[job.verdict.reason].evidence if job.verdict else None


def _judged_again(job: Job) -> Job:
    """Judges the round by all of its exits: the cause may differ from the first exit that was reported."""
    if job.verdict and job.verdict.reason in _EARLY and verdict_rules.has_finished(job):
        return replace(job, verdict=verdict_rules.finished(job))  # It was over before SIGTERM came.
    if early := early_end.outranking(job):
        return replace(job, verdict=early)
    if _evidence(job) is Evidence.RANKS:
        if job.are_workers_done:  # A service rank missed the workers, and its exit was reported first.
            well = replace(job, verdict=verdict_rules.finished(job))
            return _without_results(well, job.lost[0], "the node is gone") if job.lost else well
        lost = verdict_rules.lost(job)
        if lost is not None:  # Ranks that missed their peers were reported first.
            return replace(job, verdict=lost)
        return replace(job, verdict=verdict_rules.failed(job))
    return job


def _after_stop(job: Job, now: datetime) -> Decision:
    verdict = job.verdict
    if verdict is None:
        raise ValueError(f"job {job.name} is stopped without a verdict")
    row = REASONS[verdict.reason]
    if verdict.reason is Reason.RESIZING:
        return _requeue(job, now, verdict.sentence, Reason.RESIZING)
    if row.ends is not State.FAILED or row.is_final:
        return finalize(job, now)
    failed = replace(job, failures=(*job.failures, Failure(job.attempt, job.round, verdict, now)))
    has_nodes = job.roster is not None and not job.lost
    sizes = format_sizes(job.plan.elastic) if job.plan.elastic else ""
    has_checkpoint = any(status.has_checkpoint for status in job.nodes if status)
    following = recovery.after(
        failed.failures, job.policy, has_nodes=has_nodes, has_checkpoint=has_checkpoint, sizes=sizes
    )
    sentence = _joined(verdict.sentence, following.sentence)
    if following.next is Next.GIVE_UP:
        return finalize(replace(failed, verdict=replace(verdict, sentence=sentence)), now)
    wait = backoff.delay(failed.failures, job.policy)
    waiting = replace(failed, retry_at=now + wait if wait else None)
    if following.next is Next.ROUND:
        again = replace(waiting, round=job.round + 1, roster=None, verdict=None, stop_at=None)
        sentence, reason = _backed_off(sentence, wait, f"round {again.round}", Reason.RESTARTING_RANKS)
        return move(again, now, State.STAGING, reason, sentence)
    sentence, reason = _backed_off(sentence, wait, f"attempt {job.attempt + 1}", Reason.REPLACING_NODES)
    return _requeue(replace(waiting, growth=0), now, sentence, reason)


def _backed_off(sentence: str, wait: timedelta, before: str, reason: Reason) -> tuple[str, Reason]:
    """Returns the sentence of another try, with its wait if it has one, and the reason."""
    if not wait:
        return sentence, reason
    return f"{sentence}; waits {wait.total_seconds():g} s before {before}", Reason.BACKING_OFF


def _requeue(job: Job, now: datetime, sentence: str, reason: Reason) -> Decision:
    avoided = tuple(sorted({slot.machine for slot in job.slots if slot.node in job.lost}))
    freed = replace(
        job, slots=(), nodes=(), roster=None, verdict=None, stop_at=None, lost=(), observed=None, taken=None
    )
    kept = job.plan.nodes - len(job.lost) if job.plan.elastic else 0
    freed = replace(
        freed, avoided=avoided, kept=kept, checkpoints=job.checkpoint_folders, queued_at=job.retry_at or now
    )
    return move(freed, now, State.QUEUED, reason, sentence, StopGang(job.attempt, _taken_gang(job)))


# --- the end ----------------------------------------------------------------------------------------------------
def finalize(job: Job, now: datetime) -> Decision:
    """Moves on to saving the results, if any ranks ran; else ends the job at once."""
    ran = job.roster is not None or job.round > 1
    alive = any(status is not None and node not in job.lost for node, status in enumerate(job.nodes))
    if not (ran and alive):
        return end(job, now)
    sentence = job.verdict.sentence if job.verdict else ""
    return move(replace(job, stop_at=None), now, State.FINALIZING, Reason.KEEPING_RESULTS, sentence)


def agent_finalizing(job: Job, event: StatusReported, now: datetime) -> Decision:
    """Takes the status of a node that saves its results, or reports that it can't."""
    updated = job.with_node(event.node, event.status)
    if event.status.error and event.status.phase is Phase.UPLOADING:
        return results_lost(updated, event.node, event.status.error, now)
    return _finalized(updated, now)


def results_lost(job: Job, node: int, why: str, now: datetime) -> Decision:
    """Records that the results of a node are lost."""
    return _finalized(_without_results(job, node, why), now)


def _without_results(job: Job, node: int, why: str) -> Job:
    lost = job.without_node(node)
    if job.verdict is None or job.verdict.reason not in (Reason.FINISHED, Reason.STOPPED_EARLY):
        return lost
    well = "the ranks ended well" if job.verdict.reason is Reason.FINISHED else job.verdict.sentence
    sentence = f"{well}, but the outputs of node {node} could not be kept: {why}"
    return replace(lost, verdict=verdict_rules.for_reason(Reason.RESULTS_LOST, sentence, node=node))


def _finalized(job: Job, now: datetime) -> Decision:
    """Ends the job when every node has uploaded."""
    return end(job, now) if job.have_all_uploaded else Decision(job)


def end(job: Job, now: datetime) -> Decision:
    """Ends the job for good, as its verdict says."""
    verdict = job.verdict
    state = REASONS[verdict.reason].ends if verdict else None
    if verdict is None or state is None:
        raise ValueError(f"job {job.name} can't end: {verdict}")
    give_back = (StopGang(job.attempt, _taken_gang(job), handover.keep_s(job, verdict)),) if job.slots else ()
    ended = replace(job, ended_at=now, stop_at=None, retry_at=None)
    publish = (PublishOutputs(job.attempt),) if output_publication.outputs_left(replace(ended, state=state)) else ()
    return move(ended, now, state, verdict.reason, verdict.sentence, *give_back, KeepEvents(job.attempt), *publish)


def _taken_gang(job: Job) -> str:
    return job.taken.gang if job.taken else ""


def _joined(sentence: str, more: str) -> str:
    return f"{sentence.removesuffix('.')}; {more}"

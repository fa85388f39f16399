"""Ends the parents of other jobs: sweeps and pipelines have no ranks, and no results of their own to wait for."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from drumbeat.core.end_verdict import Verdict
from drumbeat.core.lifecycle import ending, verdict_rules
from drumbeat.core.lifecycle.events import CancelRequested, Decision
from drumbeat.core.lifecycle.job import Job
from drumbeat.core.lifecycle.transitions import move, then
from drumbeat.core.reason_table import REASONS
from drumbeat.model.states import Reason, State


def complete(job: Job, verdict: Verdict, now: datetime) -> Decision:
    """Ends a parent whose children have all ended, without having stopped them."""
    judged = replace(job, verdict=_named(job, verdict))
    kept = move(judged, now, State.FINALIZING, Reason.KEEPING_RESULTS, verdict.sentence)
    return then(kept, ending.end(kept.job, now))


def stop(job: Job, verdict: Verdict, now: datetime, ongoing: int) -> Decision:
    """Begins to stop the children. ongoing: the number of those that have not ended."""
    judged = replace(job, verdict=_named(job, verdict))
    sentence = f"{verdict.sentence}; waiting for the end of {ongoing} unfinished" if ongoing else verdict.sentence
    return move(judged, now, State.STOPPING, verdict.reason, sentence)


def cancel_stopping(job: Job, event: CancelRequested, now: datetime) -> Decision:
    """Lets a request to cancel outrank the failure for which the children are being stopped."""
    if job.verdict and REASONS[job.verdict.reason].ends is State.CANCELED:
        return Decision(job)
    verdict = verdict_rules.canceled(event)
    return move(replace(job, verdict=verdict), now, State.STOPPING, verdict.reason, verdict.sentence)


def _named(job: Job, verdict: Verdict) -> Verdict:
    """Returns the verdict with the parent's name in its advice; without advice on trials that do not exist."""
    if job.sweep and not job.sweep.trials:
        return replace(verdict, advice="")
    return replace(verdict, advice=verdict.advice.replace("PIPELINE", job.name).replace("SWEEP", job.name))

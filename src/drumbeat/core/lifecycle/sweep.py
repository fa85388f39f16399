"""The life of a sweep: which trials are proposed, submitted, ended early and counted, and how the sweep ends.

Rows of the table for sweeps, which state_machine.py calls. A sweep is submitted in RUNNING: it needs no nodes.
What is seen of the trials comes as a level (`ChildrenSeen`): an event that is lost, doubled or late does no harm.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import lru_cache

from drumbeat.core.child_jobs import SweepProgress, TrialProgress, trial_name
from drumbeat.core.end_verdict import Verdict
from drumbeat.core.lifecycle import ending, parent_jobs, verdict_rules
from drumbeat.core.lifecycle.events import (
    CancelChild,
    CancelRequested,
    ChildPostponed,
    ChildRefused,
    ChildrenSeen,
    ChildStatus,
    Decision,
    Effect,
    Event,
    ProposeTrials,
    SamplerRefused,
    SubmitChild,
    TimeUp,
    TrialsProposed,
)
from drumbeat.core.lifecycle.job import Job
from drumbeat.core.lifecycle.transitions import is_same_trouble, move, then, with_effects
from drumbeat.core.sweeps import best_trial, early_termination, metric_order, parallel_trials, trial_values
from drumbeat.jobfile.sweeping.early_termination import (
    Asha,
    BanditPolicy,
    MedianStoppingPolicy,
    TruncationSelectionPolicy,
)
from drumbeat.jobfile.sweeping.sweep import Objective
from drumbeat.model.plurals import counted
from drumbeat.model.states import Reason, State

RULES: dict[str, type[Asha | BanditPolicy | MedianStoppingPolicy | TruncationSelectionPolicy]] = {
    "asha": Asha,
    "bandit": BanditPolicy,
    "median_stopping": MedianStoppingPolicy,
    "truncation_selection": TruncationSelectionPolicy,
}
"""By the `type` under which `SweepProgress.rule` keeps them."""

MAX_SHOWN_PARAMETERS = 6
"""Parameters of the best trial that events name."""
MAX_FAILED_AT_FIRST = 10
"""After so many failed trials and none that completed or reported the metric, the sweep is given up."""


def decide(job: Job, progress: SweepProgress, event: Event, now: datetime) -> Decision:
    """Gives the sweep after the event."""
    match job.state, event:
        case State.RUNNING, ChildrenSeen():
            seen = _seen(progress, job.name, event)
            stops, stopped = _stopped_early(job, seen, event.reports)
            compared = _compared(replace(job, sweep=stopped), stopped, event, now)
            return then(compared, _advance(compared.job, progress, compared.job.sweep or stopped, stops, now))
        case State.RUNNING, TrialsProposed() if progress.is_asking and event.first == len(progress.trials):
            return _proposed(job, progress, event, now)
        case State.RUNNING, ChildRefused() | ChildPostponed():
            return _advance(job, progress, _refused(progress, job.name, event), (), now)
        case State.RUNNING, SamplerRefused():
            sentence = f"no further trials can be proposed: {event.sentence}"
            return _stop(job, progress, verdict_rules.for_reason(Reason.TRIALS_FAILED, sentence), now)
        case State.RUNNING, TimeUp():
            return _stop(job, progress, verdict_rules.timed_out(job), now)
        case State.RUNNING, CancelRequested():
            return _stop(job, progress, verdict_rules.canceled(event), now)
        case State.STOPPING, ChildrenSeen():
            return _stopping(replace(job, sweep=_seen(progress, job.name, event)), now)
        case State.STOPPING, ChildRefused():
            given_up = _refused(progress, job.name, event, State.CANCELED)
            return _stopping(replace(job, sweep=given_up), now)
        case State.STOPPING, CancelRequested():
            return parent_jobs.cancel_stopping(job, event, now)
        case _:
            return Decision(job)


# --- what is seen -----------------------------------------------------------------------------------------------
def _seen(progress: SweepProgress, sweep: str, event: ChildrenSeen) -> SweepProgress:
    children = {child.job: child for child in event.children}
    trials = tuple(
        _trial_seen(progress, one, children.get(trial_name(sweep, one.number)), event) for one in progress.trials
    )
    return replace(progress, trials=trials)


def _trial_seen(
    progress: SweepProgress, trial: TrialProgress, child: ChildStatus | None, event: ChildrenSeen
) -> TrialProgress:
    if child is None or trial.has_ended:
        return trial
    values = event.reports.get(trial.number, ())
    updated = replace(trial, state=child.state, sentence=child.sentence)
    if child.state is State.COMPLETED:  # The rule, or a cancellation, came too late.
        updated = replace(updated, stopped="", is_canceling=False)
    if len(values) <= trial.reports:
        return updated
    best, run = metric_order.best(values, _goal(progress)), event.runs.get(trial.number, "")
    return replace(updated, reports=len(values), best=best, last=values[-1], run=run)


def _compared(job: Job, progress: SweepProgress, event: ChildrenSeen, now: datetime) -> Decision:
    """Records once, when the first trials were measured, whether trials would finish sooner side by side."""
    if progress.is_compared or len(event.busy) < parallel_trials.MIN_TRIALS:
        return Decision(job)
    ran = {child.job: child.ran_s for child in event.children}
    ran_s = [ran.get(trial_name(job.name, number), 0.0) for number in event.busy]
    sentence = parallel_trials.sentence(progress.ranks, list(event.busy.values()), ran_s)
    compared = replace(job, sweep=replace(progress, is_compared=True))
    return move(compared, now, State.RUNNING, Reason.TRIALS_RUNNING, sentence) if sentence else Decision(compared)


def _refused(
    progress: SweepProgress, sweep: str, event: ChildRefused | ChildPostponed, refused: State = State.FAILED
) -> SweepProgress:
    """The sweep with why a trial's job isn't submitted. refused: the state of a trial that is never submitted."""
    state = None if isinstance(event, ChildPostponed) else refused
    trials = tuple(
        _trial_refused(one, event.sentence, state)
        if one.state is None and trial_name(sweep, one.number) == event.job
        else one
        for one in progress.trials
    )
    return replace(progress, trials=trials)


def _trial_refused(trial: TrialProgress, sentence: str, state: State | None) -> TrialProgress:
    if state is None and is_same_trouble(trial.sentence, sentence):
        return trial
    return replace(trial, state=state, sentence=sentence)


def _stopped_early(
    job: Job, progress: SweepProgress, reports: Mapping[int, Sequence[float]]
) -> tuple[tuple[Effect, ...], SweepProgress]:
    """Applies the rule for ending trials early to those that have reached another of its evaluation points."""
    if not progress.rule:
        return (), progress
    rule = rule_from(json.dumps(progress.rule))
    by_name = {str(number): values for number, values in reports.items() if values}
    finished = {str(one.number) for one in progress.trials if one.has_ended or one.is_canceling}
    evaluated = {str(one.number): one.evaluated for one in progress.trials}
    objective = Objective(goal=_goal(progress), primary_metric=progress.metric)
    stops = {int(stop.trial): stop for stop in early_termination.to_stop(rule, objective, by_name, finished, evaluated)}
    points = early_termination.due(rule, by_name, finished)
    effects = tuple(
        CancelChild(job.attempt, trial_name(job.name, number), f"the sweep: {stop.sentence}")
        for number, stop in sorted(stops.items())
    )
    trials = tuple(_evaluated(one, points.get(str(one.number), 0), stops.get(one.number)) for one in progress.trials)
    return effects, replace(progress, trials=trials)


def _evaluated(trial: TrialProgress, point: int, stop: early_termination.Stop | None) -> TrialProgress:
    evaluated = replace(trial, evaluated=max(trial.evaluated, point))
    return replace(evaluated, stopped=stop.sentence, is_canceling=True) if stop else evaluated


@lru_cache(maxsize=256)
def rule_from(text: str) -> early_termination.Rule:
    """Returns the rule in a JSON text: the job file's keys, and its `type`."""
    keys = json.loads(text)
    kind = keys.pop("type")
    return RULES[kind].model_validate(keys)


def leading_trial(progress: SweepProgress) -> TrialProgress | None:
    """Returns the trial with the best value so far, the first of several; None while no trial has one.

    A trial that failed or was canceled counts, too, as in Azure ML (`core/sweeps/best_trial.py`).
    """
    values = {
        str(one.number): (one.best,) for one in progress.trials if one.best is not None and math.isfinite(one.best)
    }
    winner = best_trial.best_trial(_goal(progress), values)
    return progress.trials[int(winner.trial)] if winner else None


def _goal(progress: SweepProgress) -> metric_order.Goal:
    return "maximize" if progress.goal == "maximize" else "minimize"


# --- what follows -----------------------------------------------------------------------------------------------
def _advance(
    job: Job, before: SweepProgress, progress: SweepProgress, effects: tuple[Effect, ...], now: datetime
) -> Decision:
    """Records the news, and asks for further trials, or ends the sweep."""
    ended = [one for one in progress.trials if one.has_ended]
    if not any(one.is_good or one.reports for one in progress.trials) and len(ended) >= MAX_FAILED_AT_FIRST:
        first = ended[0]
        sentence = f"the first {len(ended)} trials all failed; {trial_name(job.name, first.number)}: {first.sentence}"
        return _stop(job, progress, verdict_rules.for_reason(Reason.TRIALS_FAILED, sentence), now)
    is_full = progress.is_exhausted or len(progress.trials) >= progress.max_trials
    if is_full and len(ended) == len(progress.trials):
        return parent_jobs.complete(replace(job, sweep=progress), _verdict(job, progress), now)
    free = progress.max_concurrent - len(progress.active)
    count = min(free, progress.max_trials - len(progress.trials))
    if not is_full and count > 0 and not progress.is_asking:
        effects = (*effects, ProposeTrials(job.attempt, len(progress.trials), count))
        progress = replace(progress, is_asking=True)
    return _reported(replace(job, sweep=progress), before, effects, now)


def _proposed(job: Job, progress: SweepProgress, event: TrialsProposed, now: datetime) -> Decision:
    new = tuple(TrialProgress(event.first + n, values) for n, values in enumerate(event.values))
    grown = replace(progress, trials=(*progress.trials, *new), is_exhausted=event.is_exhausted, is_asking=False)
    effects = tuple(SubmitChild(job.attempt, trial_name(job.name, one.number)) for one in new)
    return _advance(job, progress, grown, effects, now)


def _reported(job: Job, before: SweepProgress, effects: tuple[Effect, ...], now: datetime) -> Decision:
    """Returns the job with events for what is new."""
    progress = job.sweep or before
    reported = Decision(job)
    lacking = _lacking_metric(job.name, before, progress)
    for sentence in (lacking, describe_progress(job.name, progress)):
        if sentence:
            reported = then(reported, move(reported.job, now, State.RUNNING, Reason.TRIALS_RUNNING, sentence))
    return then(reported, with_effects(reported.job, *effects))


def _lacking_metric(sweep: str, before: SweepProgress, progress: SweepProgress) -> str:
    """Says once that the first trial that completed has not reported the primary metric."""
    if any(one.state is State.COMPLETED for one in before.trials):
        return ""
    lacking = [one for one in progress.trials if one.state is State.COMPLETED and (one.run or not one.reports)]
    if not lacking:
        return ""
    first = lacking[0]
    if first.run:
        return (
            f"{trial_name(sweep, first.number)} completed without a value of the primary metric `{progress.metric}` in "
            f"its own run: it counts with {counted(first.reports, 'value')} of its run {first.run} (the first that has "
            f"any: drumbeat metrics {trial_name(sweep, first.number)})"
        )
    return (
        f"{trial_name(sweep, first.number)} completed without a value of the primary metric `{progress.metric}`: "
        f"rank 0 must log it under exactly this name (drumbeat metrics {trial_name(sweep, first.number)})"
    )


def describe_progress(sweep: str, progress: SweepProgress) -> str:
    """Returns how many trials have ended, the best so far, and why trials aren't submitted yet, in one sentence."""
    ended = sum(one.has_ended for one in progress.trials)
    total = str(len(progress.trials) if progress.is_exhausted else progress.max_trials)
    parts = [f"{ended} of {total} trials ended"]
    parts += [_describe_best(sweep, progress)] if leading_trial(progress) else []
    postponed = next((one for one in progress.trials if one.state is None and one.sentence), None)
    if postponed:
        # Without their number, so that there is one event when trials begin to wait, not one for each of them.
        parts.append(f"trials wait: {postponed.sentence}")
    return ", ".join(parts)


def _describe_best(sweep: str, progress: SweepProgress) -> str:
    """Returns the best trial with its value and parameters, or why there is none."""
    leader = leading_trial(progress)
    if leader is None:
        return _describe_no_best(progress)
    shown = list(trial_values.texts(leader.values).items())
    values = ", ".join(f"{name} {trial_values.shorten(text)}" for name, text in shown[:MAX_SHOWN_PARAMETERS])
    more = ", …" if len(shown) > MAX_SHOWN_PARAMETERS else ""
    origin = f" in its run {leader.run}" if leader.run else ""
    best = f"best {trial_name(sweep, leader.number)}: {progress.metric} {leader.best:.4g}{origin}"
    return f"{best} ({values}{more})" if values else best


def _describe_no_best(progress: SweepProgress) -> str:
    reported = [one for one in progress.trials if one.reports]
    if not reported:
        return f"no trial reported `{progress.metric}`"
    are_all = len(reported) == len(progress.trials)
    which = (
        f"all {counted(len(reported), 'trial')}" if are_all and len(reported) > 1 else counted(len(reported), "trial")
    )
    what = "NaN" if all(one.last is None or math.isnan(one.last) for one in reported) else "NaN or infinity"
    others = "" if are_all else ", and the others reported nothing"
    return f"{which} reported only {what} as `{progress.metric}`{others}"


# --- the end ----------------------------------------------------------------------------------------------------
def _verdict(job: Job, progress: SweepProgress) -> Verdict:
    """Judges a sweep whose trials have all ended by themselves."""
    good = sum(one.is_good for one in progress.trials)
    stopped = sum(bool(one.stopped) for one in progress.trials)
    failed = len(progress.trials) - good
    if not good:
        last = next((one for one in reversed(progress.trials)), None)
        why = f"; {trial_name(job.name, last.number)}: {last.sentence}" if last else ""
        return verdict_rules.for_reason(
            Reason.TRIALS_FAILED, f"none of {counted(len(progress.trials), 'trial')} completed{why}"
        )
    parts = [f"{counted(len(progress.trials), 'trial')} ended"]
    parts += [f"{stopped} of them early"] if stopped else []
    parts += [f"{failed} failed or canceled"] if failed else []
    parts.append(_describe_best(job.name, progress))
    return verdict_rules.for_reason(Reason.TRIALS_ENDED, "; ".join(parts))


def _stop(job: Job, progress: SweepProgress, verdict: Verdict, now: datetime) -> Decision:
    given_up = replace(progress, is_asking=False, is_exhausted=True)
    stopping_job = replace(job, sweep=given_up)
    moved = parent_jobs.stop(stopping_job, verdict, now, len(given_up.active))
    return then(moved, _stopping(moved.job, now))


def _stopping(job: Job, now: datetime) -> Decision:
    """Cancels the trials that are active, and ends the sweep when all have ended.

    A trial whose job is not submitted yet counts: `SubmitChild` is under way, and will report it or give it up.
    """
    progress = job.sweep
    if progress is None:
        raise ValueError(f"job {job.name} is no sweep")
    if all(one.has_ended for one in progress.trials):
        return ending.end(job, now)
    asked = [one for one in progress.trials if one.is_active and not one.is_canceling]
    marked = tuple(replace(one, is_canceling=True) if one in asked else one for one in progress.trials)
    effects = [CancelChild(job.attempt, trial_name(job.name, one.number), "the sweep") for one in asked]
    return with_effects(replace(job, sweep=replace(progress, trials=marked)), *effects)

"""The life of a pipeline: which steps are submitted, reused or never run, and how the pipeline ends.

Rows of the table for pipelines, which state_machine.py calls. A pipeline is submitted in RUNNING: it needs no
nodes. What is seen of its steps comes as a level (`ChildrenSeen`): an event that is lost, doubled or late does no harm.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from drumbeat.core.child_jobs import PipelineProgress, StepProgress, step_name
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
    Event,
    StepReused,
    SubmitChild,
    TimeUp,
)
from drumbeat.core.lifecycle.job import Job
from drumbeat.core.lifecycle.transitions import is_same_trouble, move, then, with_effects
from drumbeat.model.plurals import counted
from drumbeat.model.states import Reason, State

ChildEvent = ChildrenSeen | StepReused | ChildRefused | ChildPostponed


def decide(job: Job, progress: PipelineProgress, event: Event, now: datetime) -> Decision:
    """Gives the pipeline after the event."""
    match job.state, event:
        case State.RUNNING, ChildrenSeen() | StepReused() | ChildRefused() | ChildPostponed():
            return _advance(job, progress, _changed(job.name, progress, event), now)
        case State.RUNNING, TimeUp():
            return _stop(job, progress, verdict_rules.timed_out(job), now)
        case State.RUNNING, CancelRequested():
            return _stop(job, progress, verdict_rules.canceled(event), now)
        case State.STOPPING, ChildrenSeen() | StepReused() | ChildRefused():
            return _stopping(job, _changed(job.name, progress, event, State.CANCELED), now)
        case State.STOPPING, CancelRequested():
            return parent_jobs.cancel_stopping(job, event, now)
        case _:
            return Decision(job)


# --- what is seen -----------------------------------------------------------------------------------------------
def _changed(
    pipeline: str, progress: PipelineProgress, event: ChildEvent, refused: State = State.FAILED
) -> PipelineProgress:
    """The steps after the event. refused: the state of a step whose job can't be submitted."""
    match event:
        case ChildrenSeen():
            seen = {child.job: child for child in event.children}
            steps = tuple(_seen(one, seen.get(step_name(pipeline, one.path))) for one in progress.steps)
        case StepReused():
            steps = tuple(_reused(one, pipeline, event) for one in progress.steps)
        case ChildRefused() | ChildPostponed():
            state = None if isinstance(event, ChildPostponed) else refused
            steps = tuple(_refused(one, pipeline, event, state) for one in progress.steps)
    return replace(progress, steps=steps)


def _seen(step: StepProgress, child: ChildStatus | None) -> StepProgress:
    if child is None or step.has_ended:
        return step
    return replace(step, state=child.state, sentence=child.sentence, is_submitted=True)


def _reused(step: StepProgress, pipeline: str, event: StepReused) -> StepProgress:
    if not _is_awaited(step, pipeline, event.job):
        return step
    return replace(step, state=State.COMPLETED, sentence=f"reused from {event.source}", reused=event.source)


def _refused(
    step: StepProgress, pipeline: str, event: ChildRefused | ChildPostponed, state: State | None
) -> StepProgress:
    """Returns the step with why its job isn't submitted. state: of the step; None = it is submitted later."""
    if not _is_awaited(step, pipeline, event.job) or (state is None and is_same_trouble(step.sentence, event.sentence)):
        return step
    return replace(step, state=state, sentence=event.sentence)


def _is_awaited(step: StepProgress, pipeline: str, job: str) -> bool:
    """Whether it is the step of that job, and the job is asked for and does not exist yet."""
    return step_name(pipeline, step.path) == job and step.is_submitted and step.state is None


# --- what follows -----------------------------------------------------------------------------------------------
def _advance(job: Job, before: PipelineProgress, progress: PipelineProgress, now: datetime) -> Decision:
    """Submits the steps whose inputs are complete, or ends the pipeline."""
    failed = next((one for one in progress.steps if one.has_failed and not one.is_continued), None)
    if failed is not None:
        reported = _reported(replace(job, pipeline=progress), before, now)
        return then(reported, _stop(reported.job, progress, _failure(progress, failed), now))
    progress = _without_dependents(progress)
    ready = [one for one in progress.steps if _is_ready(one, progress)]
    marked = tuple(replace(one, is_submitted=True) if one in ready else one for one in progress.steps)
    progress = replace(progress, steps=marked)
    reported = _reported(replace(job, pipeline=progress), before, now)
    if all(one.has_ended for one in progress.steps):
        return then(reported, parent_jobs.complete(reported.job, _verdict(progress), now))
    effects = [SubmitChild(job.attempt, step_name(job.name, one.path)) for one in ready]
    return then(reported, with_effects(reported.job, *effects))


def _is_ready(step: StepProgress, progress: PipelineProgress) -> bool:
    done = {one.path for one in progress.steps if one.is_done}
    return not step.is_submitted and not step.skipped and done.issuperset(step.after)


def _without_dependents(progress: PipelineProgress) -> PipelineProgress:
    """The steps, with those skipped that take an output of one that did not complete or was not run."""
    lacking: dict[str, str] = {}
    steps: list[StepProgress] = []
    for step in progress.steps:  # Each comes after those whose outputs it takes.
        cause = next((path for path in step.after if path in lacking), "")
        is_lacking = cause and not step.has_ended and not step.is_submitted
        why = f"it takes an output of step {cause}, which {lacking[cause]}" if is_lacking else step.skipped
        if step.has_failed or why:
            lacking[step.path] = "did not complete" if step.has_failed else "was not run"
        steps.append(replace(step, skipped=why))
    return replace(progress, steps=tuple(steps))


def _reported(job: Job, before: PipelineProgress, now: datetime) -> Decision:
    """Returns the job with an event for each step of which something is new."""
    progress = job.pipeline or before
    reported = Decision(job)
    old = {one.path: one for one in before.steps}
    for step in progress.steps:
        sentence = _news(old.get(step.path, step), step)
        if sentence:
            ended = sum(one.has_ended for one in progress.steps)
            line = f"{sentence}; {ended} of {counted(len(progress.steps), 'step')} ended"
            reported = then(reported, move(reported.job, now, State.RUNNING, Reason.STEPS_RUNNING, line))
    return reported


def _news(old: StepProgress, new: StepProgress) -> str:
    """Returns the news of a step as a sentence, "" = nothing worth an event."""
    if new.skipped and not old.skipped:
        return f"step {new.path} is not run: {new.skipped}"
    if new.state is None and new.sentence and new.sentence != old.sentence:
        return f"step {new.path} waits: {new.sentence}"
    if new.state is old.state or new.state is None:
        return ""
    if new.reused:
        return f"step {new.path} is {new.sentence}"
    if new.state.is_terminal:
        return f"step {new.path} {new.state}" + (f": {new.sentence}" if new.has_failed else "")
    is_first = new.state is State.RUNNING or old.state is None
    return f"step {new.path} is {new.state}" if is_first else ""


# --- the end ----------------------------------------------------------------------------------------------------
def _failure(progress: PipelineProgress, failed: StepProgress) -> Verdict:
    """Judges a pipeline that a step ends."""
    never = [one.path for one in progress.steps if not one.is_submitted and not one.has_ended]
    return verdict_rules.for_reason(Reason.STEP_FAILED, f"{_describe_failed(failed)}{describe_never_run(never)}")


def _describe_failed(step: StepProgress) -> str:
    ended = "was canceled" if step.state is State.CANCELED else "failed"
    return f"step {step.path} {ended}: {step.sentence.removesuffix('.')}"


def describe_never_run(paths: list[str]) -> str:
    """Returns the end of a sentence that names the steps that are never run."""
    if not paths:
        return ""
    names = paths[0] if len(paths) == 1 else f"{', '.join(paths[:-1])} and {paths[-1]}"
    return f"; never run because of it: {names}"


def _verdict(progress: PipelineProgress) -> Verdict:
    """Judges a pipeline whose steps have all ended by themselves."""
    failed = [one for one in progress.steps if one.has_failed]
    if failed:
        never = [one.path for one in progress.steps if one.skipped]
        more = f" (and {counted(len(failed) - 1, 'other step')})" if failed[1:] else ""
        return verdict_rules.for_reason(
            Reason.STEP_FAILED, f"{_describe_failed(failed[0])}{more}{describe_never_run(never)}"
        )
    reused = sum(bool(one.reused) for one in progress.steps)
    parts = [f"{counted(len(progress.steps), 'step')} completed"]
    parts += [f"{reused} of them reused"] if reused else []
    return verdict_rules.for_reason(Reason.STEPS_ENDED, ", ".join(parts))


def _stop(job: Job, progress: PipelineProgress, verdict: Verdict, now: datetime) -> Decision:
    steps = tuple(
        one if one.is_submitted or one.has_ended else replace(one, skipped=f"the pipeline ended: {verdict.sentence}")
        for one in progress.steps
    )
    given_up = replace(progress, steps=steps)
    stopping_job = replace(job, pipeline=given_up)
    moved = parent_jobs.stop(stopping_job, verdict, now, sum(not one.has_ended for one in steps))
    return then(moved, _stopping(moved.job, given_up, now))


def _stopping(job: Job, progress: PipelineProgress, now: datetime) -> Decision:
    """Cancels the steps that are active, and ends the pipeline when all have ended.

    A step whose job is not submitted yet counts: `SubmitChild` is under way, and will report it or give it up.
    """
    if all(one.has_ended for one in progress.steps):
        return ending.end(replace(job, pipeline=progress), now)
    asked = [one for one in progress.steps if one.is_active and not one.is_canceling]
    marked = tuple(replace(one, is_canceling=True) if one in asked else one for one in progress.steps)
    effects = [CancelChild(job.attempt, step_name(job.name, one.path), "the pipeline") for one in asked]
    return with_effects(replace(job, pipeline=replace(progress, steps=marked)), *effects)

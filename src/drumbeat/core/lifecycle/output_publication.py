"""The outputs of a job that has ended: which still have to be stored or registered.

The job's state doesn't change any more; each result is added to its events.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from drumbeat.core.lifecycle.events import Decision, JobEvent, OutputHeldUp, PublishOutputs
from drumbeat.core.lifecycle.job import HeldUp, Job, Published
from drumbeat.core.lifecycle.transitions import with_effects
from drumbeat.core.planning.outputs import is_published, is_registered
from drumbeat.model.api.jobs import OutputPlace
from drumbeat.model.plan import OutputPlan
from drumbeat.model.plurals import counted

FOLLOWER_TIMEOUT = timedelta(seconds=30)
"""How long after a job's end its followers wait for an output that is held up."""
MAX_FOLLOWED_TRIES = 5
"""After this many tries, followers wait no longer: tries are at least 1, 2, 4, 8 and 16 s apart."""


@dataclass(frozen=True)
class OutputProgress:
    """An output, and how far its publication is. problem: why it isn't stored, or not yet."""

    place: OutputPlace
    published: Published
    problem: str = ""


def output_progress(job: Job) -> list[OutputProgress]:
    """Returns the progress of each output that leaves the job's folder or gets a name."""
    done = {one.output: one for one in job.published}
    held = {one.output: one.why for one in job.held_up}
    left = outputs_left(job)

    def of(output: OutputPlan) -> OutputProgress:
        if published := done.get(output.name):
            return OutputProgress(
                OutputPlace.FAILED if published.problem else OutputPlace.IN_PLACE, published, published.problem
            )
        wanted = Published(output.name, output.uri)
        if not job.state.is_terminal:
            return OutputProgress(OutputPlace.TO_COME, wanted)
        if output in left:
            return OutputProgress(OutputPlace.UNDER_WAY, wanted, held.get(output.name, ""))
        return OutputProgress(OutputPlace.KEPT, replace(wanted, uri=""))

    return [of(one) for one in job.plan.outputs if one.uri or one.asset]


def outputs_left(job: Job) -> list[OutputPlan]:
    """Returns the outputs of a job that has ended which still have to be stored or registered."""
    if not (job.state.is_terminal and (job.attempt or job.sweep)):
        return []
    done = {one.output for one in job.published}
    wanted = [one for one in job.plan.outputs if is_published(one, job.state) or is_registered(one, job.state)]
    return [one for one in wanted if one.name not in done]


def is_over(job: Job) -> bool:
    """Whether followers need not wait any longer: the job has ended, and its outputs are stored, or held up."""
    held_up = {one.output for one in job.held_up if one.is_long}
    return job.state.is_terminal and all(one.name in held_up for one in outputs_left(job))


def published(job: Job, latest: Published, now: datetime) -> Decision:
    """Records that an output is stored, or never will be. One that was given up and arrives after all is stored."""
    earlier = next((one for one in job.published if one.output == latest.output), None)
    if earlier and (latest.problem or not earlier.problem):
        return Decision(job)
    others = tuple(one for one in job.published if one is not earlier)
    is_somewhere = f"{counted(latest.files, 'file')} in {latest.uri}" if latest.uri else "kept in the job's folder"
    named = f", known as azureml:{latest.asset}" if latest.asset else ""
    kept = replace(job, published=(*others, latest), held_up=_without(job.held_up, latest.output))
    return Decision(kept, (), (_line(job, f"output {latest.output}: {latest.problem or is_somewhere + named}", now),))


def held_up(job: Job, event: OutputHeldUp, now: datetime) -> Decision:
    """Records why an output can't be stored now; each reason has one event. It is tried again later."""
    output, why = event.output, event.why
    if all(one.name != output for one in outputs_left(job)):
        return Decision(job)
    sentence = f"output {output} isn't in its place yet: {why}; it is tried again"
    is_known = any((one.output, one.why) == (output, why) for one in job.held_up)
    is_late = job.ended_at is not None and now - job.ended_at >= FOLLOWER_TIMEOUT
    entry = HeldUp(output, why, is_long=is_late or event.tries >= MAX_FOLLOWED_TRIES)
    kept = replace(job, held_up=(*_without(job.held_up, output), entry))
    return Decision(kept, (), () if is_known else (_line(job, sentence, now),))


def given_up(job: Job, by: str, now: datetime) -> Decision:
    """Gives up the outputs that aren't stored yet; a new effect replaces the one that tries again."""
    left = outputs_left(job)
    if not left:
        return Decision(job)
    done = with_effects(job, PublishOutputs(job.attempt))
    for output in left:
        step = published(done.job, Published(output.name, "", problem=f"given up by {by}"), now)
        done = Decision(step.job, done.effects, done.events + step.events)
    return done


def _without(entries: tuple[HeldUp, ...], output: str) -> tuple[HeldUp, ...]:
    return tuple(one for one in entries if one.output != output)


def _line(job: Job, sentence: str, now: datetime) -> JobEvent:
    return JobEvent(now, job.state, job.reason, sentence, job.attempt, job.round)

"""Steps of jobs that are decided and not yet committed, and the batches that are committed together."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from datetime import datetime

from drumbeat.core.lifecycle.directive import directive
from drumbeat.core.lifecycle.events import Event
from drumbeat.core.lifecycle.job import Job
from drumbeat.core.lifecycle.transitions import Decision
from drumbeat.core.scheduling.resource_needs import Slot
from drumbeat.server.database.records import Change, Record, TakenEffect


@dataclass(frozen=True)
class Report:
    """An event of a job that waits for its turn. done: gets the job after it, or the error."""

    name: str
    event: Event
    done: Future[Job] = field(default_factory=Future[Job])


@dataclass(frozen=True)
class Step:
    """What an event makes of a job. now, at: when it was decided, on the wall clock and the monotonic one."""

    record: Record
    """The job before, at the version that the store has."""
    event: Event
    decision: Decision
    now: datetime
    at: float

    @property
    def job(self) -> Job:
        """The job after the event."""
        return self.decision.job

    @property
    def changes_directive(self) -> bool:
        """Whether the agents of the job should do something else from now on."""
        return directive(self.record.job).key != directive(self.job).key


@dataclass(frozen=True)
class JobWrite:
    """What is written of one job, and the record that it replaces."""

    record: Record
    change: Change

    @property
    def after(self) -> Record:
        """The record once it is written."""
        return replace(self.record, job=self.change.job, version=self.change.version + 1)


def job_write(steps: Sequence[Step], reserve: Sequence[Slot] = (), takes: TakenEffect | None = None) -> JobWrite:
    """Returns consecutive steps of one job as one write. reserve: the slots that the job is given with it.

    takes: the effect that would end the nodes that it takes over with them.
    """
    events = tuple(one for step in steps for one in step.decision.events)
    effects = tuple(one for step in steps for one in step.decision.effects)
    change = Change(steps[-1].job, steps[0].record.version, events, effects)
    if reserve:
        change = replace(change, reserve=tuple(reserve), at=steps[-1].now, takes=takes)
    return JobWrite(steps[0].record, change)


class ReportBatch:
    """Reports whose steps are committed together.

    Steps of one job become one write, which belongs to one attempt: its effects are counted by it.
    """

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.answers: list[tuple[Report, Job]] = []
        self._steps_by_job: dict[str, list[Step]] = {}

    def record(self, name: str) -> Record | None:
        """The job after the steps so far, at the version that the store has; None = it has no step."""
        steps = self._steps_by_job.get(name)
        return replace(steps[-1].record, job=steps[-1].job) if steps else None

    def takes(self, step: Step | None) -> bool:
        """Whether a step can be committed with those before it."""
        before = self._steps_by_job.get(step.job.name) if step else None
        if not step or not before:
            return True
        return before[-1].job.attempt == step.job.attempt and not before[-1].job.state.is_terminal

    def add(self, report: Report, job: Job, step: Step | None) -> None:
        """Adds a report with its answer. step: None = it changes nothing."""
        self.answers.append((report, job))
        if step:
            self.steps.append(step)
            self._steps_by_job.setdefault(job.name, []).append(step)

    def writes(self) -> list[JobWrite]:
        """What is to be written, by job."""
        return [job_write(steps) for steps in self._steps_by_job.values()]

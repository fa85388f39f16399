"""The watch over children, which reports their progress to each parent.

It looks at a parent when the parent or a child has changed, and at all parents every second.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Protocol, TypeVar

from drumbeat.core.child_jobs import DeploymentProgress, replica_name
from drumbeat.core.lifecycle.events import ChildrenSeen, ChildStatus
from drumbeat.core.lifecycle.job import Job
from drumbeat.model.errors import NotFoundError
from drumbeat.model.states import JobKind, Reason, State
from drumbeat.server.jobs.job_filter import JobFilter
from drumbeat.server.loop.bus import JOB, Topic
from drumbeat.server.loop.loop import Loop

log = logging.getLogger(__name__)

LOOK_INTERVAL_S = 1.0
"""How often the children of all parents are read."""
MIN_INTERVAL_S = 0.02
"""Minimum time between two looks, because each piece of a log counts as a change."""
NEWEST, PAGE = 16, 1000
"""How many of the newest children a look reads, and how many more at once if it knows none of these."""
WAITING = (Reason.WAITING_FOR_SLOTS, Reason.WAITING_FOR_TURN, Reason.WAITING_FOR_QUOTA)
"""Reasons for which a job in the queue waits for other jobs."""

Reading_co = TypeVar("Reading_co", covariant=True)


class TrialReadings(Protocol[Reading_co]):
    """A cached reading of the trials of sweeps."""

    def __call__(self, job: Job) -> Mapping[int, Reading_co]:
        """Returns the reading of each trial of a sweep by the trial's number."""
        ...

    def forget_all_but(self, sweeps: Collection[str]) -> None:
        """Keeps only what was read for these sweeps, by their unique names."""
        ...


class TrialReports(Protocol):
    """The values of the primary metric that trials have reported, cached like `TrialReadings`."""

    def __call__(self, job: Job, ended: Collection[str]) -> Mapping[int, Sequence[float]]:
        """Returns the values of each trial by its number. ended: the jobs of the trials that have ended."""
        ...

    def runs(self, job: Job) -> Mapping[int, str]:
        """Returns the run of each trial whose values come from another run than its own."""
        ...

    def forget_all_but(self, sweeps: Collection[str]) -> None:
        """Keeps only what was read for these sweeps, by their unique names."""
        ...


@dataclass
class _Children:
    """The children of a parent as they were seen so far: those that have ended aren't read again."""

    names: list[str] = field(default_factory=list[str])
    """In the order of their submission."""
    ended: dict[str, ChildStatus] = field(default_factory=dict[str, ChildStatus])


class ChildWatch:
    """Applies `ChildrenSeen` to unfinished parents, on a thread of its own."""

    def __init__(self, loop: Loop, reports: TrialReports, busy: TrialReadings[float]) -> None:
        self._loop = loop
        self._reports = reports
        """Reads the values of the primary metric that rank 0 has reported, in order."""
        self._busy = busy
        """Reads the share of time in which the ranks of measured trials were working."""
        self._changed, self._stopping = threading.Event(), threading.Event()
        self._names: list[str] = []
        """Jobs that have changed since the last look."""
        self._children: dict[str, _Children] = {}
        """By the unique name of each unfinished parent."""
        self._thread = threading.Thread(target=self._run, name="children", daemon=True)
        self._unsubscribe = loop.bus.subscribe(self._hear)

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Ends the thread."""
        self._unsubscribe()
        self._stopping.set()
        self._changed.set()
        if self._thread.is_alive():
            self._thread.join(timeout=2)

    def _hear(self, topic: Topic) -> None:
        if topic.kind == JOB:
            self._names.append(topic.name)
            self._changed.set()

    def _run(self) -> None:
        due_at = time.monotonic()
        while not self._stopping.wait(MIN_INTERVAL_S):
            self._changed.wait(max(0.0, due_at - time.monotonic()))
            self._changed.clear()
            if self._stopping.is_set():
                return
            names, self._names = self._names, []
            is_due = time.monotonic() >= due_at
            for job in self.parents() if is_due else self.parents_above(names):
                try:
                    self.look_at(job)
                except Exception:
                    if not self._stopping.is_set():
                        log.exception("could not look at the children of job %s; trying again", job.name)
            if is_due:
                self.forget_ended()
                due_at = time.monotonic() + LOOK_INTERVAL_S

    def parents(self) -> list[Job]:
        """Returns the unfinished parents."""
        return [one.job for one in list(self._loop.jobs.values()) if one.job.kind is not JobKind.COMMAND]

    def parents_above(self, changed: Collection[str]) -> list[Job]:
        """Returns the unfinished parents among these jobs and above them; all parents if one of the jobs has ended."""
        records = [self._loop.jobs.get(name) for name in changed]
        if None in records:  # The parent of an ended job isn't known.
            return self.parents()
        names = {*changed, *(record.job.parent for record in records if record)}
        return [job for job in self.parents() if job.name in names]

    def forget_ended(self) -> None:
        """Drops the readings of trials whose parents have ended."""
        names = {job.unique_name for job in self.parents()}
        self._reports.forget_all_but(names)
        self._busy.forget_all_but(names)
        self._children = {name: one for name, one in self._children.items() if name in names}

    def look_at(self, job: Job) -> None:
        """Applies the progress of the children to a parent."""
        if not self._loop.is_current:
            self._children.clear()  # Another server may have the children meanwhile.
            return
        if job.deployment:
            self._loop.tell(job.name, ChildrenSeen(tuple(self._replicas(job.name, job.deployment))))
            return
        statuses = tuple(self._statuses(job))
        # Reports are read after states, so that everything a trial reported before its end counts with its end.
        ended = {one.job for one in statuses if one.state.is_terminal}
        reports = self._reports(job, ended)
        self._loop.tell(job.name, ChildrenSeen(statuses, reports, self._busy(job), self._reports.runs(job)))

    def _replicas(self, parent: str, progress: DeploymentProgress) -> Iterator[ChildStatus]:
        """Yields the replicas that the deployment knows: over months there may be thousands of earlier ones."""
        for one in progress.replicas:
            with suppress(NotFoundError):
                yield _status(self._loop.record(replica_name(parent, one.number)).job)

    def _statuses(self, parent: Job) -> Iterator[ChildStatus]:
        """Yields the children in the order of their submission."""
        children = self._children.setdefault(parent.unique_name, _Children())
        children.names += self._new_children(parent.name, {*children.names})
        for name in children.names:
            if status := children.ended.get(name):
                yield status
                continue
            with suppress(NotFoundError):  # It was deleted.
                status = _status(self._loop.record(name).job)
                if status.state.is_terminal:
                    children.ended[name] = status
                yield status

    def _new_children(self, parent: str, earlier: Collection[str]) -> list[str]:
        """Returns the children that were submitted after the earlier ones, oldest first."""
        new: list[str] = []
        while True:
            after, limit = (new[-1], PAGE) if new else (None, NEWEST)
            page = self._loop.store.jobs(JobFilter(is_archived=None, parent=parent, limit=limit, after=after))
            names = [one.job.name for one in page]
            fresh = list(takewhile(lambda name: name not in earlier, names))
            new += fresh
            if len(fresh) < limit:
                return new[::-1]


def _status(child: Job) -> ChildStatus:
    ran_s = (child.ended_at - child.started_at).total_seconds() if child.started_at and child.ended_at else 0.0
    is_waiting = child.state is State.QUEUED and child.reason in WAITING
    failure = child.failures[-1].verdict.sentence if child.failures else ""
    return ChildStatus(child.name, child.state, child.sentence, ran_s, is_waiting, len(child.failures), failure)

"""The watch over children: tells each parent how far its children are.

It looks whenever a job has changed, and in any case every second: a child may be another server's.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence

from drumbeat.control.bus import JOB, Topic
from drumbeat.control.loop.loop import Loop
from drumbeat.core.life.events import ChildrenSeen, ChildStatus
from drumbeat.core.life.job import Job
from drumbeat.ports import JobFilter, Record
from drumbeat.protocol.states import JobKind

log = logging.getLogger(__name__)

LOOK_INTERVAL_S = 1.0
"""How often it looks at children when no change was published."""
MIN_INTERVAL_S = 0.02
"""The least time between two looks: each piece of a log is a change, too."""
PAGE = 1000

Reports = Callable[[Job], Mapping[int, Sequence[float]]]
"""Gives, of each trial of a sweep by its number, the values of the primary metric that rank 0 reported, in order."""
BusyShares = Callable[[Job], Mapping[int, float]]
"""Gives, of measured trials by their number, the share of their time that their ranks worked."""


class ChildWatch:
    """Applies `ChildrenSeen` to the parents that this server holds, on a thread of its own."""

    def __init__(self, loop: Loop, reports: Reports, busy: BusyShares) -> None:
        self._loop, self._reports, self._busy = loop, reports, busy
        self._changed, self._stopping = threading.Event(), threading.Event()
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
            self._changed.set()

    def _run(self) -> None:
        while not self._stopping.wait(MIN_INTERVAL_S):
            self._changed.wait(LOOK_INTERVAL_S)
            self._changed.clear()
            if self._stopping.is_set():
                return
            for job in self.parents():
                try:
                    self.look_at(job)
                except Exception:
                    if not self._stopping.is_set():
                        log.exception("could not look at the children of job %s; trying again", job.name)

    def parents(self) -> list[Job]:
        """The unfinished parents that this server holds."""
        return [one.job for one in list(self._loop.jobs.values()) if one.job.kind is not JobKind.COMMAND]

    def look_at(self, job: Job) -> None:
        """Applies to a parent how far its children are."""
        if not self._loop.holds(job.name):
            return
        children = self._children(job.name)
        statuses = tuple(_status(one.job) for one in reversed(children))
        # The reports are read after the states: what a trial reported before its end is counted with its end.
        self._loop.tell(job.name, ChildrenSeen(statuses, self._reports(job), self._busy(job)))

    def _children(self, parent: str) -> list[Record]:
        children: list[Record] = []
        while True:
            after = children[-1].job.name if children else None
            page = self._loop.store.jobs(JobFilter(is_archived=None, parent=parent, limit=PAGE, after=after))
            children += page
            if len(page) < PAGE:
                return children


def _status(child: Job) -> ChildStatus:
    ran_s = (child.ended_at - child.started_at).total_seconds() if child.started_at and child.ended_at else 0.0
    return ChildStatus(child.name, child.state, child.sentence, ran_s)

"""Removes a job in two steps, which survive a crash of the server in between.

A transaction deletes its rows and records that its files are to be removed; then the files are removed. After a crash
or a disk error, the next server continues from this record. Files and metrics are set aside by the job's name only
while the record is locked, because then no new job can have this name.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

from drumbeat.core import deletion_rules
from drumbeat.core.lifecycle.events import DROPPED_WITH_JOB
from drumbeat.model.api.space import KeptItem, SpaceItem
from drumbeat.model.errors import NotFoundError, StorageError
from drumbeat.model.failpoints import failpoint
from drumbeat.server.database.records import Removal
from drumbeat.server.home_folder import FolderArtifacts
from drumbeat.server.home_folder.stored_files import JobSpace
from drumbeat.server.loop.bus import job_topic
from drumbeat.server.loop.loop import Loop
from drumbeat.server.space.items import job_item, needed_by, refusal, snapshot_item
from drumbeat.server.space.references import ReferenceReader, References

log = logging.getLogger(__name__)

END_TIMEOUT_S = 10.0
"""How long removal waits for a job that has just ended and whose nodes are still being stopped."""


class JobRuns(Protocol):
    """The metrics of jobs."""

    def held(self) -> AbstractContextManager[object]:
        """Keeps runs of ended jobs from being created. Entered before a transaction: their creation reads jobs."""
        ...

    def remove(self, name: str) -> None:
        """Removes the runs of a job, but not their points, which is quick."""
        ...

    def remove_points(self) -> None:
        """Removes the points of removed jobs."""
        ...


class JobRemoval:
    """Removes single jobs with everything that only they need. stopping: set when the server stops."""

    def __init__(
        self,
        loop: Loop,
        artifacts: FolderArtifacts,
        references: ReferenceReader,
        stopping: threading.Event,
        runs: JobRuns | None,
        book_time: Callable[[str], object] | None = None,
    ) -> None:
        self._runs, self._book_time = runs, book_time
        self._loop, self._store, self._artifacts = loop, loop.store, artifacts
        self._references, self._stopping = references, stopping
        self.lock = threading.Lock()
        """Held during a removal, because concurrent ones would count the same bytes."""

    def await_end(self, name: str) -> None:
        """Waits until a job that has just ended has been finalized, at most `END_TIMEOUT_S`."""
        deadline = time.monotonic() + END_TIMEOUT_S
        while self._store.load(name).job.state.is_terminal and self._is_finalizing(name):
            if time.monotonic() > deadline:
                return  # The store or the rules report why it can't be deleted.
            self._stopping.wait(0.05)

    def _is_finalizing(self, name: str) -> bool:
        return any(one.job == name and not isinstance(one.effect, DROPPED_WITH_JOB) for one in self._store.outbox())

    def delete(
        self, name: str, world: References, by: str, later: Collection[str] = ()
    ) -> tuple[list[SpaceItem], list[KeptItem]]:
        """Deletes a job. Returns removed and kept items. Raises ConflictError, NotFoundError.

        later: jobs that are deleted after it and therefore don't keep it, as a sweep is deleted after its trials. The
        rows are deleted on the loop's thread, on which new jobs that name its outputs are written, too.
        """
        item = self.item(name)
        if self._book_time:
            self._book_time(name)
        self._loop.call(lambda: self._delete_rows(name, world, later))
        log.info("job %s was deleted by %s, with %d bytes", name, by, item.size)
        failpoint("delete.committed")
        self._loop.bus.publish(job_topic(name))
        return self._finish(name, world.without([name]), item)

    def _delete_rows(self, name: str, world: References, later: Collection[str]) -> None:
        names = {one.name for one in world.jobs}
        jobs = (*self._references.jobs(until=names), *world.jobs)
        if kept := deletion_rules.decide([name, *later], jobs, self._references.assets()).reasons.get(name):
            raise refusal(kept)
        job = self._store.load(name).job
        note = json.dumps(
            {
                "snapshots": sorted(deletion_rules.needs_of_job(job).snapshots),
                "asked_until": job.submitted_at.timestamp(),
            }
        )
        self._store.delete_job(name, note)

    def finish_removals(self) -> None:
        """Removes the files of jobs whose rows were deleted."""
        with self.lock:
            if pending := self._store.removals():
                world = self._references.all()
                for name in pending:
                    self._finish(name, world, self.item(name))

    def _finish(self, name: str, world: References, item: SpaceItem) -> tuple[list[SpaceItem], list[KeptItem]]:
        items: list[SpaceItem] = []
        try:
            removal = self._set_aside(name)
            if removal is None:  # Another process has finished it, and a new job may have the name.
                return [item], []
            self._artifacts.remove_job(name)
            items.append(item)
            failpoint("delete.files_removed")
            gone, kept = self._remove_snapshots(removal.note, world)
            failpoint("delete.snapshots_removed")
            if self._runs:
                self._runs.remove_points()
            self._store.removed(name, removal.version)
        except StorageError as error:
            log.warning("files of the deleted job %s can't be removed yet: %s", name, error)
            return items, [KeptItem(f"files of job {name}", f"{error.what}; this is retried", error.fix)]
        return [*items, *gone], kept

    def _set_aside(self, name: str) -> Removal | None:
        """Sets aside the files and metrics of a deleted job if its removal is still pending."""
        with self._runs.held() if self._runs else nullcontext(), self._store.removing(name) as removal:
            if removal is not None:
                self._artifacts.set_aside_job(name)
                if self._runs:
                    self._runs.remove(name)
        return removal

    def _remove_snapshots(self, note: str, world: References) -> tuple[list[SpaceItem], list[KeptItem]]:
        """Removes a deleted job's snapshots that nothing needs, unless they were requested after its submission."""
        digests = _asked_until([note])
        # Requests for earlier deleted jobs explain requests of this one's snapshots, too.
        asked_until = _asked_until([note, *self._store.removals(finished=True).values()])
        newer = self._references.jobs(until={one.name for one in world.jobs})
        needed = deletion_rules.needed_snapshots((*world.jobs, *newer), self._references.assets())
        gone: list[SpaceItem] = []
        kept: list[KeptItem] = []
        for one in [one for one in self._artifacts.snapshots() if one.digest in digests]:
            what = f"snapshot {one.digest[:12]}"
            if users := needed.get(one.digest):
                kept.append(KeptItem(what, needed_by(users)))
            elif self._artifacts.remove_snapshot(one.digest, unasked_since=asked_until[one.digest]):
                gone.append(snapshot_item(one.digest, one.size, one.asked_at))
                log.info("%s was removed, because nothing needs it", what)
            else:
                kept.append(KeptItem(what, "a client has requested it since, and may be submitting a job with it"))
        return gone, kept

    def space(self, name: str) -> JobSpace:
        """Returns the space that a job's folder takes."""
        return self._artifacts.job_space(name).get(name, JobSpace())

    def item(self, name: str) -> SpaceItem:
        """Returns a job with its size, by kinds of files."""
        try:
            needs = deletion_rules.needs_of_job(self._store.load(name).job)
        except NotFoundError:
            needs = None
        return job_item(needs or name, self.space(name))


def _asked_until(notes: Iterable[str]) -> dict[str, float]:
    """Returns when the last of these deleted jobs with each snapshot was submitted, by digest."""
    latest: dict[str, float] = {}
    for written in (json.loads(note) for note in notes if note):
        for digest in written["snapshots"]:
            latest[digest] = max(latest.get(digest, 0.0), float(written["asked_until"]))
    return latest

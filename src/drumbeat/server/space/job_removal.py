"""The removal of a job, in two steps that survive the death of the server in between.

Its rows go in one transaction, which also notes whose files are to be removed; then the files go. A server that is
killed in between, or whose disk refuses, is followed by one that goes on with that note. Several servers may be at it:
files and metrics are set aside by their job's name only while the removal is held, as no new job has the name then.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Collection, Iterable
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
"""How long a job that has just ended is waited for: its nodes are still being stopped."""


class JobRuns(Protocol):
    """The metrics of jobs."""

    def remove(self, name: str) -> None:
        """Removes those of a job at once, but for their points."""
        ...

    def remove_points(self) -> None:
        """Removes the points of removed jobs."""
        ...


class JobRemoval:
    """Removes single jobs with all that only they need. stopping: is set when the server stops."""

    def __init__(
        self,
        loop: Loop,
        artifacts: FolderArtifacts,
        references: ReferenceReader,
        stopping: threading.Event,
        runs: JobRuns | None,
    ) -> None:
        self._runs = runs
        self._loop, self._store, self._artifacts = loop, loop.store, artifacts
        self._references, self._stopping = references, stopping
        self.lock = threading.Lock()
        """Is held during a removal: two at a time would count the same bytes."""

    def await_end(self, name: str) -> None:
        """Waits until a job that has just ended has been finalized, at most for `END_TIMEOUT_S`."""
        deadline = time.monotonic() + END_TIMEOUT_S
        while self._store.load(name).job.state.is_terminal and self._is_finalizing(name):
            if time.monotonic() > deadline:
                return  # The store, or the decision, says why it can't go.
            self._stopping.wait(0.05)

    def _is_finalizing(self, name: str) -> bool:
        return any(one.job == name and not isinstance(one.effect, DROPPED_WITH_JOB) for one in self._store.outbox())

    def delete(
        self, name: str, world: References, by: str, later: Collection[str] = ()
    ) -> tuple[list[SpaceItem], list[KeptItem]]:
        """Deletes a job that may go; what went with it, and what is still there. Raises ConflictError, NotFoundError.

        later: jobs that go after it, so that none of them keeps it: a sweep goes after its best trial. Who names the
        job's outputs meanwhile is seen on the loop's thread, where new jobs are written, too.
        """
        item = self._item_of(name)
        self._loop.call(lambda: self._delete_rows(name, world, later))
        log.info("job %s was deleted by %s, with %d bytes", name, by, item.size)
        failpoint("delete.committed")
        self._loop.bus.publish(job_topic(name))
        return self._finish(name, world.without([name]), item)

    def _delete_rows(self, name: str, world: References, later: Collection[str]) -> None:
        known = {one.name for one in world.jobs}
        jobs = (*self._references.jobs(until=known), *world.jobs)
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
        """Removes the files of jobs whose rows are gone already."""
        with self.lock:
            if pending := self._store.removals():
                world = self._references.all()
                for name in pending:
                    self._finish(name, world, self._item_of(name))

    def _finish(self, name: str, world: References, item: SpaceItem) -> tuple[list[SpaceItem], list[KeptItem]]:
        items: list[SpaceItem] = []
        try:
            removal = self._set_aside(name)
            if removal is None:  # Another server has finished it: a new job may have the name.
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
            log.warning("files of the deleted job %s are still there; they are removed later: %s", name, error)
            return items, [KeptItem(f"files of job {name}", f"{error.what}; it is tried again", error.fix)]
        return [*items, *gone], kept

    def _set_aside(self, name: str) -> Removal | None:
        """Takes the files and metrics of a deleted job out of sight, if its removal is still pending."""
        with self._store.removing(name) as removal:
            if removal is not None:
                self._artifacts.set_aside_job(name)
                if self._runs:
                    self._runs.remove(name)
        return removal

    def _remove_snapshots(self, note: str, world: References) -> tuple[list[SpaceItem], list[KeptItem]]:
        """Those of a deleted job that nothing else needs, unless they were asked for since that job was submitted."""
        digests = _asked_until([note])
        # An earlier deleted job's asking counts for this one's snapshots, too.
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
                log.info("%s was removed: nothing needs it any more", what)
            else:
                kept.append(KeptItem(what, "a client has asked for it since, and may be submitting a job with it"))
        return gone, kept

    def space_of(self, name: str) -> JobSpace:
        """The space that a job's folder takes."""
        return self._artifacts.job_space(name).get(name, JobSpace())

    def _item_of(self, name: str) -> SpaceItem:
        try:
            needs = deletion_rules.needs_of_job(self._store.load(name).job)
        except NotFoundError:
            needs = None
        return job_item(needs or name, self.space_of(name))


def _asked_until(notes: Iterable[str]) -> dict[str, float]:
    """Digest to when the last of these deleted jobs was submitted with it: until then it was asked for by them."""
    latest: dict[str, float] = {}
    for written in (json.loads(note) for note in notes if note):
        for digest in written["snapshots"]:
            latest[digest] = max(latest.get(digest, 0.0), float(written["asked_until"]))
    return latest

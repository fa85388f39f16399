"""The service of disk space: usage, deletion of jobs, pruning, the retention rule."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta

from drumbeat.core import deletion_rules
from drumbeat.model.api.server import WarmWorkersView
from drumbeat.model.api.space import Freed, KeptItem, SpaceItem, Usage
from drumbeat.model.errors import DrumbeatError, NotFoundError
from drumbeat.ports.space import MachineCaches
from drumbeat.server.home_folder import FolderArtifacts
from drumbeat.server.loop.loop import Loop
from drumbeat.server.resources.environments import Environments
from drumbeat.server.space.cache_pruning import CachePruner
from drumbeat.server.space.items import job_item, make_freed, needed_by, refusal, snapshot_item, unknown
from drumbeat.server.space.job_pruning import TRIMMED, JobPruner
from drumbeat.server.space.job_removal import JobRemoval, JobRuns
from drumbeat.server.space.references import ReferenceReader
from drumbeat.server.space.retention_setting import RetentionRule

log = logging.getLogger(__name__)

INTERVAL_S = 60.0
"""How often interrupted removals are finished and the retention rule is applied."""


class Space:
    """Manages disk space. Thread-safe. caches: of this machine; None = they are ignored."""

    def __init__(
        self,
        loop: Loop,
        artifacts: FolderArtifacts,
        environments: Environments,
        caches: MachineCaches | None = None,
        runs: JobRuns | None = None,
        book_time: Callable[[str], object] | None = None,
    ) -> None:
        """book_time: books the time of a job that is deleted next, so that it stays known."""
        self._loop, self._store, self._artifacts = loop, loop.store, artifacts
        self.retention = RetentionRule(loop.store)
        self._caches, self._stopping = caches, threading.Event()
        self._references = ReferenceReader(loop.store)
        self._removal = JobRemoval(loop, artifacts, self._references, self._stopping, runs, book_time)
        self._jobs = JobPruner(loop, artifacts, self._references, self._removal, self._stopping)
        self._unused = CachePruner(loop, artifacts, environments, caches)
        self._thread = threading.Thread(target=self._run, name="space", daemon=True)

    def start(self) -> None:
        """Finishes the removals of an earlier server, and then applies the retention rule periodically."""
        self._thread.start()

    def stop(self) -> None:
        """Ends the thread after the current deletion."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(timeout=5)

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self.apply_retention()
            except Exception as error:
                log.warning("pruning failed and is retried: %s", error, exc_info=not isinstance(error, DrumbeatError))
            self._stopping.wait(INTERVAL_S)

    # --- the retention rule -----------------------------------------------------------------------------------
    def apply_retention(self) -> Freed:
        """Finishes removals, and deletes jobs that are older than the rule allows."""
        self._removal.finish_removals()
        retain_s = self.retention.retain_s
        if not retain_s:
            return Freed()
        age = timedelta(seconds=retain_s)
        freed = self._jobs.prune(age, keep_outputs=False, is_dry=False, by="the retention rule")
        self._unused.prune_snapshots(self._references.all(), (), (), is_dry=False)
        return freed

    def finish_removals(self) -> None:
        """Removes the files of jobs whose rows were deleted."""
        self._removal.finish_removals()

    # --- deleting ---------------------------------------------------------------------------------------------
    def delete(self, name: str, by: str) -> Freed:
        """Deletes a job and everything that only it needs. Idempotent: an interrupted deletion is finished.

        The children of a sweep or pipeline are deleted first, so that after a crash the request can be repeated. Raises
        NotFoundError; ConflictError with the reason why the job is kept.
        """
        try:
            deleted = self._store.load(name).job
        except NotFoundError:
            self._store.delete_job(name)  # Raises NotFoundError for a name that no job has had.
            self._removal.finish_removals()
            return Freed()
        self._removal.await_end(name)
        world = self._references.all()
        plan = deletion_rules.decide([name], world.jobs, world.assets)
        if kept := plan.reasons.get(name):
            raise refusal(kept)
        items: list[SpaceItem] = []
        left: list[KeptItem] = []
        with self._removal.lock:
            for number, job in enumerate(plan.jobs):
                rest = world.without(plan.jobs[:number])
                gone, stays = self._removal.delete(job, rest, by, later=plan.jobs[number + 1 :])
                items += gone
                left += stays
        return make_freed(items, [*left, *self._unused.left_environment(deleted)])

    def deletion_plan(self, names: Sequence[str]) -> Freed:
        """Returns what the deletion of these jobs would delete, and what it would keep and why. Unknown names are
        ignored.
        """
        world = self._references.all()
        plan = deletion_rules.decide(names, world.jobs, world.assets)
        going = set(plan.jobs)
        needed = deletion_rules.needed_snapshots(world.without(plan.jobs).jobs, world.assets)
        own = {digest for one in world.jobs if one.name in going for digest in one.snapshots} - needed.keys()
        snapshots = [
            snapshot_item(one.digest, one.size, one.asked_at)
            for one in self._artifacts.snapshots()
            if one.digest in own
        ]
        left = [kept for name in names if name in going for kept in self._left_environment(name)]
        items = [*(self._removal.item(name) for name in plan.jobs), *snapshots]
        return replace(make_freed(items, [*plan.reasons.values(), *left]), is_dry=True)

    def _left_environment(self, name: str) -> list[KeptItem]:
        try:
            return self._unused.left_environment(self._store.load(name).job)
        except NotFoundError:
            return []

    def prune(self, older_than: timedelta, *, keep_outputs: bool, is_dry: bool) -> Freed:
        """Deletes jobs that ended at least so long ago, snapshots that nothing needs, and cache entries of this machine
        that were unused for so long. keep_outputs: of jobs with outputs, delete only logs and checkpoints.
        """
        if not is_dry:
            self._removal.finish_removals()
        jobs = self._jobs.prune(older_than, keep_outputs=keep_outputs, is_dry=is_dry, by="prune")
        going = [one.name for one in jobs.items if one.kind == "job" and one.note != TRIMMED] if is_dry else []
        orphans = self._unused.prune_snapshots(
            self._references.all(), going, {one.name for one in jobs.items}, is_dry=is_dry
        )
        caches = self._unused.prune_caches(older_than, is_dry=is_dry)
        items = [*jobs.items, *orphans, *caches.items]
        return replace(make_freed(items, [*jobs.kept, *caches.kept]), is_dry=is_dry)

    def prune_snapshots(self, *, is_dry: bool) -> Freed:
        """Deletes the snapshots that nothing needs, and which nothing has named for a day."""
        items = self._unused.prune_snapshots(self._references.all(), (), (), is_dry=is_dry)
        return replace(make_freed(items, ()), is_dry=is_dry)

    # --- usage ------------------------------------------------------------------------------------------------
    def spares(self) -> list[WarmWorkersView]:
        """Returns the warm workers on this machine that no job uses."""
        return self._caches.spares() if self._caches else []

    def end_spares(self) -> None:
        """Ends the warm workers, so that the next job starts cold."""
        if self._caches:
            self._caches.end_spares()

    def usage(self) -> Usage:
        """Returns the disk usage, largest items first."""
        world = self._references.all()
        jobs = {one.name: one for one in world.jobs}
        needed = deletion_rules.needed_snapshots(world.jobs, world.assets)
        items = [
            job_item(jobs.get(name) or unknown(name, self._store.removals()), space)
            for name, space in self._artifacts.job_space().items()
        ]
        for one in self._artifacts.snapshots():
            users = needed.get(one.digest)
            note = needed_by(users) if users else "nothing needs it"
            items.append(replace(snapshot_item(one.digest, one.size, one.asked_at), note=note))
        if self._caches:
            items += self._caches.usage()
        items.sort(key=lambda one: (-one.size, one.kind, one.name))
        totals: dict[str, int] = {}
        for one in items:
            totals[one.kind] = totals.get(one.kind, 0) + one.size
        totals = dict(sorted(totals.items(), key=lambda pair: -pair[1]))
        free = self._caches.free() if self._caches else 0
        return Usage(tuple(items), totals, sum(totals.values()), free, self.retention.retain_s)

"""Deleting jobs, giving space back, and saying what takes it.

A job is deleted in two steps: its rows go in one transaction, which also notes whose files are to be removed; then the
files go. A server that is killed in between, or whose disk refuses, is followed by one that goes on with that note.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from drumbeat.control.bus import job_topic
from drumbeat.control.catalog.environments import KIND, Environments
from drumbeat.control.loop.loop import Loop
from drumbeat.core import retention
from drumbeat.core.life.events import KeepStory, StoryEntry
from drumbeat.core.retention import AssetNeeds, JobNeeds
from drumbeat.ports import Artifacts, Change, JobFilter, JobSpace, MachineCaches
from drumbeat.protocol.api.space import Freed, KeptItem, SpaceItem, Usage
from drumbeat.protocol.errors import ConflictError, DrumbeatError, NotFoundError, RefusedError, StaleError, StorageError
from drumbeat.protocol.faults import faultpoint

log = logging.getLogger(__name__)

RETAIN = "retain_s"
"""The name of the setting."""
INTERVAL_S = 60.0
"""How often removals that were interrupted are finished, and the retention rule is applied."""
MIN_RETAIN_S = 60.0
END_TIMEOUT_S = 10.0
"""How long a job that has just ended is waited for: its nodes are still being stopped."""
ORPHAN_AGE = timedelta(days=1)
"""A snapshot that no job has named goes after this long: sending the rest of a job may take hours."""
PAGE = 500
TRIMMED = "logs and checkpoints; its outputs are kept"
"""What is said of a job that stays without them."""


@dataclass(frozen=True)
class References:
    """Every job and every registered version, as far as it decides what may go."""

    jobs: tuple[JobNeeds, ...]
    assets: tuple[AssetNeeds, ...]

    def without(self, names: Collection[str]) -> References:
        """The same without these jobs."""
        return replace(self, jobs=tuple(one for one in self.jobs if one.name not in names))


class Space:
    """What a server can be asked about space. For any thread. caches: of this machine; None = they aren't looked at."""

    def __init__(
        self, loop: Loop, artifacts: Artifacts, environments: Environments, caches: MachineCaches | None = None
    ) -> None:
        self._loop, self._store, self._artifacts = loop, loop.store, artifacts
        self._environments, self._caches = environments, caches
        self._lock = threading.Lock()
        """One removal at a time: two would count the same bytes."""
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="space", daemon=True)

    def start(self) -> None:
        """Finishes what an earlier server left, and then applies the retention rule at intervals."""
        self._thread.start()

    def stop(self) -> None:
        """Ends the thread after the job that it is deleting."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(timeout=5)

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self.apply_retention()
            except Exception as error:
                log.warning("space is given back later: %s", error, exc_info=not isinstance(error, DrumbeatError))
            self._stopping.wait(INTERVAL_S)

    # --- the retention rule -----------------------------------------------------------------------------------
    @property
    def retain_s(self) -> float:
        """After how many seconds jobs that have ended are deleted; 0 = never."""
        return float(self._store.setting(RETAIN) or 0.0)

    def set_retention(self, retain_s: float) -> None:
        """Sets the rule for all servers over this store; it survives restarts. 0 = nothing is deleted."""
        if retain_s and not MIN_RETAIN_S <= retain_s < timedelta.max.total_seconds():
            what = f"jobs can't be retained for {retain_s:g} s; the shortest time is {MIN_RETAIN_S:g} s"
            raise RefusedError(what, where="retain_s", fix="Give a longer time, like 30d; `off` turns the rule off.")
        self._store.set_setting(RETAIN, repr(retain_s) if retain_s else "")
        log.info("retention: %s", f"jobs are deleted {retain_s:g} s after their end" if retain_s else "off")

    def apply_retention(self) -> Freed:
        """Finishes removals, and deletes the jobs whose time is over."""
        self.finish_removals()
        retain_s = self.retain_s
        if not retain_s:
            return Freed()
        age = timedelta(seconds=retain_s)
        freed = self._prune_jobs(age, keep_outputs=False, is_dry=False, by="the retention rule")
        self._prune_snapshots(self._world(), (), (), is_dry=False)
        return freed

    # --- deleting ---------------------------------------------------------------------------------------------
    def delete(self, name: str, by: str) -> Freed:
        """Deletes a job and all that only it needs. Idempotent: a job that was deleted is finished, and nothing more.

        Raises NotFoundError; ConflictError with the reason why it is kept.
        """
        try:
            self._store.load(name)
        except NotFoundError:
            self._store.delete_job(self._loop.token, name)  # Raises for a name that no job has had.
            self.finish_removals()
            return Freed()
        self._await_end(name)
        world = self._world()
        if kept := retention.decide([name], world.jobs, world.assets).reasons.get(name):
            raise _refusal(kept)
        with self._lock:
            return _freed(*self._delete(name, world, by))

    def _await_end(self, name: str) -> None:
        deadline = time.monotonic() + END_TIMEOUT_S
        while self._store.load(name).job.state.is_terminal and self._is_finalizing(name):
            if time.monotonic() > deadline:
                return  # The store, or the decision, says why it can't go.
            self._stopping.wait(0.05)

    def _is_finalizing(self, name: str) -> bool:
        return any(one.job == name and not isinstance(one.effect, KeepStory) for one in self._store.outbox())

    def _delete(self, name: str, world: References, by: str) -> tuple[list[SpaceItem], list[KeptItem]]:
        """Deletes a job that may go; what went with it, and what is still there. Raises ConflictError, NotFoundError.

        Who names the job's outputs meanwhile is seen on the loop's thread, where new jobs are written, too.
        """
        item = self._item_of(name)
        self._loop.call(lambda: self._delete_rows(name, world))
        log.info("job %s was deleted by %s, with %d bytes", name, by, item.size)
        faultpoint("delete.committed")
        return self._finish(name, self._store.removals().get(name, ""), world.without([name]), item)

    def _delete_rows(self, name: str, world: References) -> None:
        known = {one.name for one in world.jobs}
        newer = tuple(self._jobs(until=known))
        if kept := retention.decide([name], (*newer, *world.jobs), self._assets()).reasons.get(name):
            raise _refusal(kept)
        job = self._store.load(name).job
        note = json.dumps(
            {"snapshots": sorted(retention.needs_of_job(job).snapshots), "asked_until": job.submitted_at.timestamp()}
        )
        try:
            self._store.delete_job(self._loop.token, name, note)
        except StaleError:
            self._loop.beat()  # This server had been replaced; now it is a new one.
            self._store.delete_job(self._loop.token, name, note)

    def finish_removals(self) -> None:
        """Removes the files of jobs whose rows are gone already."""
        with self._lock:
            if pending := self._store.removals():
                world = self._world()
                for name, note in pending.items():
                    self._finish(name, note, world, self._item_of(name))

    def _finish(
        self, name: str, note: str, world: References, item: SpaceItem
    ) -> tuple[list[SpaceItem], list[KeptItem]]:
        items: list[SpaceItem] = []
        try:
            self._artifacts.remove_job(name)
            items.append(item)
            faultpoint("delete.files_removed")
            gone, kept = self._remove_snapshots(note, world)
            faultpoint("delete.snapshots_removed")
            self._store.removed(name)
        except StorageError as error:
            log.warning("files of the deleted job %s are still there; they are removed later: %s", name, error)
            return items, [KeptItem(f"files of job {name}", f"{error.what}; it is tried again", error.fix)]
        return [*items, *gone], kept

    def _remove_snapshots(self, note: str, world: References) -> tuple[list[SpaceItem], list[KeptItem]]:
        """Those of a deleted job that nothing else needs, unless they were asked for since that job was submitted."""
        digests = _asked_until([note])
        # An earlier deleted job's asking counts for this one's snapshots, too.
        asked_until = _asked_until(self._store.removals(finished=True).values())
        newer = self._jobs(until={one.name for one in world.jobs})
        needed = retention.needed_snapshots((*world.jobs, *newer), self._assets())
        gone: list[SpaceItem] = []
        kept: list[KeptItem] = []
        for one in [one for one in self._artifacts.snapshots() if one.digest in digests]:
            what = f"snapshot {one.digest[:12]}"
            if users := needed.get(one.digest):
                kept.append(KeptItem(what, _needed_by(users)))
            elif self._artifacts.remove_snapshot(one.digest, unasked_since=asked_until[one.digest]):
                gone.append(_snapshot_item(one.digest, one.size, one.asked_at))
                log.info("%s was removed: nothing needs it any more", what)
            else:
                kept.append(KeptItem(what, "a client has asked for it since, and may be submitting a job with it"))
        return gone, kept

    # --- pruning ----------------------------------------------------------------------------------------------
    def prune(self, older_than: timedelta, *, keep_outputs: bool, is_dry: bool) -> Freed:
        """Deletes the jobs that ended at least so long ago, snapshots that nothing needs, and what the caches of this
        machine hold unused for so long. keep_outputs: jobs that have kept outputs stay, without logs and checkpoints.
        """
        if not is_dry:
            self.finish_removals()
        jobs = self._prune_jobs(older_than, keep_outputs=keep_outputs, is_dry=is_dry, by="prune")
        going = [one.name for one in jobs.items if one.kind == "job" and one.note != TRIMMED] if is_dry else []
        orphans = self._prune_snapshots(self._world(), going, {one.name for one in jobs.items}, is_dry=is_dry)
        caches = self._prune_caches(older_than, is_dry=is_dry)
        items = [*jobs.items, *orphans, *caches.items]
        return replace(_freed(items, [*jobs.kept, *caches.kept]), is_dry=is_dry)

    def _prune_jobs(self, older_than: timedelta, *, keep_outputs: bool, is_dry: bool, by: str) -> Freed:
        world = self._world()
        asked = retention.expired(world.jobs, self._loop.clock.now(), older_than)
        spaces = {name: self._space_of(name) for name in asked}
        trimmed = [name for name in asked if keep_outputs and spaces[name].outputs]
        decision = retention.decide([name for name in asked if name not in trimmed], world.jobs, world.assets)
        kept = list(decision.reasons.values())
        if is_dry:
            gone = [_job_item(_needs(name, world), spaces[name]) for name in decision.jobs]
            return _freed([*gone, *self._trim(trimmed, world, spaces, is_dry=True)], kept)
        items: list[SpaceItem] = []
        for name in decision.jobs:
            if self._stopping.is_set():
                break
            with self._lock:
                try:
                    gone, left = self._delete(name, world, by)
                except (ConflictError, NotFoundError) as error:  # Another client was quicker, or needs it by now.
                    kept.append(KeptItem(f"job {name}", error.what, error.fix))
                else:
                    items, kept = [*items, *gone], [*kept, *left]
                    world = world.without([name])
        return _freed([*items, *self._trim(trimmed, world, spaces, is_dry=False)], kept)

    def _trim(
        self, names: list[str], world: References, spaces: dict[str, JobSpace], *, is_dry: bool
    ) -> list[SpaceItem]:
        """Removes logs and checkpoints of jobs that stay."""
        items: list[SpaceItem] = []
        for name in names:
            size = spaces[name].logs + spaces[name].checkpoints
            if not size or _needs(name, world).unplaced:
                continue
            if not is_dry:
                self._artifacts.remove_logs(name)
                self._loop.call(lambda name=name: self._say(name, "logs and checkpoints were removed by prune"))
                log.info("logs and checkpoints of job %s were removed by prune: %d bytes", name, size)
            parts = {"logs": spaces[name].logs, "checkpoints": spaces[name].checkpoints}
            items.append(SpaceItem("job", name, size, _needs(name, world).ended_at, TRIMMED, parts))
        return items

    def _say(self, name: str, sentence: str) -> None:
        """Adds a line to the story of a job that has ended; what another server holds is said in the log alone."""
        record = self._store.load(name)
        job = record.job
        line = StoryEntry(self._loop.clock.now(), job.state, job.reason, sentence, job.attempt, job.round)
        try:
            self._store.commit(self._loop.token, [Change(job, record.version, story=(line,))])
        except StaleError as error:
            log.info("the story of job %s doesn't say it: %s", name, error)
        else:
            self._loop.bus.publish(job_topic(name))

    def _prune_snapshots(
        self, world: References, going: Collection[str], done: Collection[str], *, is_dry: bool
    ) -> list[SpaceItem]:
        """Snapshots that no job has named for a day; in a rehearsal also those that only the jobs which go have named.

        done: digests that are counted already.
        """
        rest = world.without(going)
        needed = retention.needed_snapshots(rest.jobs, rest.assets)
        before = retention.needed_snapshots(world.jobs, ())
        since = (self._loop.clock.now() - ORPHAN_AGE).timestamp()
        items: list[SpaceItem] = []
        for one in self._artifacts.snapshots():
            if one.digest in needed or one.digest in done:
                continue
            if is_dry:
                is_gone = one.digest in before or one.asked_at <= since
            else:
                is_gone = self._artifacts.remove_snapshot(one.digest, unasked_since=since)
            if is_gone:
                items.append(_snapshot_item(one.digest, one.size, one.asked_at))
        return items

    def _prune_caches(self, older_than: timedelta, *, is_dry: bool) -> Freed:
        if self._caches is None:
            return Freed()
        freed = self._caches.prune(older_than.total_seconds(), self._needed_environments(), is_dry=is_dry)
        for one in freed.items if not is_dry else ():
            log.info("%s %s was removed: %d bytes", one.kind, one.name, one.size)
        return freed

    def _needed_environments(self) -> dict[str, str]:
        """Key of an environment's content to what needs it: an unfinished job, a registered version, an alias."""
        needed: dict[str, str] = {}
        for record in self._store.unfinished():
            if record.job.plan.python:
                needed.setdefault(record.job.plan.python.key, f"job {record.job.name}")
        for view in self._environments.list():
            if view.python:
                needed.setdefault(view.python.key, f"environment {view.name}:{view.version}")
        for (kind, name), target in self._store.aliases().items():
            if kind == KIND and (key := self._key_of(target)):
                needed.setdefault(key, f"alias {name}")
        return needed

    def _key_of(self, target: str) -> str:
        name, _, version = target.removeprefix("azureml:").partition(":")
        try:
            view = self._environments.show(name, version)
        except DrumbeatError:
            return ""  # It names something else, or nothing that is there.
        return view.python.key if view.python else ""

    # --- usage ------------------------------------------------------------------------------------------------
    def usage(self) -> Usage:
        """What takes space, the biggest first."""
        world = self._world()
        jobs = {one.name: one for one in world.jobs}
        needed = retention.needed_snapshots(world.jobs, world.assets)
        items = [
            _job_item(jobs.get(name) or _unknown(name, self._store.removals()), space)
            for name, space in self._artifacts.job_space().items()
        ]
        for one in self._artifacts.snapshots():
            users = needed.get(one.digest)
            note = _needed_by(users) if users else "nothing needs it"
            items.append(replace(_snapshot_item(one.digest, one.size, one.asked_at), note=note))
        if self._caches:
            items += self._caches.usage()
        items.sort(key=lambda one: (-one.size, one.kind, one.name))
        totals: dict[str, int] = {}
        for one in items:
            totals[one.kind] = totals.get(one.kind, 0) + one.size
        totals = dict(sorted(totals.items(), key=lambda pair: -pair[1]))
        free = self._caches.free() if self._caches else 0
        return Usage(tuple(items), totals, sum(totals.values()), free, self.retain_s)

    # --- reading ----------------------------------------------------------------------------------------------
    def _world(self) -> References:
        return References(tuple(self._jobs()), self._assets())

    def _jobs(self, until: Collection[str] = ()) -> Iterator[JobNeeds]:
        """Every job, newest first, up to the first one of those names."""
        after: str | None = None
        seen: set[str] = set()
        while True:
            try:
                page = self._store.jobs(JobFilter(is_archived=None, limit=PAGE, after=after))
            except NotFoundError:  # The last job of the page before was deleted meanwhile.
                after = None
                continue
            for record in page:
                if record.job.name in until:
                    return
                if record.job.name not in seen:
                    seen.add(record.job.name)
                    yield retention.needs_of_job(record.job)
            if len(page) < PAGE:
                return
            after = page[-1].job.name

    def _assets(self) -> tuple[AssetNeeds, ...]:
        versions = [*self._store.assets("data"), *self._store.assets("environment")]
        return tuple(retention.needs_of_asset(one.kind, one.name, one.version, one.document) for one in versions)

    def _space_of(self, name: str) -> JobSpace:
        return self._artifacts.job_space(name).get(name, JobSpace())

    def _item_of(self, name: str) -> SpaceItem:
        try:
            needs = retention.needs_of_job(self._store.load(name).job)
        except NotFoundError:
            needs = None
        return _job_item(needs or name, self._space_of(name))


def _asked_until(notes: Iterable[str]) -> dict[str, float]:
    """Digest to when the last of these deleted jobs was submitted with it: until then it was asked for by them."""
    latest: dict[str, float] = {}
    for written in (json.loads(note) for note in notes if note):
        for digest in written["snapshots"]:
            latest[digest] = max(latest.get(digest, 0.0), float(written["asked_until"]))
    return latest


def _needs(name: str, world: References) -> JobNeeds:
    return next(one for one in world.jobs if one.name == name)


def _unknown(name: str, removals: Collection[str]) -> str:
    return f"{name} (being deleted)" if name in removals else f"{name} (no job of this server)"


def _job_item(job: JobNeeds | str, space: JobSpace) -> SpaceItem:
    parts = {
        "outputs": space.outputs,
        "logs": space.logs,
        "checkpoints": space.checkpoints,
        "other": space.other,
    }
    if isinstance(job, str):
        name, _, note = job.partition(" ")
        return SpaceItem("job", name, space.total, None, note.strip("()"), parts)
    return SpaceItem("job", job.name, space.total, job.ended_at, job.state, parts)


def _snapshot_item(digest: str, size: int, asked_at: float) -> SpaceItem:
    return SpaceItem("snapshot", digest, size, datetime.fromtimestamp(asked_at, UTC))


def _needed_by(users: list[str]) -> str:
    more = f" and {len(users) - 3} more" if len(users) > 3 else ""
    return f"needed by {', '.join(users[:3])}{more}"


def _freed(items: Collection[SpaceItem], kept: Collection[KeptItem]) -> Freed:
    biggest_first = tuple(sorted(items, key=lambda one: (-one.size, one.kind, one.name)))
    return Freed(biggest_first, tuple(kept), sum(one.size for one in items))


def _refusal(kept: KeptItem) -> ConflictError:
    return ConflictError(f"{kept.what} isn't deleted: {kept.why}", fix=kept.fix)

"""Prunes snapshots and this machine's caches that no job and no registered version needs."""

from __future__ import annotations

import logging
from collections.abc import Collection
from datetime import timedelta

from drumbeat.core import deletion_rules
from drumbeat.core.lifecycle.job import Job
from drumbeat.model.api.space import Freed, KeptItem, SpaceItem
from drumbeat.model.errors import DrumbeatError
from drumbeat.ports.space import MachineCaches
from drumbeat.server.home_folder import FolderArtifacts
from drumbeat.server.loop.loop import Loop
from drumbeat.server.resources.aliases import read_aliases
from drumbeat.server.resources.environments import KIND, Environments
from drumbeat.server.space.items import snapshot_item
from drumbeat.server.space.references import References

log = logging.getLogger(__name__)

ORPHAN_AGE = timedelta(days=1)
"""A snapshot that no job has named is pruned after this time, as uploading the rest of a job may take hours."""


class CachePruner:
    """Frees snapshots and caches. caches: of this machine; None = they aren't pruned."""

    def __init__(
        self, loop: Loop, artifacts: FolderArtifacts, environments: Environments, caches: MachineCaches | None
    ) -> None:
        self._loop, self._store, self._artifacts = loop, loop.store, artifacts
        self._environments, self._caches = environments, caches

    def prune_snapshots(
        self, world: References, going: Collection[str], done: Collection[str], *, is_dry: bool
    ) -> list[SpaceItem]:
        """Removes snapshots that no job has named for a day; a dry run also lists those of jobs that would be deleted.

        going: jobs that would be deleted. done: digests that are counted already.
        """
        rest = world.without(going)
        needed = deletion_rules.needed_snapshots(rest.jobs, rest.assets)
        before = deletion_rules.needed_snapshots(world.jobs, ())
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
                items.append(snapshot_item(one.digest, one.size, one.asked_at))
        return items

    def prune_caches(self, older_than: timedelta, *, is_dry: bool) -> Freed:
        """Frees cache entries of this machine that haven't been used for so long, except needed environments."""
        if self._caches is None:
            return Freed()
        freed = self._caches.prune(older_than.total_seconds(), self._needed_environments(), is_dry=is_dry)
        for one in freed.items if not is_dry else ():
            log.info("%s %s was removed: %d bytes", one.kind, one.name, one.size)
        return freed

    def left_environment(self, job: Job) -> list[KeptItem]:
        """Returns the note that a deleted job's environment stays in the cache."""
        python = job.plan.python
        item = self._caches.environment(python.key) if self._caches and python else None
        if item is None or python is None:
            return []
        why = self._needed_environments().get(python.key)
        size = f"{item.size / (1 << 20):,.0f} MiB"
        fix = "`drumbeat usage` lists it; `drumbeat prune` deletes it after 30 days without use"
        return [
            KeptItem(
                f"environment {item.note} in this machine's cache ({size})",
                f"{why} needs it" if why else "the next job with this environment can use it",
                "" if why else fix,
            )
        ]

    def _needed_environments(self) -> dict[str, str]:
        """Returns who needs each environment, by its content key: an unfinished job, a registered version, an alias."""
        needed: dict[str, str] = {}
        for record in self._store.unfinished():
            if record.job.plan.python:
                needed.setdefault(record.job.plan.python.key, f"job {record.job.name}")
        for view in self._environments.list():
            if view.python:
                needed.setdefault(view.python.key, f"environment {view.name}:{view.version}")
        for (kind, name), target in read_aliases(self._store).items():
            if kind == KIND and (key := self._environment_key(target)):
                needed.setdefault(key, f"alias {name}")
        return needed

    def _environment_key(self, target: str) -> str:
        name, _, version = target.removeprefix("azureml:").partition(":")
        try:
            view = self._environments.show(name, version)
        except DrumbeatError:
            return ""  # The target isn't an environment, or doesn't exist.
        return view.python.key if view.python else ""

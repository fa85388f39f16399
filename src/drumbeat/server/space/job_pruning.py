"""Prunes jobs by age: deletes old jobs, or only their logs and checkpoints.

`core/deletion_rules.py` decides which jobs are old enough, and which are kept nevertheless.
"""

from __future__ import annotations

import logging
import threading
from datetime import timedelta

from drumbeat.core import deletion_rules
from drumbeat.core.lifecycle.events import JobEvent
from drumbeat.model.api.space import Freed, KeptItem, SpaceItem
from drumbeat.model.errors import AwayError, ConflictError, NotFoundError, StaleError, StorageError
from drumbeat.server.database.records import Change
from drumbeat.server.home_folder import FolderArtifacts
from drumbeat.server.home_folder.stored_files import JobSpace
from drumbeat.server.loop.bus import job_topic
from drumbeat.server.loop.loop import Loop
from drumbeat.server.space.items import job_item, make_freed
from drumbeat.server.space.job_removal import JobRemoval
from drumbeat.server.space.references import ReferenceReader, References

log = logging.getLogger(__name__)

TRIMMED = "logs and checkpoints; its outputs are kept"
"""The note on a job of which only these were removed."""


class JobPruner:
    """Prunes ended jobs. stopping: set when the server stops; the rest is pruned after its next start."""

    def __init__(
        self,
        loop: Loop,
        artifacts: FolderArtifacts,
        references: ReferenceReader,
        removal: JobRemoval,
        stopping: threading.Event,
    ) -> None:
        self._loop, self._store, self._artifacts = loop, loop.store, artifacts
        self._references, self._removal, self._stopping = references, removal, stopping

    def prune(self, older_than: timedelta, *, keep_outputs: bool, is_dry: bool, by: str) -> Freed:
        """Deletes jobs that ended at least so long ago. keep_outputs: only trim those that have outputs."""
        world = self._references.all()
        asked = deletion_rules.expired(world.jobs, self._loop.clock.now(), older_than)
        spaces = {name: self._removal.space(name) for name in asked}
        trimmed = [name for name in asked if keep_outputs and self._has_outputs(name)]
        decision = deletion_rules.decide(asked, world.jobs, world.assets, trimmed)
        kept = list(decision.reasons.values())
        if is_dry:
            gone = [job_item(world.needs(name), self._removal.space(name)) for name in decision.jobs]
            return make_freed([*gone, *self._trim(trimmed, world, spaces, kept, is_dry=True)], kept)
        items: list[SpaceItem] = []
        for number, name in enumerate(decision.jobs):
            if self._stopping.is_set():
                break
            with self._removal.lock:
                try:
                    gone, left = self._removal.delete(name, world, by, later=decision.jobs[number + 1 :])
                except (ConflictError, NotFoundError) as error:  # Another client has deleted it, or needs it by now.
                    kept.append(KeptItem(f"job {name}", error.what, error.fix))
                else:
                    items, kept = [*items, *gone], [*kept, *left]
                    world = world.without([name])
        items += self._trim(trimmed, world, spaces, kept, is_dry=False)
        return make_freed(items, kept)

    def _has_outputs(self, name: str) -> bool:
        """Whether a job has an output file. Sizes don't tell, as an empty file takes no space on some file systems."""
        return any(file.path.startswith("outputs/") for file in self._artifacts.files(name))

    def _trim(
        self, names: list[str], world: References, spaces: dict[str, JobSpace], kept: list[KeptItem], *, is_dry: bool
    ) -> list[SpaceItem]:
        """Removes logs and checkpoints of jobs, and adds failures to `kept`."""
        items: list[SpaceItem] = []
        for name in names:
            if self._stopping.is_set():
                break
            needs, space = world.needs(name), spaces[name]
            size = space.logs + space.checkpoints
            if not size or needs.unplaced:
                continue
            if reason := deletion_rules.kept_checkpoints(name, world.jobs):
                kept.append(reason)
                continue
            try:
                if not is_dry:
                    self._remove_logs(name)
            except NotFoundError:  # The job was deleted meanwhile.
                continue
            except AwayError:
                raise
            except StorageError as error:
                kept.append(KeptItem(f"logs and checkpoints of job {name}", error.what, error.fix))
                continue
            parts = {"logs": space.logs, "checkpoints": space.checkpoints}
            items.append(SpaceItem("job", name, size, needs.ended_at, TRIMMED, parts))
            if not is_dry:
                log.info("logs and checkpoints of job %s were removed by prune: %d bytes", name, size)
        return items

    def _remove_logs(self, name: str) -> None:
        """Removes the logs and checkpoints of a job, and adds an event. Raises NotFoundError, StorageError."""
        with self._removal.lock:
            self._store.load(name)
            self._artifacts.remove_logs(name)
            self._loop.call(lambda: self._add_event(name, "logs and checkpoints were removed by prune"))

    def _add_event(self, name: str, sentence: str) -> None:
        """Adds an event to an ended job, unless the job has changed meanwhile."""
        record = self._store.load(name)
        job = record.job
        line = JobEvent(self._loop.clock.now(), job.state, job.reason, sentence, job.attempt, job.round)
        try:
            self._store.commit([Change(job, record.version, events=(line,))])
        except StaleError as error:
            log.info("the event about pruning job %s was not added: %s", name, error)
        else:
            self._loop.bus.publish(job_topic(name))

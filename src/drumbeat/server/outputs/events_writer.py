"""The effect `keep_story`, which writes a job's plan and events beside its results."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

from drumbeat.core.lifecycle.events import KeepEvents
from drumbeat.core.lifecycle.job import Job
from drumbeat.model import wire
from drumbeat.model.failpoints import failpoint
from drumbeat.server.database import SqlStore
from drumbeat.server.database.records import PendingEffect
from drumbeat.server.home_folder import FolderArtifacts
from drumbeat.server.loop.outbox import FILES, Handler, Pool

EVENTS = "story.jsonl"
PLAN = "plan.json"


class EventsWriter:
    """Writes the files. at_end: functions that are called with each ended job, repeatedly if the server is killed."""

    def __init__(
        self, store: SqlStore, artifacts: FolderArtifacts, at_end: Sequence[Callable[[Job], None]] = ()
    ) -> None:
        self._store, self._artifacts, self._at_end = store, artifacts, at_end

    def handler(self) -> Handler:
        """The handler of `keep_story`. It has a pool of its own, because large event files take long to read."""
        return Handler(KeepEvents, FILES, self._carry_out, lambda _pending: Pool("story"))

    def _carry_out(self, pending: PendingEffect, job: Job) -> None:
        self.write(job)
        for act in self._at_end:
            act(job)
        self._store.done(pending.id)

    def write(self, job: Job) -> None:
        """Writes plan and events. Idempotent. Raises StorageError."""
        lines = [json.dumps(wire.to_wire(entry)) for entry in self._store.events(job.name)]
        self._artifacts.write_text(job.name, PLAN, wire.dumps(job.plan))
        failpoint("effect.keeping_story")
        self._artifacts.write_text(job.name, EVENTS, "\n".join(lines) + "\n")
        failpoint("effect.story_kept")

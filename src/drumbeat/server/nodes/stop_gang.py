"""Stopping gangs: the effect `stop_gang`."""

from __future__ import annotations

import logging

from drumbeat.core.lifecycle.events import GangObserved, StopGang
from drumbeat.core.lifecycle.job import Job
from drumbeat.model.errors import StorageError
from drumbeat.model.failpoints import failpoint
from drumbeat.model.unique_names import gang_name
from drumbeat.server.computes.engines import Engines
from drumbeat.server.database.records import PendingEffect
from drumbeat.server.home_folder import FolderArtifacts
from drumbeat.server.loop.loop import Loop
from drumbeat.server.loop.outbox import NODES, Handler, Pool

log = logging.getLogger(__name__)


class GangStopper:
    """Has engines stop gangs, and gives their slots back."""

    def __init__(self, loop: Loop, engines: Engines, artifacts: FolderArtifacts) -> None:
        self._loop, self._engines, self._artifacts = loop, engines, artifacts

    def handler(self) -> Handler:
        """The handler of `stop_gang`."""
        return Handler(StopGang, NODES, self._carry_out, self._pool, self._failed)

    def _pool(self, pending: PendingEffect) -> Pool:
        """One pool for each compute: a cluster that takes its time to end what runs there holds up no other's."""
        return Pool(f"stopper {self._loop.record(pending.job).job.plan.compute}")

    def _carry_out(self, pending: PendingEffect, job: Job) -> None:
        effect = pending.effect
        assert isinstance(effect, StopGang)  # noqa: S101 - the outbox hands each kind to its handler
        if effect.keep_s and not self._loop.call(lambda: self._loop.kept_gangs.close(pending)):
            return  # Another job has taken the nodes over.
        failpoint("effect.claimed")
        self._engines[job.plan.compute].stop(effect.gang or gang_name(job.unique_name, pending.attempt))
        self._drop_parts(pending)
        failpoint("effect.stopped")
        self._loop.store.done(pending.id, release=(pending.job, pending.attempt), at=self._loop.clock.now())
        self._loop.call(self._loop.freed)

    def _drop_parts(self, pending: PendingEffect) -> None:
        """Removes what its nodes were sending when they ended. A failure here keeps no slots."""
        try:
            self._artifacts.drop_parts(pending.job, pending.attempt)
        except StorageError as error:
            log.warning("half-sent outputs of job %s stay: %s", pending.job, error)

    def _failed(self, pending: PendingEffect, error: Exception) -> None:
        """Tells the next attempt why it waits: it has its nodes, and begins when this one has ended."""
        record = self._loop.jobs.get(pending.job)
        if record and record.job.attempt > pending.attempt:
            word = f"attempt {pending.attempt} hasn't ended: {error}"
            self._loop.tell(pending.job, GangObserved(record.job.attempt, word, is_asked=False))

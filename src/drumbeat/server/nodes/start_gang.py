"""Starting gangs: the effect `start_gang`."""

from __future__ import annotations

from drumbeat.core.lifecycle.events import GangObserved, GangRefused, NodeLost, StartGang
from drumbeat.core.lifecycle.job import Job
from drumbeat.model.errors import EngineError, StandbyError, UnreachableError
from drumbeat.model.failpoints import failpoint
from drumbeat.model.states import State
from drumbeat.server.computes.engines import Engines
from drumbeat.server.data.inputs import JobInputs
from drumbeat.server.database.records import PendingEffect
from drumbeat.server.loop.loop import Loop
from drumbeat.server.loop.outbox import NODES, Handler, Pool
from drumbeat.server.nodes.engine_gangs import GangFactory


class GangStarter:
    """Has engines start gangs."""

    def __init__(self, loop: Loop, engines: Engines, gangs: GangFactory, inputs: JobInputs) -> None:
        self._loop, self._engines, self._gangs, self._inputs = loop, engines, gangs, inputs

    def handler(self) -> Handler:
        """The handler of `start_gang`."""
        return Handler(StartGang, NODES, self._carry_out, self._pool)

    def _pool(self, pending: PendingEffect) -> Pool:
        """One pool for each compute: every job for one that doesn't answer waits there, and is asked for again."""
        return Pool(f"submitter {self._loop.record(pending.job).job.plan.compute}")

    def _carry_out(self, pending: PendingEffect, job: Job) -> None:
        """Starts the gang, unless its attempt is over."""
        if is_wanted(job, pending.attempt):
            self._loop.tell(pending.job, self._started(job, pending))
        self._loop.store.done(pending.id)

    def _started(self, job: Job, pending: PendingEffect) -> GangObserved | GangRefused | NodeLost:
        engine = self._engines[job.plan.compute]
        try:
            gang = self._gangs.of(job)
            self._inputs.prepare(job)
            if job.taken:  # Its agents have been told; the watch starts one again that has ended.
                return GangObserved(pending.attempt, f"took over the nodes of {job.taken.job}")
            word = engine.start(gang)
            failpoint("effect.started")
        except EngineError as error:
            return GangRefused(pending.attempt, str(error))
        except UnreachableError as error:
            if engine.has_queue or not error.where:  # No machine is at fault: it is asked again.
                self._loop.tell(pending.job, GangObserved(pending.attempt, error.what, is_asked=False))
                raise
            self._engines.look()  # Before anything is placed again.
            node = next((slot.node for slot in job.slots if slot.machine == error.where), 0)
            return NodeLost(pending.attempt, node, error.what)
        try:
            self._loop.held(pending.job)
        except StandbyError:
            # The active server may have stopped this gang before it was started here.
            if not is_wanted(self._loop.store.load(pending.job).job, pending.attempt):
                engine.stop(gang.name)
            raise
        return GangObserved(pending.attempt, word)


def is_wanted(job: Job, attempt: int) -> bool:
    """Whether the gang of that attempt should be running."""
    return job.attempt == attempt and job.state is not State.QUEUED and not job.state.is_terminal

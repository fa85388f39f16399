"""The outbox, carried out: each effect at least once, those of one job one after the other.

But what a job leaves in files doesn't wait for its nodes to end: a cluster that doesn't answer keeps no result back.
"""

from __future__ import annotations

import contextlib
import json
import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

from drumbeat.control.computes.computes import Computes
from drumbeat.control.loop.loop import Loop
from drumbeat.control.outputs.publishing import MOST_TRIES, PASSING, Publishing, said, wait_after
from drumbeat.core.life.aftermath import outputs_left
from drumbeat.core.life.events import (
    Event,
    GangRefused,
    GangSeen,
    KeepStory,
    NodeLost,
    OutputHeldUp,
    OutputPublished,
    PublishOutputs,
    StartGang,
    StopGang,
)
from drumbeat.core.life.job import Job
from drumbeat.ports import Artifacts, Gang, PendingEffect, Record
from drumbeat.protocol import wire
from drumbeat.protocol.errors import EngineError, StaleError, StorageError, UnreachableError
from drumbeat.protocol.faults import faultpoint
from drumbeat.protocol.plan import OutputPlan, Plan
from drumbeat.protocol.states import State

log = logging.getLogger(__name__)

STORY = "story.jsonl"
PUBLISHERS = 16
"""Jobs whose outputs are put in their places at once, and of each so many outputs:"""
AT_ONCE = 4
AGAIN_S = 1.0
"""How long an effect that failed is left alone."""

Lane = tuple[str, bool]
"""A job, and whether its files are meant or its nodes: effects of a lane are done in their order."""


@dataclass(frozen=True)
class Later:
    """An effect that is left alone. tries: those that failed before. until: by the monotonic clock."""

    effect: int = 0
    tries: int = 0
    until: float = 0.0


class Effects:
    """Runs what the outbox holds, beside the loop."""

    def __init__(self, loop: Loop, engines: Computes, artifacts: Artifacts, gang_of: Callable[[Job], Gang]) -> None:
        self.loop, self.engines, self.artifacts, self.gang_of = loop, engines, artifacts, gang_of
        self._pool = ThreadPoolExecutor(max_workers=8, thread_name_prefix="effect")
        self._publishers = ThreadPoolExecutor(max_workers=PUBLISHERS, thread_name_prefix="publisher")
        """Of their own: a store that doesn't answer holds up no job that is to start."""
        self._stoppers = ThreadPoolExecutor(max_workers=8, thread_name_prefix="stopper")
        """As well: a cluster takes its time to end what runs there."""
        self._submitters: dict[str, ThreadPoolExecutor] = {}
        """As well, by compute: every job for a scheduler that doesn't answer waits for it, and is asked for again."""
        self.publishing: Publishing | None = None
        """Puts outputs in their places; set before `start`."""
        self.prepare: Callable[[str, Plan], None] = _nothing
        """Begins what the nodes of a job will ask for; set before `start`."""
        self._later: dict[str, Later] = {}
        """By job."""
        self._busy: set[Lane] = set()
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="outbox", daemon=True)

    def start(self) -> None:
        """Begins with whatever an earlier server left."""
        self._thread.start()

    def stop(self) -> None:
        """Takes no new effect; those under way end, and what they didn't finish is done by the next server."""
        self._stopping.set()
        self.loop.has_effects.set()
        self._thread.join(timeout=2)
        for pool in (self._pool, self._publishers, self._stoppers, *self._submitters.values()):
            pool.shutdown(wait=False, cancel_futures=True)

    def _run(self) -> None:
        while not self._stopping.is_set():
            self.loop.has_effects.wait(timeout=AGAIN_S)
            self.loop.has_effects.clear()
            if self._stopping.is_set():
                return
            try:
                self._hand_out()
            except Exception:
                log.exception("the outbox could not be read; trying again")

    def _hand_out(self) -> None:
        seen: set[Lane] = set()
        for pending in self.loop.store.outbox(self.loop.token):
            lane = lane_of(pending)
            with self._lock:
                later = self._later.get(pending.job, Later())
                is_later = later.effect == pending.id and later.until > self.loop.clock.monotonic()
                if lane in self._busy or lane in seen or is_later:
                    continue
                self._busy.add(lane)
            seen.add(lane)
            self._hand_to_pool(pending)

    def _hand_to_pool(self, pending: PendingEffect) -> None:
        turn: Future[None] = Future()
        try:
            self._pool_for(pending).submit(self._one, pending, turn)
        except RuntimeError as error:  # No thread can be started. It's in the pool's queue all the same.
            if turn.cancel():
                self._leave(lane_of(pending))
                log.warning("effect %s of job %s waits: %s", pending.effect.kind, pending.job, error)

    def _leave(self, lane: Lane) -> None:
        with self._lock:
            self._busy.discard(lane)

    def _pool_for(self, pending: PendingEffect) -> ThreadPoolExecutor:
        match pending.effect:
            case PublishOutputs():
                return self._publishers
            case StopGang():
                return self._stoppers
            case StartGang() if compute := self._scheduler_of(pending.job):
                if compute not in self._submitters:
                    self._submitters[compute] = ThreadPoolExecutor(max_workers=8, thread_name_prefix="submitter")
                return self._submitters[compute]
            case _:
                return self._pool

    def _scheduler_of(self, name: str) -> str:
        """The job's compute, if that has a queue of its own, else ""."""
        record = self.loop.jobs.get(name)
        compute = record.job.plan.compute if record else ""
        return compute if compute in self.loop.with_queue else ""

    def _one(self, pending: PendingEffect, turn: Future[None]) -> None:
        """turn: to be taken; one that was called off is handed out again."""
        if not turn.set_running_or_notify_cancel():
            return
        try:
            self.carry_out(pending)
        except StaleError as error:
            self._later.pop(pending.job, None)
            log.info("effect %s of job %s is another server's: %s", pending.effect.kind, pending.job, error)
        except Exception as error:
            is_known = isinstance(error, UnreachableError)
            words = "effect %s of job %s failed; it is tried again: %s"
            log.warning(words, pending.effect.kind, pending.job, error, exc_info=not is_known)
            if isinstance(pending.effect, PublishOutputs):
                self._put_off(pending)
            if isinstance(pending.effect, StopGang):
                self._tell_who_waits(pending, error)
            self._stopping.wait(AGAIN_S)
            with contextlib.suppress(StorageError):  # Only a count; the same disk may be why it failed.
                self.loop.store.tried(pending.id)
        finally:
            self._leave(lane_of(pending))
            self.loop.has_effects.set()

    def _tell_who_waits(self, pending: PendingEffect, why: Exception) -> None:
        """The next attempt of the job has its nodes already, and begins when this one has ended."""
        record = self.loop.jobs.get(pending.job)
        if record and record.job.attempt > pending.attempt:
            word = f"attempt {pending.attempt} hasn't ended: {why}"
            self._tell(pending.job, GangSeen(record.job.attempt, word, is_asked=False))

    def _tell(self, job: str, event: Event) -> None:
        """Has the job's own thread decide what follows."""
        self.loop.call(lambda: self.loop.apply(job, event))

    def carry_out(self, pending: PendingEffect) -> None:
        """Does what the effect says and takes it off the outbox. Raises whatever went wrong: it is tried again.

        Raises StaleError when the job is another server's. A server that is stopped right after that look does the
        effect late; so each of them must do no harm then, or be undone.
        """
        faultpoint("effect.before")
        job = self._own(pending).job
        faultpoint("effect.looked")
        match pending.effect:
            case StartGang():
                self._start(job, pending)
            case StopGang():
                self.engines[job.plan.compute].stop(f"{pending.job}.{pending.attempt}")
                self._drop_parts(pending)
                faultpoint("effect.stopped")
                self.loop.store.done(pending.id, release=(pending.job, pending.attempt))
                self.loop.call(self.loop.freed)
            case KeepStory():
                self._keep_story(job, pending)
            case PublishOutputs():
                self._publish(job, pending)

    def _drop_parts(self, pending: PendingEffect) -> None:
        """What its nodes were sending when they ended: nobody goes on with it. It holds no slots back."""
        try:
            self.artifacts.drop_parts(pending.job, pending.attempt)
        except StorageError as error:
            log.warning("half-sent outputs of job %s stay: %s", pending.job, error)

    def _own(self, pending: PendingEffect) -> Record:
        record = self.loop.store.load(pending.job)
        if record.lease != self.loop.token:
            raise StaleError(f"job {pending.job} is held by server {record.lease} now")
        return record

    def _start(self, job: Job, pending: PendingEffect) -> None:
        """A gang that nobody waits for any more isn't started."""
        if _is_wanted(job, pending.attempt):
            self._tell(pending.job, self._started(job, pending))
        self.loop.store.done(pending.id)

    def _started(self, job: Job, pending: PendingEffect) -> GangSeen | GangRefused | NodeLost:
        engine = self.engines[job.plan.compute]
        try:
            gang = self.gang_of(job)
            self.prepare(job.name, job.plan)
            word = engine.start(gang)
            faultpoint("effect.started")
        except EngineError as error:
            return GangRefused(pending.attempt, str(error))
        except UnreachableError as error:
            if engine.has_queue or not error.where:  # No machine is at fault: it is asked again.
                self._tell(pending.job, GangSeen(pending.attempt, error.what, is_asked=False))
                raise
            self.engines.look()  # Before anything is placed again.
            node = next((slot.node for slot in job.slots if slot.machine == error.where), 0)
            return NodeLost(pending.attempt, node, error.what)
        try:
            self._own(pending)
        except StaleError:
            # The new holder may have stopped this gang before we started it.
            if not _is_wanted(self.loop.store.load(pending.job).job, pending.attempt):
                engine.stop(gang.name)
            raise
        return GangSeen(pending.attempt, word)

    def _keep_story(self, job: Job, pending: PendingEffect) -> None:
        self.write_story(job)
        self.loop.store.done(pending.id)

    def _publish(self, job: Job, pending: PendingEffect) -> None:
        """A store that is down is asked again later, and holds up nobody; what can't be is told in the story."""
        left = outputs_left(job)
        if self.publishing and left:
            with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="outputs") as pool:
                words = [one.result() for one in [pool.submit(self._put, output, pending) for output in left]]
            if any(isinstance(word, OutputHeldUp) for word in words):
                self._put_off(pending)
                self.loop.store.tried(pending.id)
                return
        self._later.pop(pending.job, None)
        self.write_story(self.loop.store.load(pending.job).job)
        self.loop.store.done(pending.id)

    def _put_off(self, pending: PendingEffect) -> None:
        """Each time for longer, also where the store can't count the tries."""
        before = self._later.get(pending.job, Later())
        tries = max(pending.tries, before.tries + 1 if before.effect == pending.id else 0)
        self._later[pending.job] = Later(pending.id, tries, self.loop.clock.monotonic() + wait_after(tries))

    def _put(self, output: OutputPlan, pending: PendingEffect) -> OutputPublished | OutputHeldUp | None:
        """Tries once; the job knows what came of it. None: a person has given it up meanwhile."""
        assert self.publishing is not None  # noqa: S101 - whoever calls has looked

        def is_wanted() -> bool:
            return output in outputs_left(self._own(pending).job)

        job = self._own(pending).job
        try:
            published = self.publishing.publish(job, output, is_wanted, is_last=pending.tries >= MOST_TRIES)
            if published is None:
                return None
            word = OutputPublished(published)
        except PASSING as error:
            word = OutputHeldUp(output.name, said(error), pending.tries)
            log.warning("job %s: output %s isn't in its place yet: %s", pending.job, output.name, word.why)
        self._tell(pending.job, word)
        faultpoint("effect.published")
        return word

    def write_story(self, job: Job) -> None:
        """Puts plan and story beside the job's results; twice is the same as once."""
        lines = [json.dumps(wire.to_wire(entry)) for entry in self.loop.store.story(job.name)]
        self.artifacts.write_text(job.name, "plan.json", wire.dumps(job.plan))
        faultpoint("effect.keeping_story")
        self.artifacts.write_text(job.name, STORY, "\n".join(lines) + "\n")
        faultpoint("effect.story_kept")


def lane_of(pending: PendingEffect) -> Lane:
    """In which one it is carried out after those before it."""
    return pending.job, isinstance(pending.effect, KeepStory | PublishOutputs)


def _nothing(_job: str, _plan: Plan) -> None:
    """There is nothing to begin."""


def _is_wanted(job: Job, attempt: int) -> bool:
    """Whether the gang of that attempt should be there."""
    return job.attempt == attempt and job.state is not State.QUEUED and not job.state.is_terminal

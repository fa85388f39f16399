"""The outbox, carried out: each effect at least once, those of one lane of a job one after the other.

What an effect does is a handler's matter; this module knows none of them. What a job leaves in files does not wait for
its nodes to end: a cluster that doesn't answer holds back no result.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

from drumbeat.core.lifecycle.events import Effect, StopGang
from drumbeat.core.lifecycle.job import Job
from drumbeat.model.errors import DrumbeatError, StandbyError, StorageError
from drumbeat.model.failpoints import failpoint
from drumbeat.server.database.records import PendingEffect
from drumbeat.server.loop.loop import Loop
from drumbeat.server.loop.repeated_failures import RepeatedFailures

log = logging.getLogger(__name__)

RETRY_INTERVAL_S = 1.0
"""How long a failed effect is left alone at least."""

NODES, FILES, NOTICES = "nodes", "files", "notices"
"""The lanes: what happens to a job's nodes, to its files, and who is told of its end."""

Lane = tuple[str, str]
"""A job and a lane's name: its effects are carried out in their order."""


class PostponedError(Exception):
    """An effect is not done yet. Its handler has added an event that says why; it is tried again later."""


@dataclass(frozen=True)
class Pool:
    """The threads that an effect runs on. Effects that may block for long have pools of their own."""

    name: str = "effect"
    size: int = 8


def _ignore(_pending: PendingEffect, _error: Exception) -> None:
    """A failure that only the log tells of."""


@dataclass(frozen=True)
class Handler:
    """How effects of one kind are carried out."""

    kind: type[Effect]
    lane: str
    carry_out: Callable[[PendingEffect, Job], None]
    """Carries out an effect of a job, and takes it off the outbox.

    May run again, and late: a server may have stood still since it looked at its lease, and another one be active by
    now. So it must do no harm then, or undo it.
    """
    pool: Callable[[PendingEffect], Pool] = lambda _pending: Pool()
    on_failure: Callable[[PendingEffect, Exception], None] = _ignore
    """Is told of what `carry_out` raised, before it is tried again."""
    retry_after_s: Callable[[int], float] | None = None
    """Seconds for which a failed effect is left alone after so many tries; None = `RETRY_INTERVAL_S`."""


@dataclass(frozen=True)
class Delay:
    """How long an effect is left alone."""

    tries: int = 0
    """How often it has failed."""
    until: float = 0.0
    """On the monotonic clock."""


class Outbox:
    """Carries out what the outbox holds, on threads beside the loop's."""

    def __init__(self, loop: Loop, handlers: Sequence[Handler]) -> None:
        self._loop, self._handlers = loop, {handler.kind: handler for handler in handlers}
        self._threads: dict[Pool, ThreadPoolExecutor] = {}
        self._turns = Counter[Pool]()
        """The effects of each pool: those under way and those that wait for a thread."""
        self._delays: dict[int, Delay] = {}
        """By effect."""
        self._failures = RepeatedFailures[int]()
        """Of effects, by their ids."""
        self._busy: set[Lane] = set()
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="outbox", daemon=True)

    def start(self) -> None:
        """Starts the thread, with what an earlier server left in the outbox."""
        self._thread.start()

    def stop(self) -> None:
        """Takes no new effect. Those under way end; what they leave undone is carried out by the next server."""
        self._stopping.set()
        self._loop.has_effects.set()
        self._thread.join(timeout=2)
        with self._lock:
            for threads in self._threads.values():
                threads.shutdown(wait=False, cancel_futures=True)

    def lane_of(self, pending: PendingEffect) -> Lane:
        """The lane in which an effect waits for those before it."""
        return pending.job, self._handler(pending).lane

    def carry_out(self, pending: PendingEffect) -> None:
        """Carries out an effect and takes it off the outbox, unless it is postponed. Raises whatever goes wrong.

        Raises StandbyError when another server has become the active one.
        """
        failpoint("effect.before")
        job = self._loop.held(pending.job).job
        failpoint("effect.looked")
        try:
            self._handler(pending).carry_out(pending, job)
        except PostponedError:
            self._delay(pending)
            self._loop.store.tried(pending.id)
        else:
            self._forget(pending)

    def _handler(self, pending: PendingEffect) -> Handler:
        return self._handlers[type(pending.effect)]

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._loop.has_effects.wait(timeout=RETRY_INTERVAL_S)
            self._loop.has_effects.clear()
            if self._stopping.is_set():
                return
            try:
                self._hand_out()
            except Exception:
                log.exception("the outbox could not be read; trying again")

    def _hand_out(self) -> None:
        seen: set[Lane] = set()
        for pending in self._loop.store.outbox():
            lane = self.lane_of(pending)
            with self._lock:
                if lane in self._busy or lane in seen or self._is_delayed(pending) or self._is_early(pending):
                    continue
                self._busy.add(lane)
            seen.add(lane)
            self._hand_to_pool(pending)

    def _is_early(self, pending: PendingEffect) -> bool:
        """Whether the nodes that an effect ends wait for another job."""
        return isinstance(pending.effect, StopGang) and self._loop.kept_gangs.is_early(pending.job, pending.attempt)

    def _is_delayed(self, pending: PendingEffect) -> bool:
        return self._delays.get(pending.id, Delay()).until > self._loop.clock.monotonic()

    def _hand_to_pool(self, pending: PendingEffect) -> None:
        turn: Future[None] = Future()
        try:
            pool = self._handler(pending).pool(pending)
        except Exception as error:  # noqa: BLE001 (logged; the store can't say now on which compute the job is)
            self._leave(self.lane_of(pending))
            self._log_failure(pending, error)
            return
        try:
            self._enter(pool).submit(self._take_turn, pending, turn, pool)
        except RuntimeError as error:  # No thread can be started. It's in the pool's queue all the same.
            if turn.cancel():
                self._leave(self.lane_of(pending), pool)
                log.warning("effect %s of job %s waits: %s", pending.effect.kind, pending.job, error)

    def _enter(self, pool: Pool) -> ThreadPoolExecutor:
        """The threads of a pool, which has one more effect now."""
        with self._lock:
            self._turns[pool] += 1
            if pool not in self._threads:
                self._threads[pool] = ThreadPoolExecutor(max_workers=pool.size, thread_name_prefix=pool.name)
            return self._threads[pool]

    def _leave(self, lane: Lane, pool: Pool | None = None) -> None:
        """Lets the next effect of a lane begin. A pool without effects ends its threads: its compute may be gone."""
        with self._lock:
            self._busy.discard(lane)
            if pool is not None:
                self._turns[pool] -= 1
                if not self._turns[pool]:
                    del self._turns[pool]
                    self._threads.pop(pool).shutdown(wait=False)

    def _take_turn(self, pending: PendingEffect, turn: Future[None], pool: Pool) -> None:
        """Carries out an effect, unless its turn was called off: then it is handed out again."""
        if not turn.set_running_or_notify_cancel():
            return
        try:
            self.carry_out(pending)
        except StandbyError as error:
            self._forget(pending)
            log.info("effect %s of job %s is the active server's: %s", pending.effect.kind, pending.job, error)
        except Exception as error:  # noqa: BLE001 (logged, and tried again)
            self._failed(pending, error)
        finally:
            self._leave(self.lane_of(pending), pool)
            self._loop.has_effects.set()

    def _log_failure(self, pending: PendingEffect, error: Exception) -> None:
        """Logs why an effect has failed, if that is new."""
        if self._failures.is_new(pending.id, error):
            words = "effect %s of job %s failed; it is tried again: %s"
            has_traceback = not isinstance(error, DrumbeatError)
            log.warning(words, pending.effect.kind, pending.job, error, exc_info=has_traceback)

    def _failed(self, pending: PendingEffect, error: Exception) -> None:
        self._log_failure(pending, error)
        self._delay(pending)
        self._handler(pending).on_failure(pending, error)
        self._stopping.wait(RETRY_INTERVAL_S)
        with contextlib.suppress(StorageError):  # Only a count; the same disk may be why it failed.
            self._loop.store.tried(pending.id)

    def _delay(self, pending: PendingEffect) -> None:
        """Leaves an effect alone for longer each time, also where the store can't count the tries."""
        retry_after_s = self._handler(pending).retry_after_s
        if retry_after_s is None:
            return
        before = self._delays.get(pending.id)
        tries = max(pending.tries, before.tries + 1 if before else 0)
        self._delays[pending.id] = Delay(tries, self._loop.clock.monotonic() + retry_after_s(tries))

    def _forget(self, pending: PendingEffect) -> None:
        self._delays.pop(pending.id, None)
        self._failures.forget(pending.id)

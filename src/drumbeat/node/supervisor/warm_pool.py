"""The warm workers of a supervisor: one for each rank of the next round, prepared while the ranks of this one run.

If another job may use them, the missing ones are started all at once when the ranks end: nothing competes with them
then, and they are completed in the spare supervisor.

They belong to no round. If the supervisor confines a round in a PID namespace or a control group, they are born into a
separate one, which becomes the next round's. Nothing is prepared for ranks without torch, when memory is short, or for
commands that can't be reproduced faithfully; the reason is kept, and the next round's ranks start normally.
"""

from __future__ import annotations

import contextlib
import os
import selectors
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from drumbeat.model.supervisor import ProcessStart, WarmPoolOrder
from drumbeat.node.supervisor.confinement import WARM_POOL, Subreaper
from drumbeat.node.supervisor.machine import SupervisorMachine
from drumbeat.node.supervisor.warm_worker import WarmWorker, with_hook

AFTER_S = "DRUMBEAT_STANDBY_AFTER_S"
"""The variable of the agent that overrides `_AFTER_S`."""
_AFTER_S = 5.0
"""Seconds from the start of the ranks to the first preparation beside them: until then they are starting up."""
MEMORY_CHECK_INTERVAL_S = 5.0
"""How often the memory is checked."""
_FIRST_PAUSE_S, _MAX_PAUSE_S = 0.5, 60.0
"""The first and the longest pause between checks whether the ranks have imported torch, after `_AFTER_S`; pauses
double.
"""
_SEEN_PAUSE_S = 1.0
"""The pause between checks before `_AFTER_S`, once torch was seen."""
_PREPARE_TIMEOUT_S = 300.0
_BEGIN_TIMEOUT_S = 2.0
"""How long an ended attempt waits for warm workers that still need its folder."""
MAX_WARM_WORKERS = 32
_FIRST_BYTES = 512 << 20
"""The assumed memory of a warm worker before the first one is ready."""
_MIN_LEFT, _MIN_LEFT_PREPARING = 0.05, 0.15
"""Shares of the memory that must stay free: below the first, warm workers are ended; below the
second, none is started.
"""
ENDED_FROM_OUTSIDE = "a warm worker was ended from outside"
_SHORT = "memory was short, and the warm workers were ended"
_NOT_YET = "no warm worker was ready"


class WarmPool:
    """The pool. Beside ranks it prepares one warm worker at a time."""

    def __init__(
        self,
        folder: str,
        confinement: Subreaper,
        selector: selectors.BaseSelector,
        on_change: Callable[[], None],
        machine: SupervisorMachine,
    ) -> None:
        """on_change: is called when a warm worker is ready, or when none is left."""
        self._folder, self._selector, self._on_change = f"{folder}/{WARM_POOL}", selector, on_change
        self.confinement, self._machine = confinement, machine
        self._is_open = False
        self._ready: dict[int, WarmWorker] = {}
        self._begun: list[WarmWorker] = []
        """The warm workers that aren't ready yet."""
        self._taken: set[int] = set()
        """The ranks of this round that started warm."""
        self._todo: list[ProcessStart] = []
        self._order: WarmPoolOrder | None = None
        self._due = self._begun_at = self._prepare_at = 0.0
        self._pause_s = _FIRST_PAUSE_S
        self._uses_torch = False
        """Whether torch was seen in a rank."""
        self._is_sure = False
        """Whether the ranks were found suitable when the first warm worker was due."""
        self.cold = ""
        """Why the next round's ranks would start cold, "" = this round's ranks have just started."""

    def begin(self, todo: Sequence[ProcessStart], order: WarmPoolOrder | None, now: float) -> None:
        """Records the round that has begun, and its agent's order."""
        self.close()
        self._order, self._todo, self._uses_torch, self._is_sure = order, list(todo), False, False
        after_s = float(self._machine.variables.get(AFTER_S, _AFTER_S))
        self._prepare_at, self._pause_s = now + after_s, _FIRST_PAUSE_S
        self._due = now + (min(after_s, _FIRST_PAUSE_S) if order and order.outlives else after_s)
        self.cold = _NOT_YET
        if order is None or order.cold or len(todo) > MAX_WARM_WORKERS:
            self.cold = (order.cold or f"more than {MAX_WARM_WORKERS} ranks on a node") if order else ""
            self._todo = []

    def look(self, ranks: Mapping[int, int], now: float) -> None:
        """Starts the next warm worker if it is due, and ends all if memory is short. ranks: the running ones, with
        their pids.
        """
        if self._order is None or now < self._due:
            return
        self._due = now + MEMORY_CHECK_INTERVAL_S
        if self._begun and now > self._begun_at + _PREPARE_TIMEOUT_S:
            self._give_up(f"a warm worker wasn't ready in {_PREPARE_TIMEOUT_S:g} s")
        free, total = self._machine.memory_left()
        if self.pids and free < _MIN_LEFT * total:
            self._give_up(_SHORT)
        if not self._todo or self._begun:
            return
        if not self._is_sure and not self._has_torch(ranks):
            self._due = now + self._pause_s
            if now >= self._prepare_at:
                self._pause_s = min(2 * self._pause_s, _MAX_PAUSE_S)
            return
        if now < self._prepare_at:  # TensorFlow may still be imported.
            self._due = min(self._prepare_at, now + _SEEN_PAUSE_S)
            return
        self._is_sure = True
        if free - self._size() < _MIN_LEFT_PREPARING * total:
            self._give_up("there was no memory left for warm workers")
            return
        self._prepare(self._todo.pop(0), now)

    def look_between(self, now: float) -> None:
        """Ends all if memory is short while ranks stop, or before the next round."""
        if not self.pids or self.due_between_s(now) > 0:
            return
        self._due = now + MEMORY_CHECK_INTERVAL_S
        free, total = self._machine.memory_left()
        if free < _MIN_LEFT * total:
            self._give_up(_SHORT)

    def due_between_s(self, now: float) -> float:
        """Seconds until `look_between` is due."""
        return min(self._due - now, MEMORY_CHECK_INTERVAL_S)

    def look_spare(self) -> None:
        """Ends all if another program needs the memory: no job waits for them."""
        free, total = self._machine.memory_left()
        if free < _MIN_LEFT_PREPARING * total:
            self.close()

    def due_s(self, now: float) -> float | None:
        """Seconds until `look` is due, None = never."""
        return self._due - now if self._todo or self.pids else None

    @property
    def pids(self) -> set[int]:
        """The pids of all warm workers, ready or not."""
        return {*self.ready, *self.preparing}

    @property
    def ready(self) -> tuple[int, ...]:
        """The ranks whose warm workers are ready."""
        return tuple(sorted(one.pid for one in self._ready.values()))

    @property
    def preparing(self) -> tuple[int, ...]:
        """The ranks whose warm workers aren't ready yet."""
        return tuple(sorted(one.pid for one in self._begun))

    def is_beginning(self, now: float) -> bool:
        """Whether a warm worker still needs the attempt's folder, and may soon no longer need it."""
        return now < self._begun_at + _BEGIN_TIMEOUT_S and not all(one.has_begun for one in self._begun)

    def spares(self) -> set[int]:
        """Returns all processes of the pool."""
        pids = self.pids
        return {*pids, *self._machine.descendants(*pids), *(self.confinement.holders if self._is_open else ())}

    def fits(self, todo: Sequence[ProcessStart], order: WarmPoolOrder | None) -> bool:
        """Whether any warm worker fits one of these ranks; ends the others. If none fits, `cold` has the reason."""
        self._end_begun()
        self._taken.clear()
        for rank in todo:
            one = self._ready.get(rank.rank)
            if one and (why := self._difference(one, rank, order)):
                self.cold = why
                self._ready.pop(rank.rank).end()
        for number in {*self._ready} - {rank.rank for rank in todo}:
            self._ready.pop(number).end()
        if not self._ready:
            self._close_confinement()
        return bool(self._ready)

    def _difference(self, one: WarmWorker, rank: ProcessStart, order: WarmPoolOrder | None) -> str:
        """Returns why a warm worker doesn't fit a rank, "" = it does."""
        if order is not None and order.cold:
            return order.cold
        root = os.path.dirname(os.path.dirname(self._folder))
        why = one.difference(rank, self._order or WarmPoolOrder(), root)
        return why or ("" if root == one.root else one.follow(root))

    def keep(self) -> bool:
        """Starts no more, and ends those that still need the attempt's folder; returns whether others are left."""
        self._todo = []
        for one in [one for one in self._begun if not one.has_begun]:
            self._drop(one)
            one.end()
        if not self.pids:
            self._close_confinement()
        return bool(self.pids)

    def settle(self, now: float, *, is_clean: bool) -> None:
        """Records that the ranks have ended: the warm workers are for another job or, after a clean end, are ended.

        Missing ones for another job are started now, while the attempt's folder still exists.
        """
        if not (self._order and self._order.outlives):
            if is_clean:
                self.close()
            return
        free, total = self._machine.memory_left()
        uses_torch = self._uses_torch or self._taken
        if not uses_torch or free - len(self._todo) * self._size() < _MIN_LEFT_PREPARING * total:
            self._todo = []
        while self._todo:
            self._prepare(self._todo.pop(0), now)

    def move(self, folder: str) -> None:
        """Records the supervisor's new folder."""
        self._folder = f"{folder}/{WARM_POOL}"
        self.confinement.move(folder)

    @property
    def commands(self) -> list[str]:
        """The commands of the warm workers, without duplicates."""
        return sorted({" ".join(one.rank.argv[-1:]) for one in (*self._ready.values(), *self._begun)})

    def swap(self, confinement: Subreaper) -> Subreaper:
        """Returns the confinement of the warm workers, and takes the other one for the next ones."""
        own, self.confinement, self._is_open = self.confinement, confinement, False
        return own

    def take(self, rank: int) -> WarmWorker | None:
        """Removes the warm worker for a rank from the pool, and returns it."""
        one = self._ready.pop(rank, None)
        if one:
            self._taken.add(rank)
        return one

    def reap(self, pid: int) -> None:
        """Records that a process has ended, which may belong to the pool."""
        ready = next((number for number, one in self._ready.items() if one.pid == pid), None)
        if ready is not None:
            self._ready.pop(ready).end()
            self.cold = ENDED_FROM_OUTSIDE
        elif one := next((one for one in self._begun if one.pid == pid), None):
            self._read(one)
        if not self.pids:
            self._close_confinement()

    def close(self) -> None:
        """Ends all warm workers."""
        self._todo = []
        self._end_begun()
        while self._ready:
            self._ready.popitem()[1].end()
        self._close_confinement()

    def _prepare(self, rank: ProcessStart, now: float) -> None:
        try:
            if self._is_open:
                self.confinement.resume()
            else:
                self._machine.write_hook(self._folder)
                self.confinement.open()
                self._is_open = True
            one = self._warm_worker(rank)
        except OSError as error:
            self._give_up(f"no warm worker can be started: {error.strerror or error}")
            return
        self._begun.append(one)
        self._begun_at = now
        self._selector.register(one, selectors.EVENT_READ, partial(self._read, one))

    def _warm_worker(self, rank: ProcessStart) -> WarmWorker:
        outlives = self._order is not None and self._order.outlives
        return self._machine.warm_worker(rank, self.confinement, self._folder, outlives=outlives)

    def _read(self, one: WarmWorker) -> None:
        if one not in self._begun or one.read():
            return
        self._drop(one)
        if one.refusal:
            one.end()
            self._give_up(one.refusal)
            return
        self._ready[one.rank.rank] = one
        self._due = 0.0
        self._on_change()

    def _has_torch(self, ranks: Mapping[int, int]) -> bool:
        if any(self._machine.has_tensorflow(pid) for pid in (*ranks, *self._machine.descendants(*ranks))):
            self._give_up("the ranks use TensorFlow")
            return False
        scripts = {number: self._machine.interpreter(pid) for pid, number in ranks.items()}
        first = next((number for number, pid in scripts.items() if self._machine.has_torch(pid)), None)
        self._uses_torch = self._uses_torch or first is not None
        self.cold = _NOT_YET if self._uses_torch else "the ranks haven't imported torch"
        if first is not None and (why := self._hook_obstacle(scripts[first], first)):
            self._give_up(why)
            return False
        return self._uses_torch

    def _hook_obstacle(self, pid: int, number: int) -> str:
        """Returns why an interpreter with this rank's command line wouldn't import the hook, "" = it would.

        Without the hook it would run the job's script beside the rank. `python` may be any program, even one that sets
        options or leaves the node's files behind.
        """
        if number in self._taken:
            return ""  # Its interpreter has imported the hook.
        from drumbeat.launchers import (
            warm_start_fit,  # Imported here, because a supervisor without warm workers starts faster without it.
        )

        rank = next(each for each in self._todo if each.rank == number)
        words, path = self._machine.begun_with(pid, "PYTHONPATH")
        # A rank that started warm itself has the hook's folder before the others.
        own = (rank.env.get("PYTHONPATH", ""), with_hook(rank.env, self._folder)["PYTHONPATH"])
        if path not in own or not self._machine.sees(pid, self._folder):
            return "a program around Python changes PYTHONPATH or the files that it sees"
        try:
            warm_start_fit.check_interpreter(words)
        except ValueError as error:
            return str(error)
        return ""

    def _size(self) -> int:
        return max((self._machine.resident(one.pid) for one in self._ready.values()), default=_FIRST_BYTES)

    def _give_up(self, why: str) -> None:
        self.close()
        self.cold = why
        self._on_change()

    def _drop(self, one: WarmWorker) -> None:
        self._selector.unregister(one)
        self._begun.remove(one)

    def _end_begun(self) -> None:
        for one in list(self._begun):
            self._drop(one)
            one.end()

    def _close_confinement(self) -> None:
        if self._is_open:
            self._is_open = False
            with contextlib.suppress(OSError):
                self.confinement.close(is_empty=False)

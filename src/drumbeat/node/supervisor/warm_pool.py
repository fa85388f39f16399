"""The warm workers of a supervisor: one for each rank of the next round, made while the ranks of this one run.

Where another job may use them, those that are missing when the ranks end are begun at once, all together: nothing
competes with them then, and they are finished in the spare supervisor.

They belong to no round. Where the supervisor confines a round in a PID namespace or a control group, they are born into
one of their own, which becomes the next round's. Nothing is prepared for ranks that don't use torch, where memory is
short, or for what can't be prepared faithfully; the reason is kept, and the next round's ranks start normally.
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
"""The variable of the agent that sets another `_AFTER_S`."""
_AFTER_S = 5.0
"""Seconds from the start of the ranks to the first preparation beside them: until then they start themselves."""
MEMORY_CHECK_INTERVAL_S = 5.0
"""How often memory is looked at."""
_FIRST_PAUSE_S, _MAX_PAUSE_S = 0.5, 60.0
"""From one look whether the ranks have imported torch to the next: after `_AFTER_S`, each pause is twice as long as the
one before."""
_SEEN_PAUSE_S = 1.0
"""From one look to the next before `_AFTER_S`, once torch was seen."""
_PREPARE_TIMEOUT_S = 300.0
_BEGIN_TIMEOUT_S = 2.0
"""How long an attempt that has ended stays for interpreters that still need its folder."""
MAX_WARM_WORKERS = 32
_FIRST_BYTES = 512 << 20
"""What an interpreter is taken to need before one is ready."""
_MIN_LEFT, _MIN_LEFT_PREPARING = 0.05, 0.15
"""Parts of the memory that must be left: below the first, interpreters are ended; below the second, none is begun."""
ENDED_FROM_OUTSIDE = "a warm worker was ended from outside"
_SHORT = "memory was short, and the warm workers were ended"
_NOT_YET = "no warm worker was ready"


class WarmPool:
    """The pool. Beside ranks it prepares one interpreter at a time."""

    def __init__(
        self,
        folder: str,
        confinement: Subreaper,
        selector: selectors.BaseSelector,
        on_change: Callable[[], None],
        machine: SupervisorMachine,
    ) -> None:
        """on_change: called when one is ready, or when there is none any more."""
        self._folder, self._selector, self._on_change = f"{folder}/{WARM_POOL}", selector, on_change
        self.confinement, self._machine = confinement, machine
        self._is_open = False
        self._ready: dict[int, WarmWorker] = {}
        self._begun: list[WarmWorker] = []
        """Those that aren't ready yet."""
        self._taken: set[int] = set()
        """The ranks of this round that were prepared."""
        self._todo: list[ProcessStart] = []
        self._order: WarmPoolOrder | None = None
        self._due = self._begun_at = self._prepare_at = 0.0
        self._pause_s = _FIRST_PAUSE_S
        self._uses_torch = False
        """Whether torch was seen in a rank."""
        self._is_sure = False
        """Whether the ranks were found to suit when the first interpreter was due."""
        self.cold = ""
        """Why the next round's ranks start cold as things are, "" = the ranks of this one have just begun."""

    def begin(self, todo: Sequence[ProcessStart], order: WarmPoolOrder | None, now: float) -> None:
        """Takes note of the round that has begun, and of what its agent wants."""
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
        """Begins the next interpreter if it is time, and ends all if memory is short. ranks: that run, by their pid."""
        if self._order is None or now < self._due:
            return
        self._due = now + MEMORY_CHECK_INTERVAL_S
        if self._begun and now > self._begun_at + _PREPARE_TIMEOUT_S:
            self._give_up(f"an interpreter wasn't ready in {_PREPARE_TIMEOUT_S:g} s")
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
        if now < self._prepare_at:  # TensorFlow may still come.
            self._due = min(self._prepare_at, now + _SEEN_PAUSE_S)
            return
        self._is_sure = True
        if free - self._size() < _MIN_LEFT_PREPARING * total:
            self._give_up("there was no memory left to prepare interpreters")
            return
        self._prepare(self._todo.pop(0), now)

    def look_between(self, now: float) -> None:
        """Ends all if memory is short, while the ranks are stopped, or the next round is waited for."""
        if not self.pids or self.due_between_s(now) > 0:
            return
        self._due = now + MEMORY_CHECK_INTERVAL_S
        free, total = self._machine.memory_left()
        if free < _MIN_LEFT * total:
            self._give_up(_SHORT)

    def due_between_s(self, now: float) -> float:
        """Seconds until `look_between` has something to do."""
        return min(self._due - now, MEMORY_CHECK_INTERVAL_S)

    def look_spare(self) -> None:
        """Ends all of them if another program needs the memory: no job waits for them."""
        free, total = self._machine.memory_left()
        if free < _MIN_LEFT_PREPARING * total:
            self.close()

    def due_s(self, now: float) -> float | None:
        """Seconds until `look` has something to do, None = never."""
        return self._due - now if self._todo or self.pids else None

    @property
    def pids(self) -> set[int]:
        """The interpreters, those that aren't ready too."""
        return {*self.ready, *self.preparing}

    @property
    def ready(self) -> tuple[int, ...]:
        """The interpreters that are ready."""
        return tuple(sorted(one.pid for one in self._ready.values()))

    @property
    def preparing(self) -> tuple[int, ...]:
        """The interpreters that aren't ready yet."""
        return tuple(sorted(one.pid for one in self._begun))

    def is_beginning(self, now: float) -> bool:
        """Whether an interpreter still needs the attempt's folder, and may yet get past that."""
        return now < self._begun_at + _BEGIN_TIMEOUT_S and not all(one.has_begun for one in self._begun)

    def spares(self) -> set[int]:
        """Returns all processes that belong to the pool."""
        pids = self.pids
        return {*pids, *self._machine.descendants(*pids), *(self.confinement.holders if self._is_open else ())}

    def fits(self, todo: Sequence[ProcessStart], order: WarmPoolOrder | None) -> bool:
        """Whether any is for one of these ranks; ends those that aren't. If not, `cold` has the reason."""
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
        """Returns why an interpreter isn't the one for a rank, "" = it is."""
        if order is not None and order.cold:
            return order.cold
        root = os.path.dirname(os.path.dirname(self._folder))
        why = one.difference(rank, self._order or WarmPoolOrder(), root)
        return why or ("" if root == one.root else one.follow(root))

    def keep(self) -> bool:
        """Begins no more, and ends those that still need the attempt's folder; returns whether there are others."""
        self._todo = []
        for one in [one for one in self._begun if not one.has_begun]:
            self._drop(one)
            one.end()
        if not self.pids:
            self._close_confinement()
        return bool(self.pids)

    def settle(self, now: float, *, is_clean: bool) -> None:
        """Takes note that the ranks have ended: the interpreters are for another job, or, if they ended well, end.

        Those that are missing for another job are begun, for the attempt's folder is there now, and may soon be gone.
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
        """Takes note that the supervisor's folder is another one."""
        self._folder = f"{folder}/{WARM_POOL}"
        self.confinement.move(folder)

    @property
    def commands(self) -> list[str]:
        """What they run, without repetition."""
        return sorted({" ".join(one.rank.argv[-1:]) for one in (*self._ready.values(), *self._begun)})

    def swap(self, confinement: Subreaper) -> Subreaper:
        """Returns the confinement in which the interpreters are, and takes the other for the next ones."""
        own, self.confinement, self._is_open = self.confinement, confinement, False
        return own

    def take(self, rank: int) -> WarmWorker | None:
        """Returns the interpreter for a rank, which the pool has no more."""
        one = self._ready.pop(rank, None)
        if one:
            self._taken.add(rank)
        return one

    def reap(self, pid: int) -> None:
        """Takes note that a process has ended, which may be one of the pool."""
        ready = next((number for number, one in self._ready.items() if one.pid == pid), None)
        if ready is not None:
            self._ready.pop(ready).end()
            self.cold = ENDED_FROM_OUTSIDE
        elif one := next((one for one in self._begun if one.pid == pid), None):
            self._read(one)
        if not self.pids:
            self._close_confinement()

    def close(self) -> None:
        """Ends all of them."""
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
            self._give_up(f"no interpreter can be prepared: {error.strerror or error}")
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
        if first is not None and (why := self._deafness(scripts[first], first)):
            self._give_up(why)
            return False
        return self._uses_torch

    def _deafness(self, pid: int, number: int) -> str:
        """Returns why an interpreter that is started as this rank was wouldn't import the hook, "" = it would.

        It would run the job's script beside the rank. `python` may be any program, also one that sets options or leaves
        the node's files behind.
        """
        if number in self._taken:
            return ""  # Its interpreter has imported the hook.
        from drumbeat.launchers import (
            warm_start_fit,  # Later: a supervisor that prepares nothing starts faster without it.
        )

        rank = next(each for each in self._todo if each.rank == number)
        words, path = self._machine.begun_with(pid, "PYTHONPATH")
        # A rank that was prepared itself began with the hook's folder before the others.
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

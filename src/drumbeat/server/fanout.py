"""From the control room's threads to everyone who waits in the event loop."""

from __future__ import annotations

import asyncio
import threading
from collections import defaultdict
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from drumbeat.control.service import Control


class Bell:
    """Rings when its job changed since the last wait."""

    def __init__(self) -> None:
        self._rung = asyncio.Event()

    def ring(self) -> None:
        """Wakes the one who waits, or the next to wait."""
        self._rung.set()

    async def wait(self, timeout_s: float) -> bool:
        """Whether it rang within that time."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._rung.wait()
        except TimeoutError:
            return False
        self._rung.clear()
        return True


class Fanout:
    """One subscription to the control room, any number of bells. Rings of one job that come together are one."""

    def __init__(self) -> None:
        self.is_closing = False
        self._bells: defaultdict[str, set[Bell]] = defaultdict(set)
        self._heard: set[str] = set()
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._unsubscribe: Callable[[], None] = _nothing

    def open(self, control: Control) -> None:
        """Starts to listen; called in the event loop."""
        self._loop = asyncio.get_running_loop()
        self._unsubscribe = control.subscribe(self.hear)

    def close(self) -> None:
        """Sends everybody home: each waiter wakes and sees `is_closing`."""
        self._unsubscribe()
        self._unsubscribe = _nothing
        self.is_closing = True
        for bells in self._bells.values():
            for bell in bells:
                bell.ring()

    def hear(self, job: str) -> None:
        """From any thread: this job, or its logs, changed."""
        with self._lock:
            is_first = not self._heard
            self._heard.add(job)
        if is_first and self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._pass_on)

    def _pass_on(self) -> None:
        with self._lock:
            heard, self._heard = self._heard, set()
        for job in heard & self._bells.keys():
            for bell in self._bells[job]:
                bell.ring()

    @contextmanager
    def bell(self, job: str) -> Generator[Bell]:
        """A bell of that job for as long as it is held."""
        bell = Bell()
        self._bells[job].add(bell)
        try:
            yield bell
        finally:
            self._bells[job].discard(bell)
            if not self._bells[job]:
                del self._bells[job]


def _nothing() -> None:
    """Nobody to unsubscribe."""

"""What several ask for at once, and which is made once, in a thread of its own: all of them are told the same."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Generic, TypeVar

from drumbeat.model.errors import UnreachableError

K = TypeVar("K")
T = TypeVar("T")

UNHEARD_S = 60.0
"""How long a failure that nobody waited for is kept."""


class Making(Generic[T]):
    """One of them. waiting: how many wait for it now."""

    def __init__(self) -> None:
        self._future: Future[T] = Future()
        self._began = self._ended = time.monotonic()
        self.waiting = 0

    @property
    def is_done(self) -> bool:
        """It is made, or has failed."""
        return self._future.done()

    @property
    def lasts_s(self) -> float:
        """For how long it has been made."""
        return time.monotonic() - self._began

    @property
    def is_old(self) -> bool:
        """It has failed, too long ago to be worth telling."""
        return self.is_done and time.monotonic() - self._ended > UNHEARD_S

    def on_done(self, call: Callable[[], None]) -> None:
        """Calls it once that is so, from any thread; at once if it is so already."""
        self._future.add_done_callback(lambda _: call())

    def result(self) -> T:
        """Waits for it. Raises what went wrong."""
        return self._future.result()

    def run(self, make: Callable[[], T]) -> None:
        """Makes it."""
        try:
            made = make()
        except BaseException as error:  # noqa: BLE001 (it is raised where `result` is called)
            self._ended = time.monotonic()
            self._future.set_exception(error)
        else:
            self._future.set_result(made)

    @property
    def is_worth_telling(self) -> bool:
        """It failed by a trouble that passes, which took a store's whole patience to find; others are found at once."""
        return self.is_done and isinstance(self._future.exception(), UnreachableError)


class Makings(Generic[K, T]):
    """Those under way, by key. For any thread."""

    def __init__(self) -> None:
        self._open: dict[K, Making[T]] = {}
        self._lock = threading.Lock()

    @contextmanager
    def joined(self, key: K, make: Callable[[], T]) -> Generator[Making[T]]:
        """The one under way, or a new one; within the `with` one counts as waiting for it."""
        with self._lock:
            making = self._known(key)
            if making is None:
                making = Making[T]()
                threading.Thread(target=self._run, args=[key, making, make], name="making", daemon=True).start()
                self._open[key] = making
            making.waiting += 1
        try:
            yield making
        finally:
            with self._lock:
                making.waiting -= 1

    def begin(self, key: K, make: Callable[[], T]) -> None:
        """Begins it, if it isn't under way, and waits for nothing. A failure is told to the next who asks."""
        with self.joined(key, make):
            pass

    def _known(self, key: K) -> Making[T] | None:
        """What a next one joins. A failure that nobody waited for is told once."""
        for old in [each for each, one in self._open.items() if one.is_old]:
            del self._open[old]
        known = self._open.get(key)
        if known is None or not known.is_done:
            return known
        del self._open[key]
        return known if known.is_worth_telling else None

    def _run(self, key: K, making: Making[T], make: Callable[[], T]) -> None:
        making.run(make)
        with self._lock:
            if self._open.get(key) is making and (making.waiting or not making.is_worth_telling):
                del self._open[key]

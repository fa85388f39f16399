"""Single flight: concurrent calls with the same key run once, on a thread of their own, and share the result."""

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

FAILURE_KEPT_S = 60.0
"""How long a failure is kept for the next caller if no caller was waiting for it."""


class Flight(Generic[T]):
    """A call in progress or its outcome. waiting: the number of callers that wait for it."""

    def __init__(self) -> None:
        self._future: Future[T] = Future()
        self._began = self._ended = time.monotonic()
        self.waiting = 0

    @property
    def is_done(self) -> bool:
        """Whether the call has returned or failed."""
        return self._future.done()

    @property
    def age_s(self) -> float:
        """Seconds since the call began."""
        return time.monotonic() - self._began

    @property
    def is_expired(self) -> bool:
        """Whether the call failed longer than `FAILURE_KEPT_S` ago."""
        return self.is_done and time.monotonic() - self._ended > FAILURE_KEPT_S

    def on_done(self, call: Callable[[], None]) -> None:
        """Calls a function when this call is done, from any thread; at once if it is done already."""
        self._future.add_done_callback(lambda _: call())

    def result(self) -> T:
        """Waits for the result. Raises the call's exception."""
        return self._future.result()

    def run(self, make: Callable[[], T]) -> None:
        """Runs the call."""
        try:
            made = make()
        except BaseException as error:  # noqa: BLE001 (it is raised where `result` is called)
            self._ended = time.monotonic()
            self._future.set_exception(error)
        else:
            self._future.set_result(made)

    @property
    def is_shared_failure(self) -> bool:
        """Whether the next caller should get this failure. A transient one took a store's full timeout to detect, while
        others are detected at once.
        """
        return self.is_done and isinstance(self._future.exception(), UnreachableError)


class SingleFlight(Generic[K, T]):
    """The calls in progress, by key. Thread-safe."""

    def __init__(self) -> None:
        self._open: dict[K, Flight[T]] = {}
        self._lock = threading.Lock()

    @contextmanager
    def join(self, key: K, make: Callable[[], T]) -> Generator[Flight[T]]:
        """Joins the call in progress, or starts one; within the `with` block the caller counts as waiting."""
        with self._lock:
            making = self._joinable(key)
            if making is None:
                making = Flight[T]()
                threading.Thread(target=self._run, args=[key, making, make], name="making", daemon=True).start()
                self._open[key] = making
            making.waiting += 1
        try:
            yield making
        finally:
            with self._lock:
                making.waiting -= 1

    def start(self, key: K, make: Callable[[], T]) -> None:
        """Starts a call unless it is in progress, without waiting. The next caller gets its failure."""
        with self.join(key, make):
            pass

    def _joinable(self, key: K) -> Flight[T] | None:
        """Returns the call that the next caller joins. A failure without a waiting caller is returned once."""
        for old in [each for each, one in self._open.items() if one.is_expired]:
            del self._open[old]
        flight = self._open.get(key)
        if flight is None or not flight.is_done:
            return flight
        del self._open[key]
        return flight if flight.is_shared_failure else None

    def _run(self, key: K, making: Flight[T], make: Callable[[], T]) -> None:
        making.run(make)
        with self._lock:
            if self._open.get(key) is making and (making.waiting or not making.is_shared_failure):
                del self._open[key]

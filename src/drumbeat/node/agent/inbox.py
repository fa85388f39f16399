"""The agent's inbox: calls that other threads post and the agent's own thread makes one by one."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from functools import partial

from drumbeat.model.errors import DrumbeatError, StaleError, StorageError


class Inbox:
    """Receives calls from any thread. on_stale: is posted when a thread learns that the attempt was replaced."""

    def __init__(self, on_stale: Callable[[], None]) -> None:
        self._calls: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._on_stale = on_stale

    def put(self, call: Callable[[], None]) -> None:
        """Posts a call."""
        self._calls.put(call)

    def posting(self, call: Callable[..., None]) -> Callable[..., None]:
        """Returns a function that posts the call with its own arguments."""
        return lambda *values: self._calls.put(partial(call, *values))

    def make_next(self) -> None:
        """Waits for the next call and makes it."""
        self._calls.get()()

    def beside(self, name: str, work: Callable[[], None], done: Callable[[DrumbeatError | None], None]) -> None:
        """Runs `work` in a new thread and posts its result."""

        def run() -> None:
            try:
                work()
            except StaleError:
                self.put(self._on_stale)
            except DrumbeatError as error:
                self.put(partial(done, error))
            except OSError as error:  # A full disk, most often.
                failure = StorageError(error.strerror or str(error), where=str(error.filename or ""))
                self.put(partial(done, failure))
            else:
                self.put(partial(done, None))

        threading.Thread(target=run, name=name, daemon=True).start()

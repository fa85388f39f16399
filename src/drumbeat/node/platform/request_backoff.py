"""The pauses between retries of a request."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import TypeVar

from drumbeat.model.errors import UnreachableError

T = TypeVar("T")

_scatter = random.Random()  # noqa: S311 (no secret; separate from the global generator, whose seed may matter)


class Backoff:
    """Pauses that grow by half each time, with jitter so that many agents don't retry in step.

    After an outage, the server is called again within half of the outage's duration.
    """

    def __init__(self, first_s: float = 0.1, most_s: float = 5.0) -> None:
        self._first_s, self._most_s = first_s, most_s
        self._next_s = first_s

    def next_s(self) -> float:
        """Seconds to wait now."""
        wait_s = self._next_s * _scatter.uniform(0.75, 1.0)
        self._next_s = min(self._next_s * 1.5, self._most_s)
        return wait_s

    def reset(self) -> None:
        """Starts with the first pause again, after a success."""
        self._next_s = self._first_s

    def wait(self) -> None:
        """Sleeps for the next pause."""
        time.sleep(self.next_s())


def until_reached(ask: Callable[[], T]) -> T:
    """Calls `ask` until the server answers, however long that takes. Raises the server's own errors."""
    backoff = Backoff()
    while True:
        try:
            return ask()
        except UnreachableError:
            backoff.wait()

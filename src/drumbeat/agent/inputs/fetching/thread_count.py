"""How many threads a fetch has: as many as help, up to the limit in `fetch_threads.py`."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

_GROW_S = 0.05
_LOOK_S = 1.0
_BUSY = 0.7
"""Of one processor. A process that takes more has no use for another thread: only one at a time runs Python, and they
stand in each other's way. Small files of a near store took twice as long with eight threads as with one."""


def _clocks() -> tuple[float, float]:
    return time.process_time(), time.monotonic()


class Crew:
    """Up to `most` threads at one task. is_wide: all of them at once; else they double while there is time for more.

    clocks: processor seconds of this process, and the wall's.
    """

    def __init__(
        self,
        task: Callable[[], None],
        most: int,
        *,
        is_wide: bool,
        clocks: Callable[[], tuple[float, float]] = _clocks,
    ) -> None:
        self._task, self._most, self._clocks = task, most, clocks
        self._hands: list[threading.Thread] = []
        self._add(most if is_wide else 1)

    def wait(self, look: Callable[[], None]) -> None:
        """Until all have done the task; `look` is called every second or oftener."""
        while hand := next((each for each in self._hands if each.is_alive()), None):
            used_s, began = self._clocks()
            hand.join(_LOOK_S if len(self._hands) == self._most else _GROW_S)
            look()
            now_used_s, now = self._clocks()
            if hand.is_alive() and now_used_s - used_s < _BUSY * (now - began):
                self._add(min(len(self._hands), self._most - len(self._hands)))

    def _add(self, count: int) -> None:
        for _ in range(count):
            self._hands.append(threading.Thread(target=self._task, name="fetch", daemon=True))
            self._hands[-1].start()

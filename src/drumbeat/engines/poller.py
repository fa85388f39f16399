"""The thread on which an engine asks its cluster about all gangs at once."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from drumbeat.model.errors import DrumbeatError, Problem

log = logging.getLogger(__name__)

IDLE_S, MAX_S, GATHER_S, FIRST_LOOK_S, CLOSE_S = 10.0, 60.0, 0.2, 5.0, 2.0
MAX_DOUBLINGS = 10


class Poller:
    """Calls an engine's `look` at intervals, at once when nudged, and ever less often while it fails.

    look: raises DrumbeatError when the cluster doesn't answer. is_busy: whether there are gangs to observe.
    """

    def __init__(self, cluster: str, look: Callable[[], None], is_busy: Callable[[], bool], *, busy_s: float) -> None:
        self._cluster, self._look, self._is_busy = cluster, look, is_busy
        self.busy_s, self.idle_s, self.max_s = busy_s, IDLE_S, MAX_S
        """Seconds between looks while there are gangs, while there are none, and at most while looks fail."""
        self.first_look_s = FIRST_LOOK_S
        """How long `begin` waits for the first look."""
        self.problem: Problem | None = None
        """Why the last look failed, and what to do about it; None when it succeeded."""
        self.has_begun = False
        self._lock, self._nudged = threading.Lock(), threading.Event()
        self._has_looked, self._closing = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def trouble(self) -> str:
        """Why the last look failed, with advice; "" when it succeeded."""
        return str(self.problem or "")

    def begin(self) -> None:
        """Starts the thread unless it runs, and waits a moment for its first look.

        Raises RuntimeError when the system can start no more threads; the next call tries again.
        """
        with self._lock:
            if not self.has_begun:
                thread = threading.Thread(target=self._run, name=f"{self._cluster.lower()}-look", daemon=True)
                thread.start()
                self._thread, self.has_begun = thread, True
        self._has_looked.wait(self.first_look_s)

    def nudge(self) -> None:
        """Makes the next look begin at once."""
        self._nudged.set()

    @property
    def is_nudged(self) -> bool:
        """Whether a nudge waits for its look."""
        return self._nudged.is_set()

    def wait(self, seconds: float) -> None:
        """Waits for some time, or until the poller is closed."""
        self._closing.wait(seconds)

    def close(self) -> None:
        """Ends the thread, and waits a moment for a look that is under way."""
        self._closing.set()
        self._nudged.set()
        if self._thread is not None:
            self._thread.join(CLOSE_S)

    def _run(self) -> None:
        failures = 0
        while not self._closing.is_set():
            self.problem = self._attempt()
            failures = failures + 1 if self.problem else 0
            self._has_looked.set()
            self._nudged.wait(self._pause_s(failures))
            self._nudged.clear()
            self.wait(min(GATHER_S, self.busy_s))  # Gathers many starts into one request.

    def _attempt(self) -> Problem | None:
        try:
            self._look()
        except DrumbeatError as error:
            return Problem(error.what, fix=error.fix)
        except Exception as error:  # This is the only thread that polls.
            log.exception("%s can't be asked", self._cluster)
            return Problem(f"{self._cluster} can't be asked from here: {error}")
        return None

    def _pause_s(self, failures: int) -> float:
        calm_s = self.busy_s if self._is_busy() else max(self.busy_s, self.idle_s)
        return min(self.max_s, calm_s * 2 ** min(failures, MAX_DOUBLINGS))

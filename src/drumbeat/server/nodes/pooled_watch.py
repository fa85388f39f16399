"""A watch over jobs: a thread that looks at an interval, and a pool for what may take long."""

from __future__ import annotations

import logging
import threading
from concurrent.futures import ThreadPoolExecutor

log = logging.getLogger(__name__)

MAX_LOOKS_AT_ONCE = 4


class PooledWatch:
    """Looks at an interval until it is stopped; a look that fails is followed by the next one.

    name: of its threads. trouble: what could not be done when a look fails, for the log.
    """

    def __init__(self, name: str, interval_s: float, trouble: str) -> None:
        self.stopping = threading.Event()
        self.pool = ThreadPoolExecutor(MAX_LOOKS_AT_ONCE, thread_name_prefix=name)
        self._interval_s, self._trouble = interval_s, trouble
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Ends the threads."""
        self.stopping.set()
        self._thread.join(timeout=2)
        self.pool.shutdown(wait=False, cancel_futures=True)

    def look(self) -> None:
        """Looks at the jobs once."""
        raise NotImplementedError

    def _run(self) -> None:
        while not self.stopping.wait(self._interval_s):
            try:
                self.look()
            except Exception:
                if not self.stopping.is_set():
                    log.exception("%s; trying again", self._trouble)

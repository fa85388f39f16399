"""Describes the progress of a fetch: bytes, rate, time left, and what it waits for."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable

from drumbeat.model.agent import WAITS
from drumbeat.node.inputs.cache.eviction import in_words

_WINDOW_S = 5.0
_SAY_EVERY_S = 0.2
_STILL_S = 5.0
"""After so long without a byte that is said."""


class Meter:
    """Counts the bytes of all threads. say: takes the sentence, now and then. total: the bytes to fetch."""

    def __init__(
        self, what: str, total: int, say: Callable[[str], None], now: Callable[[], float] = time.monotonic
    ) -> None:
        self._what, self._total, self._say, self._now = what, total, say, now
        self._came = 0
        self._seen: deque[tuple[float, int]] = deque([(now(), 0)])
        self._trouble, self._said_at = "", -_SAY_EVERY_S
        self._lock = threading.Lock()
        self.moved_at = now()
        """When the last byte came."""

    @property
    def came(self) -> int:
        """Bytes so far."""
        return self._came

    def add(self, size: int) -> None:
        """Counts bytes that came."""
        with self._lock:
            self._came += size
            self.moved_at = self._now()
            self._trouble = ""
        self._tell()

    def less(self, size: int) -> None:
        """Subtracts bytes that needn't be fetched."""
        with self._lock:
            self._total -= size

    def again(self, size: int) -> None:
        """Counts bytes that were wrong and are fetched once more."""
        with self._lock:
            self._came -= size

    def trouble(self, sentence: str) -> None:
        """Sets what the fetch waits for, until the next byte comes."""
        with self._lock:
            self._trouble = sentence
        self._tell()

    def look(self) -> None:
        """Reports that nothing has come for a while, unless a reason was reported already."""
        with self._lock:
            is_still = self._now() - self.moved_at >= _STILL_S and not self._trouble
        if is_still:
            self._tell()

    def sentence(self) -> str:
        """`input train: 1.2 GB of 4.5 GB, 182.0 MB/s, 18 s left; waits: …`, or `…; no byte for 12 s`."""
        rate = self._rate()
        text = f"{self._what}: {in_words(self._came)} of {in_words(self._total)}"
        if rate > 0:
            text += f", {in_words(round(rate))}/s, {_duration((self._total - self._came) / rate)} left"
        still_s = self._now() - self.moved_at
        if self._trouble:
            return f"{text};{WAITS}{self._trouble}"
        return f"{text}; no byte for {_duration(still_s)}" if still_s >= _STILL_S else text

    def _rate(self) -> float:
        now = self._now()
        self._seen.append((now, self._came))
        while len(self._seen) > 2 and self._seen[1][0] < now - _WINDOW_S:
            self._seen.popleft()
        at, came = self._seen[0]
        return max(0.0, (self._came - came) / (now - at)) if now > at else 0.0

    def _tell(self) -> None:
        with self._lock:
            if self._now() - self._said_at < _SAY_EVERY_S:
                return
            self._said_at = self._now()
            sentence = self.sentence()
        self._say(sentence)


def _duration(seconds: float) -> str:
    """`18 s`, `4 min`, `2.5 h`."""
    if seconds < 120:
        return f"{max(0.0, seconds):.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"

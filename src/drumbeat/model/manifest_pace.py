"""Decides when the manifest of a growing folder is written again: at intervals, and for a small share of the time."""

from __future__ import annotations

import math
import time
from collections.abc import Generator
from contextlib import contextmanager

INTERVAL_S = 5.0
"""How often the manifest says what is in place already."""
MAX_SHARE = 0.1
"""The largest share of the time for writing a manifest of very many files."""


class ManifestPace:
    """Says when to write the manifest of one folder. `take_turn` is called under the caller's lock."""

    def __init__(self) -> None:
        self._next_at = 0.0

    def take_turn(self) -> bool:
        """Returns whether it is time. Then it is no other thread's turn before `measured` has ended."""
        is_time = time.monotonic() >= self._next_at
        if is_time:
            self._next_at = math.inf
        return is_time

    @contextmanager
    def measured(self) -> Generator[None]:
        """Measures a writing, after which the next turn comes."""
        began = time.monotonic()
        try:
            yield
        finally:
            now = time.monotonic()
            self._next_at = now + max(INTERVAL_S, (now - began) / MAX_SHARE)

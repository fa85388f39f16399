"""Time."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol


class Clock(Protocol):
    """Time as an argument."""

    def now(self) -> datetime:
        """The wall clock, aware, in UTC: for people."""
        ...

    def monotonic(self) -> float:
        """Seconds that never go back: for waiting."""
        ...

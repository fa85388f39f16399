"""Time."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol


class Clock(Protocol):
    """Time as an argument."""

    def now(self) -> datetime:
        """Returns the wall clock, aware, in UTC."""
        ...

    def monotonic(self) -> float:
        """Returns the seconds of a monotonic clock, for waiting."""
        ...

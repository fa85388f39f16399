"""The clock of a server process. Implements `ports.Clock`."""

from __future__ import annotations

import time
from datetime import UTC, datetime


class SystemClock:
    """The machine's own clocks."""

    def now(self) -> datetime:
        """UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Seconds since some instant of the past."""
        return time.monotonic()

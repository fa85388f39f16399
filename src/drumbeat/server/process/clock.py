"""The clock of a server process. Implements `ports.Clock`."""

from __future__ import annotations

import time
from datetime import UTC, datetime


class SystemClock:
    """Reads the machine's clocks."""

    def now(self) -> datetime:
        """Returns the current time in UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Returns seconds since an arbitrary instant."""
        return time.monotonic()

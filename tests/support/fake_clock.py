"""A clock that moves when it is told to."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta


class FakeClock:
    """Passes as `ports.Clock`. Both of its clocks begin at the same instant and move together."""

    def __init__(self) -> None:
        self._passed = timedelta()

    def now(self) -> datetime:
        """UTC."""
        return datetime(2026, 1, 1, tzinfo=UTC) + self._passed

    def monotonic(self) -> float:
        """Seconds since the clock was made."""
        return self._passed.total_seconds()

    def advance(self, seconds: float) -> None:
        """Time passes."""
        self._passed += timedelta(seconds=seconds)

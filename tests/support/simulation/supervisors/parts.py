"""Parts of a real supervisor that a played machine has another kind of."""

from __future__ import annotations

from collections.abc import Callable

from drumbeat.node.supervisor.listener import AgentListener
from drumbeat.node.supervisor.shared_memory import Segments
from drumbeat.node.supervisor.signal_pipe import SignalPipe


class PlayedListener(AgentListener):
    """A real listener by the played clock."""

    def serve(self, timeout_s: float | None) -> None:
        """Doesn't wait."""
        del timeout_s
        super().serve(0)

    def close(self) -> None:
        """Its process is gone."""
        self._listener.close()
        if self._agent is not None:
            self._agent.close()
            self._agent = None


class NoSegments(Segments):
    """No rank makes shared memory."""

    def open(self, now: float) -> None:
        self._due = now + 3600.0

    def look(self, members: Callable[[], list[int]], now: float, *, is_last: bool = False) -> None:
        del members, now, is_last

    def close(self, *, is_clean: bool) -> None:
        del is_clean


class NoSignals(SignalPipe):
    """No signals come."""

    def __init__(self) -> None:
        """Leaves the signals of this process alone."""

    def read(self) -> bytes:
        return b""

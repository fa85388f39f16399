"""What stands where an engine can't be made."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from drumbeat.ports import Gang, Machine, Sighting
from drumbeat.protocol.errors import EngineError, UnreachableError


@dataclass
class Unmade:
    """Passes as `ports.Engine` and says why it does nothing."""

    name: str
    why: str
    has_queue: bool = False

    def machines(self) -> list[Machine]:
        """None."""
        return []

    def server_addresses(self) -> list[str]:
        """Fails: where agents would have to call can't be told yet."""
        raise UnreachableError(self.why)

    def start(self, gang: Gang) -> str:
        """Fails for now: a job that was to start when the server ended waits until the engine is made."""
        raise UnreachableError(f"{gang.name} can't be started: {self.why}")

    def rendered(self, gang: Gang) -> str:
        """Nothing is handed over."""
        del gang
        return ""

    def observe(self, gang: Gang) -> Sighting:
        """Fails: nothing can be said of it."""
        raise EngineError(f"{gang.name} can't be looked at: {self.why}")

    def stop(self, name: str) -> None:
        """Fails: it may be there."""
        raise EngineError(f"{name} can't be stopped: {self.why}")

    def sweep(self, wanted: Callable[[], set[str]]) -> list[str]:
        """Nothing that can be reached."""
        del wanted
        return []

    def close(self) -> None:
        """It made nothing."""

"""The engine of a compute whose own engine could not be created.

`RETRY_INTERVAL_S` in `engines.py` says when creation is tried again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from drumbeat.model.api.computes import Machine
from drumbeat.model.errors import EngineError, UnreachableError
from drumbeat.ports.engines import Gang, GangStatus


@dataclass
class BrokenEngine:
    """An engine that refuses every call with the reason. Implements `ports.Engine`."""

    name: str
    why: str
    has_queue: bool = False

    def machines(self) -> list[Machine]:
        """Returns no machines."""
        return []

    def server_addresses(self) -> list[str]:
        """Raises UnreachableError: the addresses for agents are not known yet."""
        raise UnreachableError(self.why)

    def start(self, gang: Gang) -> str:
        """Raises UnreachableError: the job waits until the engine can be created."""
        raise UnreachableError(f"{gang.name} can't be started: {self.why}")

    def rendered(self, gang: Gang) -> str:
        """Returns nothing, because nothing is submitted to a scheduler."""
        del gang
        return ""

    def observe(self, gang: Gang) -> GangStatus:
        """Raises EngineError: the state of the gang is unknown."""
        raise EngineError(f"{gang.name} can't be observed: {self.why}")

    def stop(self, name: str) -> None:
        """Raises EngineError: the gang may still be running."""
        raise EngineError(f"{name} can't be stopped: {self.why}")

    def sweep(self, wanted: Callable[[], set[str]]) -> list[str]:
        """Ends nothing, because no machine can be reached."""
        del wanted
        return []

    def close(self) -> None:
        """Does nothing, because nothing was created."""

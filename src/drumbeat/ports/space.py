"""The caches that the server's machine keeps for the jobs of this user."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from drumbeat.model.api.server import WarmWorkersView
from drumbeat.model.api.space import Freed, SpaceItem


class MachineCaches(Protocol):
    """The caches of one machine: data, environments, wheels. Servers of one user share them.

    Beside them it measures, and never touches, what else the server keeps on its own disk: datastores, the database.
    """

    def usage(self) -> list[SpaceItem]:
        """Returns the size of each cached item."""
        ...

    def environment(self, key: str) -> SpaceItem | None:
        """The environment of this content, if it is complete; its note is its name."""
        ...

    def free(self) -> int:
        """Returns the free bytes on the disk of the server's files."""
        ...

    def spares(self) -> list[WarmWorkersView]:
        """The warm workers that no job has: they end by themselves when they are idle or memory is short."""
        ...

    def end_spares(self) -> None:
        """Ends the warm workers that no job has, and waits until they have ended."""
        ...

    def prune(self, unused_s: float, needed: Mapping[str, str], *, is_dry: bool) -> Freed:
        """Removes what wasn't used for so many seconds and that no running job has pinned.

        needed: key of an environment's content to the version or alias that needs it; it stays. Raises StorageError.
        """
        ...

"""How a keeper holds on to everything that it starts, so that nothing can outlive a round.

The one seam for it: a PID namespace or a cgroup would come beside `Subreaper`, with the same four methods.
"""

from __future__ import annotations

import os
import signal

from drumbeat.agent import processes


class Subreaper:
    """Every descendant, also one in a session of its own, stays below the keeper; a marker finds them without it."""

    def __init__(self, marker: str) -> None:
        self._marker = marker
        self._keeper = os.getpid()
        self._adopts = processes.adopt_orphans()

    def variables(self) -> dict[str, str]:
        """What is added to a rank's environment."""
        return {processes.MARKER: self._marker}

    def enter(self) -> None:
        """Called in the new process, between fork and exec."""
        processes.die_with_parent(self._keeper)

    def members(self) -> list[int]:
        """All that is alive of what was started."""
        below = processes.descendants(self._keeper)
        if self._adopts:
            return below
        return sorted({*below, *processes.marked(self._marker)})

    def signal(self, number: int) -> None:
        """Sends a signal to all of them. A stopped one is woken, so that it can act on it."""
        members = self.members()
        processes.signal_all(members, number)
        if number != signal.SIGKILL:
            processes.signal_all(members, signal.SIGCONT)

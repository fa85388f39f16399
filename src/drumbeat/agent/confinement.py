"""How a keeper holds on to everything that it starts, so that nothing can outlive a round.

The one seam for it: a PID namespace or a cgroup would come beside `Subreaper`, with the same methods.
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
        self._asked: set[int] = set()

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

    def ask(self, *, helpers: bool = False) -> None:
        """SIGTERM to each member that hasn't had it; a stopped one is woken, so that it can act on it.

        helpers: also to what belongs to a Python program that is asked itself (a data loader's workers): they are its
        own to end, and it couldn't save if they fell away under it.
        """
        members = [pid for pid in self.members() if pid not in self._asked]
        asked = members if helpers else [pid for pid in members if not processes.is_helper(pid)]
        self._asked.update(asked)
        processes.signal_all(asked, signal.SIGTERM)
        processes.signal_all(asked, signal.SIGCONT)

    def kill(self) -> None:
        """SIGKILL to all that is alive."""
        processes.signal_all(self.members(), signal.SIGKILL)

    def forget(self) -> None:
        """A new round begins: a pid that was asked may be another process now."""
        self._asked.clear()

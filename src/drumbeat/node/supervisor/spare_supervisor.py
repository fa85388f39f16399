"""A supervisor as a spare one: how it becomes one, what it obeys then, and when it has waited long enough.

A spare supervisor has no attempt; its warm workers wait for the next job of the same command.
`spare_folders.py` has the folders in which they wait, and for how long.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from drumbeat.model.supervisor import Adopt, LeaveNode, Probe, Retire, SupervisorRequest
from drumbeat.node.supervisor.machine import SupervisorMachine
from drumbeat.node.supervisor.rank_round import RankRound

SPARE_CHECK_INTERVAL_S = 5.0
"""How often a spare supervisor looks at the memory."""


class SpareSupervisor:
    """The part of a supervisor that waits for another attempt."""

    def __init__(
        self, folder: str, round_: RankRound, machine: SupervisorMachine, on_probe: Callable[[], None]
    ) -> None:
        self._folder, self._round, self._machine, self._on_probe = folder, round_, machine, on_probe
        self._place = os.stat(folder)
        """The supervisor's folder, whatever its path."""
        self.retirement: Retire | None = None
        """What the agent wants of the supervisor after its attempt."""
        self.is_spare, self.is_done = False, False
        self.idle_s, self._until = 0.0, 0.0

    def retire(self) -> bool:
        """Becomes a spare supervisor if it was asked to and can keep warm workers; returns whether it has."""
        wanted, self.retirement = self.retirement, None
        if wanted is None or self._round.trouble or not self._round.warm_pool.keep():
            return False
        from drumbeat.node.supervisor import spare_folders  # Later: most supervisors never retire.

        try:
            self._round.records.clear()
            spare_folders.place(self._folder, wanted.folder, self._round.warm_pool, self._machine)
        except OSError:  # Another file system, a full disk: the next job starts cold.
            return False
        self._folder = wanted.folder
        self._round.retire(wanted.folder)
        self.is_spare, self.is_done, self.idle_s = True, False, wanted.idle_s
        self._until = self._machine.monotonic() + wanted.idle_s
        return True

    def obey(self, request: SupervisorRequest | None) -> None:
        """Obeys a request to a spare supervisor. Its earlier agent, or one that lost the race for it, may call."""
        match request:
            case Adopt() if not self.is_done and self._is_in(request.folder):
                self._folder = request.folder
                self._round.move(request.folder)
                self.is_spare = False
            case LeaveNode(is_spare=True):
                self.is_done = True
            case Probe():
                self._on_probe()
            case _:
                pass

    def look(self) -> None:
        """Looks at the memory; it is done when it is old, has no interpreter left, or is one too many."""
        from drumbeat.node.supervisor import spare_folders

        self._round.warm_pool.look_spare()
        is_old = self._machine.monotonic() >= self._until
        if is_old or not self._round.warm_pool.pids or spare_folders.is_surplus(self._folder, self._machine):
            self.is_done = True

    def remove(self) -> None:
        """Removes its folder, if it is a spare supervisor."""
        if self.is_spare:
            from drumbeat.node.supervisor import spare_folders

            spare_folders.remove(self._folder)

    def _is_in(self, folder: str) -> bool:
        """Whether the folder of this spare supervisor has that path now."""
        try:
            return os.path.samestat(os.stat(folder), self._place)
        except OSError:
            return False

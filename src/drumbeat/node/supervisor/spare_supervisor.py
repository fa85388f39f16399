"""The spare state of a supervisor: how it enters it, which requests it obeys then, and when it ends.

A spare supervisor has no attempt; its warm workers wait for the next job of the same command. `spare_folders.py` has
the folders in which they wait, and for how long.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from drumbeat.model.supervisor import Adopt, LeaveNode, Probe, Retire, SupervisorRequest
from drumbeat.node.supervisor.machine import SupervisorMachine
from drumbeat.node.supervisor.rank_round import RankRound

SPARE_CHECK_INTERVAL_S = 5.0
"""How often a spare supervisor checks the memory."""


class SpareSupervisor:
    """The part of a supervisor that waits for another attempt."""

    def __init__(
        self, folder: str, round_: RankRound, machine: SupervisorMachine, on_probe: Callable[[], None]
    ) -> None:
        self._folder, self._round, self._machine, self._on_probe = folder, round_, machine, on_probe
        self._place = os.stat(folder)
        """The supervisor's open folder, whatever its path."""
        self.retirement: Retire | None = None
        """The agent's request for the time after its attempt."""
        self.is_spare, self.is_done = False, False
        self.is_handed_over = False
        """Whether it waits for the agent of the next job on the node, in that job's folder."""
        self.idle_s, self._until = 0.0, 0.0

    def retire(self) -> bool:
        """Becomes a spare supervisor if that was requested and it has warm workers to keep; returns whether it did."""
        wanted, self.retirement = self.retirement, None
        if wanted is None or self._round.trouble:
            return False
        if not self._round.warm_pool.keep() and not wanted.is_handover:
            return False
        from drumbeat.node.supervisor import spare_folders  # Imported here, because most supervisors never retire.

        try:
            self._round.records.clear()
            spare_folders.place(self._folder, wanted.folder, self._round.warm_pool, self._machine)
        except OSError:  # Another file system, or a full disk: the next job starts cold.
            return False
        self._folder = wanted.folder
        self._round.retire(wanted.folder)
        self.is_spare, self.is_done, self.idle_s = True, False, wanted.idle_s
        self.is_handed_over = wanted.is_handover
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
        """Checks the memory. It is done when it is old, has no warm worker left, or exceeds the limit."""
        from drumbeat.node.supervisor import spare_folders

        self._round.warm_pool.look_spare()
        is_old = self._machine.monotonic() >= self._until
        if self.is_handed_over and not is_old:
            return
        if is_old or not self._round.warm_pool.pids or spare_folders.is_surplus(self._folder, self._machine):
            self.is_done = True

    def remove(self) -> None:
        """Removes its folder, if it is a spare supervisor."""
        if self.is_spare:
            from drumbeat.node.supervisor import spare_folders

            spare_folders.remove(self._folder)

    def _is_in(self, folder: str) -> bool:
        """Whether the folder of this spare supervisor now has this path."""
        try:
            return os.path.samestat(os.stat(folder), self._place)
        except OSError:
            return False

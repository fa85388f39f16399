"""How a rank ended, for the server: exit code and signal, corrected where they don't say it, and the end of its log.

What corrects them: a launcher's own word (`correct_exit` in `agent/launchers/`), a kill at a memory limit.
"""

from __future__ import annotations

import signal
from dataclasses import replace

from drumbeat.agent.ground import machine_memory
from drumbeat.agent.launchers.launcher import NodeLauncher
from drumbeat.agent.logs.failure_excerpt import failure_excerpt
from drumbeat.protocol.agent import RankExit
from drumbeat.protocol.keeper import KeptExit


class RankExits:
    """Reads the exits of a node's ranks from what the keeper saw of them."""

    def __init__(self, launcher: NodeLauncher) -> None:
        self._launcher = launcher
        self._kernel_kills = machine_memory.kernel_kills()
        """How many processes had been killed at a memory limit when the last round was over."""

    def read(self, ended: KeptExit, log: str) -> RankExit:
        """Returns how the rank ended. log: the path of its log."""
        is_raised = ended.code == 1 and not ended.is_stopped
        exit_seen = RankExit(**vars(ended), tail=failure_excerpt(log, is_raised=is_raised))
        corrected = self._launcher.correct_exit(exit_seen)
        is_killed = signal.SIGKILL in (corrected.signal, (corrected.code or 0) - 128)
        if is_killed and not corrected.is_stopped and machine_memory.kernel_kills() > self._kernel_kills:
            return replace(corrected, memory_limit_mib=machine_memory.limit() >> 20)
        return corrected

    def end_round(self) -> None:
        """Kills from now on are of the next round."""
        self._kernel_kills = machine_memory.kernel_kills()

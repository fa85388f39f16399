"""How a rank ended, where its exit code and signal don't say it: a launcher's own word, a kill at a memory limit."""

from __future__ import annotations

import signal
from dataclasses import replace

from drumbeat.agent.ground import machine_memory
from drumbeat.agent.launchers.launcher import NodeLauncher
from drumbeat.protocol.agent import RankExit


class ExitCorrection:
    """Corrects the exits of a node's ranks, as the keeper saw them, before the server reads them."""

    def __init__(self, launcher: NodeLauncher) -> None:
        self._launcher = launcher
        self._kernel_kills = machine_memory.kernel_kills()
        """How many processes had been killed at a memory limit when the last round was over."""

    def correct(self, ended: RankExit) -> RankExit:
        """Returns how the rank ended."""
        corrected = self._launcher.correct_exit(ended)
        is_killed = signal.SIGKILL in (corrected.signal, (corrected.code or 0) - 128)
        if is_killed and not corrected.is_stopped and machine_memory.kernel_kills() > self._kernel_kills:
            return replace(corrected, memory_limit_mib=machine_memory.limit() >> 20)
        return corrected

    def end_round(self) -> None:
        """Kills from now on are of the next round."""
        self._kernel_kills = machine_memory.kernel_kills()

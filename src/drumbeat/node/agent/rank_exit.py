"""The exit of a rank, for the server: exit code and signal, corrected where they mislead, and the end of its log.

Corrections come from a launcher (`correct_exit` in `node/launchers/`), a kill at a memory limit, and the mark of a
program that had ended cleanly before its interpreter died.
"""

from __future__ import annotations

import signal
from dataclasses import replace

from drumbeat.model.agent import RankExit
from drumbeat.model.supervisor import SupervisedExit
from drumbeat.node.launchers.launcher import NodeLauncher
from drumbeat.node.logs.failure_excerpt import failure_excerpt
from drumbeat.node.platform import machine_memory

_SIGNALS = frozenset(signal.valid_signals())
_MARK_BYTES = 100


def mark_path(log: str) -> str:
    """Returns the file in which a rank's Python marks its program's clean end (`environments/program_end.py`). log: its
    log.
    """
    return f"{log}.end"


def _end_mark(log: str) -> str:
    """Returns the content of the mark, "" = there is none."""
    try:
        with open(mark_path(log), encoding="ascii", errors="replace") as file:
            return file.read(_MARK_BYTES)
    except OSError:
        return ""


class RankExits:
    """Determines the exits of a node's ranks from the supervisor's observations."""

    def __init__(self, launcher: NodeLauncher, *, is_contained: bool = False) -> None:
        """is_contained: the ranks run in containers, whose engines report a signal as an exit code."""
        self._launcher, self._is_contained = launcher, is_contained
        self._kernel_kills = machine_memory.kernel_kills()
        """The count of kills at a memory limit at the end of the last round."""

    def read(self, ended: SupervisedExit, log: str) -> RankExit:
        """Returns the exit of the rank. log: the path of its log."""
        is_raised = ended.code == 1 and not ended.is_stopped
        exit_seen = RankExit(**vars(ended), tail=failure_excerpt(log, is_raised=is_raised))
        if self._may_be_marked(exit_seen):
            exit_seen = replace(exit_seen, end_mark=_end_mark(log))
        corrected = self._launcher.correct_exit(exit_seen)
        is_killed = signal.SIGKILL in (corrected.signal, (corrected.code or 0) - 128)
        if is_killed and not corrected.is_stopped and machine_memory.kernel_kills() > self._kernel_kills:
            corrected = replace(corrected, memory_limit_mib=machine_memory.limit() >> 20)
        return corrected

    def _may_be_marked(self, ended: RankExit) -> bool:
        """Whether the rank's own process was ended by a signal, not by its supervisor."""
        is_signal = ended.signal is not None or (self._is_contained and (ended.code or 0) - 128 in _SIGNALS)
        return is_signal and not ended.is_stopped and not ended.error

    def end_round(self) -> None:
        """Ends the round: later kills at a memory limit belong to the next one."""
        self._kernel_kills = machine_memory.kernel_kills()

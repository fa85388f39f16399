"""Checks by the processes below a node's ranks whether a launcher or Horovod has formed the job's world."""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable

from drumbeat.launchers.launcher_table import launcher_for
from drumbeat.launchers.world_size import ABOUT, HOROVOD, VARIABLES, Process, verdict
from drumbeat.model.agent import NodeMessage
from drumbeat.model.plan import Plan
from drumbeat.model.process import SIDECAR
from drumbeat.node.host import processes

PAUSES_S = (2.0, 5.0, 15.0, 40.0, 120.0)
"""Seconds before each check. A verdict ends the checks."""


class WorldCheck:
    """Checks one node. remember: receives messages for the user."""

    def __init__(self, plan: Plan, node: int, remember: Callable[[NodeMessage], None]) -> None:
        self._plan, self._node, self._remember = plan, node, remember
        self._round, self._is_over = -1, threading.Event()

    def begin(self, number: int, supervisor: int) -> None:
        """Begins to check the ranks of a round, which are descendants of this supervisor. Idempotent."""
        if number == self._round or not self._can_nest():
            return
        self.end()
        self._round, self._is_over = number, threading.Event()
        threading.Thread(target=self._follow, args=(supervisor, self._is_over), name="world check", daemon=True).start()

    def _can_nest(self) -> bool:
        return launcher_for(self._plan).can_nest(self._plan)

    def end(self) -> None:
        """Stops the checks, as the ranks have ended."""
        self._is_over.set()

    def _follow(self, supervisor: int, is_over: threading.Event) -> None:
        for pause_s in PAUSES_S:
            if is_over.wait(pause_s):
                return
            try:
                sentence = verdict(self._plan, self._node, below(supervisor))
            except Exception:  # noqa: BLE001 (it inspects arbitrary processes, and no job may end because of that)
                traceback.print_exc()
                return
            if sentence:
                self._remember(NodeMessage(ABOUT, sentence))
            if sentence is not None:
                return


def below(supervisor: int) -> list[Process]:
    """Returns the descendants of the supervisor."""
    family = processes.family(supervisor, *VARIABLES, SIDECAR)
    return [
        Process(pid, parent, tuple(words), variables, is_horovods=processes.has_mapped(pid, HOROVOD))
        for pid, parent, words, variables in family
        if SIDECAR not in variables and not processes.is_spare(pid)
    ]

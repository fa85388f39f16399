"""Holds one node of a gang for a scheduler: its agent, and everything that the agent leaves behind."""

from __future__ import annotations

import contextlib
import os
import signal
import tempfile
from collections.abc import Callable
from pathlib import Path

from drumbeat.node.host import processes
from drumbeat.node.host.gangs import Gangs, StuckError, living_agent

LEFT = 0
"""Exit code of an agent that the server dismissed; it isn't started again."""
STALE = 3
"""Exit code of an agent that was replaced by another one."""
TERMINATED = 143
"""Exit code of an agent that ended by SIGTERM."""
WONT_STAY = 1
_LOOK_S = 1.0


def own_folder() -> Path:
    """The folder of this node. Its name contains the node's, because `TMPDIR` may be a disk that nodes share."""
    return Path(tempfile.gettempdir(), f"drumbeat-{os.getuid()}-{os.uname().nodename}")


class NodeHolder:
    """Holds a node of a gang until it is over. name: of the gang's folder. say: receives messages for the scheduler."""

    def __init__(self, gangs: Gangs, name: str, node: int, say: Callable[[str], None]) -> None:
        self._gangs, self._name, self._node, self._say = gangs, name, node, say
        self._folder = gangs.folder / name / str(node)
        self._is_terminated = False

    @property
    def folder(self) -> str:
        """The node's folder, which exists from its start until it is over."""
        return str(self._folder)

    @property
    def root(self) -> str:
        """The attempt's folder on the node."""
        return str(self._folder / "root")

    @property
    def is_held(self) -> bool:
        """Whether an agent already runs there."""
        return living_agent(self._folder) is not None

    def hold(self, enrolment: str, on_start: Callable[[], None] = lambda: None) -> int:
        """Returns 0 = the server dismissed the node; 143 = the node was told to stop; 1 = its agent keeps ending.

        on_start: is called once the agent runs. Raises OSError when it can't be started.
        """
        processes.adopt_orphans()
        signal.signal(signal.SIGTERM, self._pass_on)
        try:
            self._gangs.start(self._name, {self._node: enrolment})
            on_start()
            return self._until_over()
        finally:
            with contextlib.suppress(StuckError):  # The scheduler notices it, too, and takes the node out of use.
                self._gangs.stop(self._name)

    def _until_over(self) -> int:
        while True:
            code = self._gangs.ended(self._name, self._node, _LOOK_S)
            if code is None and self._gangs.has_started(self._name, self._node):
                # It lives. `look` might find it just ended, and restart it.
                # SIGTERM may have come while the agent was starting; a second one does no harm.
                if self._is_terminated:
                    self._pass_on()
                continue
            if code is not None and (self._is_terminated or code == TERMINATED):
                return TERMINATED
            if code in (LEFT, STALE) or not self._folder.exists():  # Another process has ended the gang.
                return LEFT
            for why in self._gangs.look(self._name, [self._node]).values():
                self._say(why)
                return WONT_STAY

    def _pass_on(self, *_: object) -> None:
        """Passes SIGTERM on. A scheduler may signal the node's processes itself; a second signal does no harm."""
        self._is_terminated = True
        if (agent := living_agent(self._folder)) is not None:
            processes.signal_all([agent], signal.SIGTERM)

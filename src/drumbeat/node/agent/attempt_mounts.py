"""The mounts, output links and messages of one attempt on this node.

Every agent loads this module, so imports that only some jobs need are inside functions.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from drumbeat.model import wire
from drumbeat.model.agent import Enrolment, NodeMessage
from drumbeat.node.inputs.input_stager import forget
from drumbeat.node.platform.request_backoff import until_reached

if TYPE_CHECKING:
    from drumbeat.node.inputs.input_ways import Ways
    from drumbeat.node.inputs.mounting.mounts import Mounts


class AttemptMounts:
    """Mounts, output links and messages of one attempt on this node.

    note: writes to the agent's journal. has_news: is called after a new message.
    """

    def __init__(self, enrolment: Enrolment, note: Callable[[str], None], has_news: Callable[[], None]) -> None:
        self._enrolment, self._root, self._note, self._has_news = enrolment, enrolment.root, note, has_news
        self._remembering = threading.Lock()
        self._made: Mounts | None = None

    def adopt(self) -> None:
        """Adopts the mounts of an earlier agent."""
        if os.path.isdir(f"{self._root}/mounts"):
            self._mounts().adopt()

    def ways(self) -> Ways:
        """Returns the ways to use inputs without fetching them."""
        from drumbeat.node.inputs.input_ways import Ways

        return Ways(self._enrolment, self._mounts, self.remember)

    def take_links(self, ask: Callable[[str], str]) -> None:
        """Requests the addresses to which ranks write outputs directly. ask: requests one from the server."""
        names = [one.name for one in self._enrolment.plan.outputs if one.mode == "direct"]
        if names:
            from drumbeat.node.inputs.mounting import direct_outputs

            direct_outputs.keep(self._root, {name: until_reached(partial(ask, name)) for name in names})

    def appear(self) -> None:
        """Creates the paths at which the job expects its inputs and outputs. Raises RefusedError."""
        plan = self._enrolment.plan
        if plan.container is None and any(one.appears for one in (*plan.inputs, *plan.outputs)):
            from drumbeat.node.inputs.path_on_compute import appear

            appear(plan, self._root)

    def look(self) -> None:
        """Adds messages about inputs that could not be read so far."""
        if self._made is not None:
            self._made.look()

    def pids(self) -> set[int]:
        """Returns the processes that outlive supervisors."""
        return self._made.pids() if self._made else set()

    def end(self) -> None:
        """Removes mounts and links after the last rank has ended. A later agent of this attempt stages again."""
        forget(self._root)
        if self._made is not None or os.path.isdir(f"{self._root}/mounts"):
            self._mounts().end()
        if os.path.exists(f"{self._root}/appears.json"):
            from drumbeat.node.inputs.path_on_compute import vanish

            vanish(self._root)

    # --- messages -------------------------------------------------------------------------------------------------
    def messages(self) -> tuple[NodeMessage, ...]:
        """Returns the messages of all agents of this attempt."""
        try:
            with open(f"{self._root}/remarks.json", encoding="utf-8") as file:
                return tuple(wire.from_wire(NodeMessage, one) for one in json.load(file))
        except (OSError, ValueError):
            return ()

    def remember(self, message: NodeMessage) -> None:
        """Stores a message for the status of this agent and later ones, unless the disk refuses. Thread-safe."""
        part = f"{self._root}/remarks.json.part"
        with self._remembering:
            if message in (before := self.messages()):
                return
            others = [one for one in before if one.subject != message.subject]
            try:
                with open(part, "w", encoding="utf-8") as file:
                    json.dump(wire.to_wire([*others, message]), file)
                os.rename(part, f"{self._root}/remarks.json")
            except OSError as error:
                self._note(f"{message.sentence}: not remembered: {error}")
                return
        self._has_news()

    def _mounts(self) -> Mounts:
        from drumbeat.node.inputs.mounting.mounts import Mounts

        self._made = self._made or Mounts(self._enrolment, self._note, self.remember)
        return self._made

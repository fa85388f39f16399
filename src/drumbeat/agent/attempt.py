"""What an attempt has on its node beside processes and its own files: mounts, and links at paths that the job named.

Loaded by every agent, so what most jobs don't need is imported only when it is.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from drumbeat.agent.ground.backoff import until_reached
from drumbeat.agent.inputs.local import forget
from drumbeat.protocol import wire
from drumbeat.protocol.agent import Enrolment, Remark

if TYPE_CHECKING:
    from drumbeat.agent.inputs.in_place_or_mounted import Ways
    from drumbeat.agent.inputs.mounting.mounts import Mounts


class Beyond:
    """Of one attempt on one node. note: is told what goes into the agent's journal. has_news: there are new remarks."""

    def __init__(self, enrolment: Enrolment, note: Callable[[str], None], has_news: Callable[[], None]) -> None:
        self._enrolment, self._root, self._note, self._has_news = enrolment, enrolment.root, note, has_news
        self._remembering = threading.Lock()
        self._made: Mounts | None = None

    def adopt(self) -> None:
        """Looks after what an agent before this one had mounted."""
        if os.path.isdir(f"{self._root}/mounts"):
            self._mounts().adopt()

    def ways(self) -> Ways:
        """How inputs may be had without being fetched."""
        from drumbeat.agent.inputs.in_place_or_mounted import Ways

        return Ways(self._enrolment, self._mounts, self.remember)

    def take_links(self, ask: Callable[[str], str]) -> None:
        """Has the addresses at which the ranks write outputs themselves. ask: the server for one."""
        names = [one.name for one in self._enrolment.plan.outputs if one.mode == "direct"]
        if names:
            from drumbeat.agent.inputs.mounting import direct

            direct.keep(self._root, {name: until_reached(partial(ask, name)) for name in names})

    def appear(self) -> None:
        """Shows inputs and outputs where the job wants them. Raises RefusedError."""
        plan = self._enrolment.plan
        if plan.container is None and any(one.appears for one in (*plan.inputs, *plan.outputs)):
            from drumbeat.agent.inputs.appearing import appear

            appear(plan, self._root)

    def look(self) -> None:
        """Remarks on what could not be read so far, if anything."""
        if self._made is not None:
            self._made.look()

    def pids(self) -> set[int]:
        """Processes that outlive keepers."""
        return self._made.pids() if self._made else set()

    def end(self) -> None:
        """Nothing is left of it: no rank runs any more. An agent that comes to this attempt again stages anew."""
        forget(self._root)
        if self._made is not None or os.path.isdir(f"{self._root}/mounts"):
            self._mounts().end()
        if os.path.exists(f"{self._root}/appears.json"):
            from drumbeat.agent.inputs.appearing import vanish

            vanish(self._root)

    # --- remarks --------------------------------------------------------------------------------------------------
    def remarks(self) -> tuple[Remark, ...]:
        """What was said of it in this attempt, by whichever agent."""
        try:
            with open(f"{self._root}/remarks.json", encoding="utf-8") as file:
                return tuple(wire.from_wire(Remark, one) for one in json.load(file))
        except (OSError, ValueError):
            return ()

    def remember(self, remark: Remark) -> None:
        """Has it told to the server, by whichever agent; one that can't be written down isn't. For any thread."""
        part = f"{self._root}/remarks.json.part"
        with self._remembering:
            if remark in (before := self.remarks()):
                return
            known = [one for one in before if one.about != remark.about]
            try:
                with open(part, "w", encoding="utf-8") as file:
                    json.dump(wire.to_wire([*known, remark]), file)
                os.rename(part, f"{self._root}/remarks.json")
            except OSError as error:
                self._note(f"{remark.sentence}: not remembered: {error}")
                return
        self._has_news()

    def _mounts(self) -> Mounts:
        from drumbeat.agent.inputs.mounting.mounts import Mounts

        self._made = self._made or Mounts(self._enrolment, self._note, self.remember)
        return self._made

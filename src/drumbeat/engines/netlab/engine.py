"""The engine over a lab: it enters the namespaces of the nodes, which share this machine's files."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from drumbeat.core.scheduling.autoscaling import StartTimes
from drumbeat.engines.netlab.lab import LEAVING, PARKED, Lab
from drumbeat.engines.remote_engine import RemoteEngine, understood
from drumbeat.engines.remote_host import Answer, Host
from drumbeat.model.api.computes import Machine, NodeState
from drumbeat.model.errors import EngineError, UnreachableError
from drumbeat.model.programs import HOST
from drumbeat.node.host.own_programs import program
from drumbeat.ports.engines import Gang, GangStatus

ASK_S = 30.0
START_TIMEOUT_S = 60.0
"""How long a node that was switched on and isn't usable yet counts as starting."""
CACHE = "DRUMBEAT_CACHE"
DATA_CACHE = "DRUMBEAT_DATA_CACHE"
"""The variable that names the folder of a node's data: the nodes of a lab fetch as if each had a disk of its own
(node/platform/cache_folders.py)."""


@dataclass(frozen=True)
class Inside:
    """Runs commands on one node. inherited: the part of this process's environment that its agents, and so ranks,
    inherit. has_own_cache: whether the node has environments of its own, too, and not the data alone.
    """

    lab: Lab
    node: str
    inherited: Callable[[], Mapping[str, str]]
    has_own_cache: bool = False

    def ask(self, verb: str, request: Mapping[str, object]) -> Answer:
        if trouble := self.lab.trouble(self.node):
            raise UnreachableError(trouble)
        try:
            command = self.lab.inside(self.node, [*program(HOST), verb])
            done = subprocess.run(
                command, input=json.dumps(request).encode(), capture_output=True, timeout=ASK_S, check=False,
                env={**self.inherited(), **self._caches()},
            )  # fmt: skip
        except (EngineError, OSError, subprocess.TimeoutExpired) as error:
            raise UnreachableError(getattr(error, "what", str(error))) from error
        return understood(done.stdout, done.stderr)

    def _caches(self) -> dict[str, str]:
        folder = self.lab.folder / "nodes" / self.node
        return {CACHE: str(folder / "cache")} if self.has_own_cache else {DATA_CACHE: str(folder / "data")}


class NetlabEngine(RemoteEngine):
    """A lab of `Lab.nodes` nodes with `cpus` slots each. kept: the folder for what outlives attempts. has_own_caches:
    whether each node makes environments of its own, as machines do.
    """

    has_own_checkpoints = False

    def __init__(  # noqa: PLR0913 (what a lab has, and how its agents are started)
        self,
        lab: Lab,
        cpus: int,
        kept: Path,
        inherited: Callable[[], Mapping[str, str]] = os.environ.copy,
        on: int | None = None,
        *,
        has_own_caches: bool = False,
    ) -> None:
        """on: how many nodes of a new lab start switched on, None = all."""
        self.lab, self._inherited, self._has_own_caches = lab, inherited, has_own_caches
        self._start_times = StartTimes()
        self._starting: dict[str, float] = {}
        """Nodes that were switched on and aren't usable yet, with the monotonic time of the switch."""
        lab.up(on)
        nodes = lab.blueprint()["nodes"]
        super().__init__("netlab", [self._host(node, cpus, kept) for node in nodes], lambda: [lab.gateway])

    def _host(self, node: dict[str, Any], cpus: int, kept: Path) -> Host:
        folder = self.lab.folder / "nodes" / node["name"] / "gangs"
        return Host(
            node["name"],
            Inside(self.lab, node["name"], self._inherited, self._has_own_caches),
            str(folder),
            str(kept),
            cpus=cpus,
            gpus=(),
            address=node["address"],
        )

    def observe(self, gang: Gang) -> GangStatus:
        """Observes the gang; a node that is off is gone without asking."""
        seen = super().observe(gang)
        off = {
            slot.node: f"node {slot.machine} was switched off"
            for slot in gang.slots
            if not self.lab.pid_of(slot.machine)
        }
        return GangStatus(seen.word, {**seen.gone, **off})

    def machines(self) -> list[Machine]:
        """The machines; a node that is off is shown as off, whenever it was last observed."""
        return [self._as_it_is(one) for one in super().machines()]

    def _as_it_is(self, one: Machine) -> Machine:
        unusable = self.lab.trouble(one.name) or one.unusable
        if self.lab.has_mark(one.name, PARKED):
            return replace(one, unusable="it is switched off", state=NodeState.OFF, why="no job needs it")
        if self.lab.has_mark(one.name, LEAVING):
            return replace(one, unusable="it is being switched off", state=NodeState.LEAVING, why="no job needs it")
        if (since := self._starting.get(one.name)) is not None:
            if unusable and time.monotonic() - since < START_TIMEOUT_S:
                return replace(one, unusable="it is being started", state=NodeState.PREPARING, why="a job needs it")
            self._starting.pop(one.name, None)
            if not unusable:
                self._start_times.add(time.monotonic() - since)
        if one.is_awaited and unusable:
            return replace(one, unusable="it is starting", state=NodeState.PREPARING)
        return replace(one, unusable=unusable)

    # --- scaling ------------------------------------------------------------------------------------------------
    def usual_start_s(self) -> float | None:
        """The median duration of the last starts."""
        return self._start_times.usual_s()

    def switch_on(self, names: Sequence[str]) -> None:
        """Switches nodes on; they answer a moment later."""
        for name in names:
            if self.lab.has_mark(name, PARKED):
                self._starting[name] = time.monotonic()
                self.lab.switch_on(name)
                self.look_soon(name)

    def let_go(self, names: Sequence[str], *, is_leaving: bool) -> None:
        """Marks nodes as leaving, or removes the mark."""
        for name in names:
            self.lab.set_leaving(name, is_leaving=is_leaving)

    def switch_off(self, names: Sequence[str]) -> None:
        """Ends nodes with everything on them."""
        for name in names:
            self.lab.park(name)

    def close(self) -> None:
        """Ends the lab."""
        super().close()
        self.lab.close()

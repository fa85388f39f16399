"""The engine over a lab: its nodes are reached by entering their namespaces, and share this machine's files."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from drumbeat.engines.netlab.lab import Lab
from drumbeat.engines.remote import Answer, Host, RemoteEngine, understood
from drumbeat.host.program import program
from drumbeat.ports import Gang, Machine, Sighting
from drumbeat.protocol.errors import EngineError, UnreachableError
from drumbeat.protocol.programs import HOST

ASK_S = 30.0
DATA_CACHE = "DRUMBEAT_DATA_CACHE"
"""The variable that names the folder of a node's data: the nodes of a lab fetch as if each had a disk of its own
(agent/ground/cache_folders.py)."""


@dataclass(frozen=True)
class Inside:
    """The way into one node. inherited: what its agents, and so ranks, have of this process's environment."""

    lab: Lab
    node: str
    inherited: Callable[[], Mapping[str, str]]

    def ask(self, verb: str, request: Mapping[str, object]) -> Answer:
        if trouble := self.lab.trouble(self.node):
            raise UnreachableError(trouble)
        try:
            command = self.lab.inside(self.node, [*program(HOST), verb])
            done = subprocess.run(
                command, input=json.dumps(request).encode(), capture_output=True, timeout=ASK_S, check=False,
                env={**self.inherited(), DATA_CACHE: str(self.lab.folder / "nodes" / self.node / "data")},
            )  # fmt: skip
        except (EngineError, OSError, subprocess.TimeoutExpired) as error:
            raise UnreachableError(getattr(error, "what", str(error))) from error
        return understood(done.stdout, done.stderr)


class NetlabEngine(RemoteEngine):
    """A lab of `lab.nodes` nodes with `cpus` slots each. kept: where what outlives attempts lies."""

    def __init__(
        self, lab: Lab, cpus: int, kept: Path, inherited: Callable[[], Mapping[str, str]] = os.environ.copy
    ) -> None:
        self.lab, self._inherited = lab, inherited
        lab.up()
        nodes = lab.blueprint()["nodes"]
        super().__init__("netlab", [self._host(node, cpus, kept) for node in nodes], lambda: [lab.gateway])

    def _host(self, node: dict[str, Any], cpus: int, kept: Path) -> Host:
        folder = self.lab.folder / "nodes" / node["name"] / "gangs"
        return Host(
            node["name"],
            Inside(self.lab, node["name"], self._inherited),
            str(folder),
            str(kept),
            cpus=cpus,
            gpus=(),
            address=node["address"],
        )

    def observe(self, gang: Gang) -> Sighting:
        """A node that is off is known to be gone."""
        seen = super().observe(gang)
        off = {
            slot.node: f"node {slot.machine} was switched off"
            for slot in gang.slots
            if not self.lab.pid_of(slot.machine)
        }
        return Sighting(seen.word, {**seen.gone, **off})

    def machines(self) -> list[Machine]:
        """A node that is off is known to be, whenever it was last asked."""
        return [replace(one, unusable=self.lab.trouble(one.name) or one.unusable) for one in super().machines()]

    def close(self) -> None:
        """The lab goes with its engine."""
        super().close()
        self.lab.close()

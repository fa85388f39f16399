"""The engine that every server has: nodes are folders and processes of this machine, and outlive the server."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from drumbeat.engines.enrolment import enrolment
from drumbeat.engines.start_errors import not_started
from drumbeat.model.api.computes import Machine
from drumbeat.model.errors import UnreachableError
from drumbeat.node.host.gangs import Gangs, StuckError
from drumbeat.node.host.gpus import gpus
from drumbeat.node.host.machine import memory_mib
from drumbeat.ports.engines import Gang, GangStatus


@dataclass
class LocalEngine:
    """Nodes on this machine under `folder`; checkpoints outlive attempts, under `kept`."""

    folder: Path
    kept: Path
    name: str = "local"
    has_queue: bool = False
    leave_s: float = 2.0
    """How long the engine waits for agents that are leaving."""
    inherited: Callable[[], Mapping[str, str]] = os.environ.copy
    """The part of this process's environment that agents, and so ranks, inherit."""
    _gangs: Gangs = field(init=False)
    _ended: set[str] = field(default_factory=set[str])
    """Gangs that were stopped: an observation of one that had already begun says nothing about its nodes."""

    def __post_init__(self) -> None:
        self._gangs = Gangs(self.folder, leave_s=self.leave_s, inherited=self.inherited)

    def machines(self) -> list[Machine]:
        """The machine of the server: the cores that it may use, and its GPUs."""
        return [Machine("this machine", len(os.sched_getaffinity(0)), gpus(os.environ), memory_mib())]

    def server_addresses(self) -> list[str]:
        """The loopback address."""
        return []

    def start(self, gang: Gang) -> str:
        """Starts an agent for every node without one; all or none."""
        self._ended.discard(gang.name)  # A gang that is started again is observed like any other.
        try:
            with _reachable():
                self._gangs.start(gang.name, {slot.node: self._enrolment(gang, slot.node) for slot in gang.slots})
        except OSError as error:
            raise not_started(error, self.folder) from error
        return "started"

    def rendered(self, gang: Gang) -> str:
        """Empty: nothing is submitted to a cluster."""
        del gang
        return ""

    def observe(self, gang: Gang) -> GangStatus:
        """Restarts agents that have ended; a node whose agent keeps ending is gone."""
        nodes = [slot.node for slot in gang.slots]
        try:
            gone = self._gangs.look(gang.name, nodes, lambda node: self._enrolment(gang, node))
        except OSError as error:  # A full disk. Silent agents are given up regardless.
            return GangStatus(f"its agents can't be observed: {error}")
        if gang.name in self._ended:
            return GangStatus("stopped")
        word = "running" if not gone else f"{len(gone)} of {len(gang.slots)} nodes gone"
        return GangStatus(word, gone)

    def stop(self, name: str) -> None:
        """Waits a moment for agents that leave, kills the remaining processes, and removes the folder.

        Raises UnreachableError while a process can't be killed.
        """
        self._ended.add(name)
        with _reachable():
            self._gangs.stop(name)

    def sweep(self, wanted: Callable[[], set[str]]) -> list[str]:
        """Ends all gangs but the wanted ones: remains of an earlier server or of a reboot."""
        with _reachable():
            return self._gangs.sweep(wanted)

    def close(self) -> None:
        """Does nothing: the engine has nothing but its gangs."""

    def _enrolment(self, gang: Gang, node: int) -> str:
        root = self.folder / gang.name / str(node) / gang.root_name
        checkpoints = self.kept / gang.job / "checkpoints"
        return enrolment(
            gang, node, root=str(root), checkpoints=str(checkpoints), address="127.0.0.1", keeps_spares=True
        )


@contextlib.contextmanager
def _reachable() -> Generator[None]:
    """Turns an OSError into UnreachableError: the call is repeated while the kernel holds a process or file."""
    try:
        yield
    except StuckError as error:
        raise UnreachableError(str(error)) from error

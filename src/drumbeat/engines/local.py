"""The engine that is always there: nodes are folders and processes of this machine, apart from the server's life."""

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
from drumbeat.ports.engines import Gang, Sighting


@dataclass
class LocalEngine:
    """Nodes on this machine under `folder`; checkpoints outlive attempts and lie under `kept`."""

    folder: Path
    kept: Path
    name: str = "local"
    has_queue: bool = False
    leave_s: float = 2.0
    """How long agents that were told to leave are waited for."""
    inherited: Callable[[], Mapping[str, str]] = os.environ.copy
    """What agents, and so ranks, have of this process's environment."""
    _gangs: Gangs = field(init=False)
    _ended: set[str] = field(default_factory=set[str])
    """Gangs that were stopped: a look at one that was under way says nothing of its nodes."""

    def __post_init__(self) -> None:
        self._gangs = Gangs(self.folder, leave_s=self.leave_s, inherited=self.inherited)

    def machines(self) -> list[Machine]:
        """One machine, the one we are on: the cores that it may use, its GPUs."""
        return [Machine("this machine", len(os.sched_getaffinity(0)), gpus(os.environ), memory_mib())]

    def server_addresses(self) -> list[str]:
        """Loopback will do."""
        return []

    def start(self, gang: Gang) -> str:
        """Starts an agent for every node that has none; all or none."""
        self._ended.discard(gang.name)  # What is started again is looked after like any other gang.
        try:
            with _reachable():
                self._gangs.start(gang.name, {slot.node: self._enrolment(gang, slot.node) for slot in gang.slots})
        except OSError as error:
            raise not_started(error, self.folder) from error
        return "started"

    def rendered(self, gang: Gang) -> str:
        """Nothing is handed over."""
        del gang
        return ""

    def observe(self, gang: Gang) -> Sighting:
        """Starts agents again that are gone; a node whose agent won't stay is gone."""
        nodes = [slot.node for slot in gang.slots]
        try:
            gone = self._gangs.look(gang.name, nodes, lambda node: self._enrolment(gang, node))
        except OSError as error:  # A full disk: agents that are silent for too long are given up all the same.
            return Sighting(f"its agents can't be looked after: {error}")
        if gang.name in self._ended:
            return Sighting("stopped")
        word = "running" if not gone else f"{len(gone)} of {len(gang.slots)} nodes gone"
        return Sighting(word, gone)

    def stop(self, name: str) -> None:
        """Waits a moment for agents that leave by themselves, kills whatever is left, and removes the folder.

        Raises UnreachableError while something can't be killed.
        """
        self._ended.add(name)
        with _reachable():
            self._gangs.stop(name)

    def sweep(self, wanted: Callable[[], set[str]]) -> list[str]:
        """Ends what is here of other gangs than the wanted ones: an earlier server, or the machine, went down."""
        with _reachable():
            return self._gangs.sweep(wanted)

    def close(self) -> None:
        """It made nothing but its gangs."""

    def _enrolment(self, gang: Gang, node: int) -> str:
        root = self.folder / gang.name / str(node) / "root"
        checkpoints = self.kept / gang.job / "checkpoints"
        return enrolment(
            gang, node, root=str(root), checkpoints=str(checkpoints), address="127.0.0.1", keeps_spares=True
        )


@contextlib.contextmanager
def _reachable() -> Generator[None]:
    """What the kernel holds on to is asked for again."""
    try:
        yield
    except StuckError as error:
        raise UnreachableError(str(error)) from error

"""The states of the machines of computes and their times, from the cluster or else as this server saw them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

from drumbeat.model.api.computes import Machine, NodeState
from drumbeat.server.computes.engines import Engines
from drumbeat.server.loop.loop import Loop


@dataclass(frozen=True)
class ObservedState:
    """The state of a machine and when it entered it, from its cluster or else as this server saw it."""

    state: NodeState
    since: datetime


class NodeStates:
    """Tracks the states of the machines of all computes. Thread-safe."""

    def __init__(self, loop: Loop, engines: Engines) -> None:
        self._loop, self._engines = loop, engines
        self._seen: dict[tuple[str, str], ObservedState] = {}

    def look(self) -> None:
        """Records which machines have changed their states."""
        present: set[tuple[str, str]] = set()
        for name, one in self._engines.all().items():
            busy = () if one.engine.has_queue or not one.machines else self.busy(name)
            for machine in one.machines:
                self.observed(name, machine, busy)
                present.add((name, machine.name))
        for gone in self._seen.keys() - present:
            self._seen.pop(gone, None)

    def observed(self, compute: str, machine: Machine, busy: Collection[str]) -> ObservedState:
        """Returns the state of a machine. busy: machines of the compute on which jobs hold slots."""
        state = node_state(machine, is_busy=machine.name in busy)
        earlier = self._seen.get((compute, machine.name))
        if earlier is None or earlier.state is not state:
            earlier = self._seen[compute, machine.name] = ObservedState(state, self._loop.clock.now())
        return ObservedState(state, machine.since) if machine.since else earlier

    def busy(self, compute: str) -> set[str]:
        """Returns the machines of a compute on which jobs hold slots."""
        _, held = self._loop.store.held_by_attempt(compute)
        return {slot.machine for one in held.values() for slot in one.slots}


def node_state(machine: Machine, *, is_busy: bool) -> NodeState:
    """Returns the state of a machine, given its engine's reading and whether jobs hold slots on it."""
    if machine.state is not NodeState.IDLE:
        return machine.state
    if machine.unusable:
        return NodeState.UNUSABLE
    return NodeState.RUNNING if is_busy else NodeState.IDLE

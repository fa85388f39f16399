"""What the usable machines of computes had, recorded whenever that changes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from drumbeat.model.api.computes import Machine, NodeState
from drumbeat.ports.clock import Clock
from drumbeat.server.computes.compute_state import ComputeState
from drumbeat.server.database.store import SqlStore

_GIVES_NOTHING = (NodeState.OFF, NodeState.PREPARING, NodeState.UNUSABLE, NodeState.PREEMPTED)


def capacity_of(machines: Iterable[Machine]) -> tuple[int, int]:
    """Returns the slots and GPUs of the machines on which jobs could run now."""
    usable = [one for one in machines if not one.unusable and one.state not in _GIVES_NOTHING]
    return sum(one.cpus for one in usable), sum(len(one.gpus) for one in usable)


class CapacityRecord:
    """Records the capacities of computes. Called by one thread, of the active server."""

    def __init__(self, store: SqlStore, clock: Clock) -> None:
        self._store, self._clock = store, clock
        self._last: dict[str, tuple[int, int]] | None = None

    def look(self, computes: Mapping[str, ComputeState]) -> None:
        """Records what has changed. While its machines are awaited, a compute keeps what it had."""
        if self._last is None:
            self._last = {one.compute: (one.slots, one.gpus) for one in self._store.capacities()}
        seen = {name: capacity_of(one.machines) for name, one in computes.items() if not one.is_awaited}
        gone = dict.fromkeys((name for name in self._last if name not in computes), (0, 0))
        for name, (slots, gpus) in {**gone, **seen}.items():
            if self._last.get(name, (0, 0)) != (slots, gpus):
                self._store.note_capacity(name, self._clock.now(), slots, gpus)
                self._last[name] = slots, gpus

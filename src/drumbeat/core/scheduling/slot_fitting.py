"""Slots on the machines of a compute: whether the nodes of a job fit, and where they go. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from drumbeat.core.scheduling.resource_needs import Need, Slot
from drumbeat.model.api.computes import NodeState
from drumbeat.model.plurals import counted

MAX_NODES, MAX_RANKS = 64, 1024
"""So many nodes and ranks of one job may share a machine's CPU slots, or one a slot where it has more. Each node takes
an agent and a supervisor of some 10 MiB: without a bound, one digit too many in a job file takes the machine down."""


@dataclass(frozen=True)
class MachineCapacity:
    """The slots of a machine, free or not, and whether nodes may be started there now."""

    name: str
    cpus: int
    gpus: tuple[str, ...] = ()
    unusable: str = ""
    """Why nothing may be started there now, "" = it may be."""
    state: NodeState = NodeState.IDLE
    is_for_gpus: bool = False
    """Only jobs with GPUs may run there."""
    is_missing: bool = False
    """It has been unusable for so long that no job keeps its place in the queue for it."""

    def takes(self, size: Need) -> bool:
        """Whether nodes of this kind may run there at all."""
        return size.gpus > 0 or not self.is_for_gpus


@dataclass(frozen=True)
class Holding:
    """An attempt that holds slots."""

    job: str
    slots: tuple[Slot, ...]
    until: datetime | None = None
    """When it must have ended, if it has a time limit."""
    waits_for: str = ""
    """What keeps it from going on, such as `input train`; "" = nothing does."""


def fit(need: Need, rooms: Sequence[MachineCapacity], held: Sequence[Holding]) -> tuple[Slot, ...] | None:
    """Slots for every node of the job, or None.

    Nodes of one job lie on the same machine only where the job has more nodes than the compute has machines.
    """
    usable = [room for room in rooms if not room.unusable]
    is_spread = need.nodes <= len(rooms)
    if is_spread and need.nodes > len(usable):
        return None
    if need.alone:
        return _alone(need, usable, held)
    free = free_of(usable, held)
    slots: list[Slot] = []
    for node in range(need.nodes):
        found = next((r for r in free.values() if r.cpus >= need.cpus and len(r.gpus) >= need.gpus), None)
        if found is None:
            return None
        slots.append(Slot(node, found.name, need.cpus, found.gpus[: need.gpus]))
        free.pop(found.name)
        if not is_spread:
            free = {**free, found.name: replace(found, cpus=found.cpus - need.cpus, gpus=found.gpus[need.gpus :])}
    return tuple(slots)


def _alone(need: Need, rooms: Sequence[MachineCapacity], held: Sequence[Holding]) -> tuple[Slot, ...] | None:
    """A job with more ranks than the compute has CPU slots has them all to itself."""
    if any(h.slots for h in held) or not rooms:
        return None
    slots: list[Slot] = []
    gpus = {room.name: list(room.gpus) for room in rooms}
    for node in range(need.nodes):
        room = rooms[node % len(rooms)]
        if len(gpus[room.name]) < need.gpus:
            return None
        mine, gpus[room.name] = gpus[room.name][: need.gpus], gpus[room.name][need.gpus :]
        slots.append(Slot(node, room.name, _share(node, need.nodes, rooms), tuple(mine)))
    return tuple(slots)


def _share(node: int, nodes: int, rooms: Sequence[MachineCapacity]) -> int:
    """CPU slots of a machine, dealt to the nodes on it: they add up to what it has."""
    room = rooms[node % len(rooms)]
    index, sharing = node // len(rooms), len(range(node % len(rooms), nodes, len(rooms)))
    return room.cpus // sharing + (1 if index < room.cpus % sharing else 0)


def free_of(rooms: Sequence[MachineCapacity], held: Sequence[Holding]) -> dict[str, MachineCapacity]:
    """Returns what is left of each machine, by its name."""
    slots: dict[str, list[Slot]] = {}
    for slot in (slot for holding in held for slot in holding.slots):
        slots.setdefault(slot.machine, []).append(slot)
    return {room.name: _without(room, slots[room.name]) if room.name in slots else room for room in rooms}


def _without(room: MachineCapacity, slots: Sequence[Slot]) -> MachineCapacity:
    used = {gpu for slot in slots for gpu in slot.gpus}
    left = tuple(gpu for gpu in room.gpus if gpu not in used)
    return replace(room, cpus=room.cpus - sum(slot.cpus for slot in slots), gpus=left)


def fits_when_empty(need: Need, rooms: Sequence[MachineCapacity]) -> bool:
    """Whether it would, were nothing held and every machine usable."""
    return fit(need, [replace(room, unusable="") for room in rooms], ()) is not None


def is_unseen(rooms: Sequence[MachineCapacity]) -> bool:
    """Whether the hardware of one of them is not known yet."""
    return any(room.unusable and not room.cpus for room in rooms)


def capacity(room: MachineCapacity, size: Need) -> int:
    """How many nodes of that size a machine can hold."""
    if not room.takes(size):
        return 0
    by_cpus = room.cpus // max(1, size.cpus)
    return min(by_cpus, len(room.gpus) // size.gpus) if size.gpus else by_cpus


def crowd(need: Need, rooms: Sequence[MachineCapacity]) -> str:
    """What is too much for one machine, "" = nothing."""
    cpus = min((room.cpus for room in rooms), default=0)
    nodes = -(-need.nodes // max(1, len(rooms)))
    for count, most, what in (
        (nodes, max(MAX_NODES, cpus), "nodes"),
        (nodes * need.cpus, max(MAX_RANKS, cpus), "ranks"),
    ):
        if count > most:
            return (
                f"{count:,} {what} would share {counted(cpus, 'CPU slot')}; at most {most:,} {what} may share a machine"
            )
    return ""

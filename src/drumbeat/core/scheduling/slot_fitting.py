"""Fits the nodes of a job on the machines of a compute. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from drumbeat.core.scheduling.resource_needs import Need, Slot
from drumbeat.model.api.computes import NodeState
from drumbeat.model.plurals import counted

MAX_NODES, MAX_RANKS = 64, 1024
"""The most nodes and ranks of one job that may share a machine's CPU slots, or one a slot if it has more. Each takes
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
class SlotAllocation:
    """An attempt that holds slots."""

    job: str
    slots: tuple[Slot, ...]
    until: datetime | None = None
    """When it must have ended, if it has a time limit."""
    obstacle: str = ""
    """Why it can't go on, such as `hangs`; "" = it can."""


def fit(need: Need, rooms: Sequence[MachineCapacity], held: Sequence[SlotAllocation]) -> tuple[Slot, ...] | None:
    """Returns slots for every node of the job, or None.

    Nodes of one job lie on the same machine only where the job has more nodes than the compute has machines.
    """
    return FreeSlots(rooms, held).fit(need)


class FreeSlots:
    """What is left of machines, as slots are taken and given back. Nodes go to those that may be used."""

    def __init__(self, rooms: Sequence[MachineCapacity], held: Iterable[SlotAllocation] = ()) -> None:
        self._rooms = {room.name: room for room in rooms}
        self._usable = [room for room in rooms if not room.unusable]
        self._cpus = {room.name: room.cpus for room in rooms}
        self._used: dict[str, dict[str, int]] = {}
        """How many hold a GPU, by machine."""
        self._holders = 0
        for one in held:
            self.take(one)

    def copy(self) -> FreeSlots:
        """The same, to be changed on its own."""
        copied = FreeSlots(())
        used = {machine: dict(gpus) for machine, gpus in self._used.items()}
        vars(copied).update(vars(self), _cpus=dict(self._cpus), _used=used)
        return copied

    def take(self, holding: SlotAllocation) -> None:
        """Takes slots away."""
        self._change(holding, 1)

    def give(self, holding: SlotAllocation) -> None:
        """Gives slots back that were taken."""
        self._change(holding, -1)

    def _change(self, holding: SlotAllocation, sign: int) -> None:
        self._holders += sign if holding.slots else 0
        cpus = self._cpus
        for slot in holding.slots:
            machine = slot.machine
            if machine in cpus:
                cpus[machine] -= sign * slot.cpus
                if slot.gpus:
                    used = self._used.setdefault(machine, {})
                    for gpu in slot.gpus:
                        used[gpu] = used.get(gpu, 0) + sign

    def cpus_of(self, machine: str) -> int:
        """CPU slots of a machine that are left; less than 0 where more is held than there is."""
        return self._cpus[machine]

    def gpus_of(self, machine: str) -> tuple[str, ...]:
        """GPUs of a machine that are left."""
        used, gpus = self._used.get(machine), self._rooms[machine].gpus
        return tuple(gpu for gpu in gpus if not used.get(gpu)) if used else gpus

    @property
    def cpus(self) -> int:
        """CPU slots that are left of the machines that may be used."""
        return sum(self._cpus[room.name] for room in self._usable)

    @property
    def gpus(self) -> int:
        """GPUs that are left of them."""
        return sum(len(self.gpus_of(room.name)) for room in self._usable)

    def fit(self, need: Need) -> tuple[Slot, ...] | None:
        """As `fit`."""
        is_spread = need.nodes <= len(self._rooms)
        if is_spread and need.nodes > len(self._usable):
            return None
        if need.alone:
            return _alone(need, self._usable) if not self._holders and self._usable else None
        return self._spread(need) if is_spread else self._dealt(need)

    def fits(self, need: Need) -> bool:
        """Whether there is room for every node."""
        return self.fit(need) is not None if need.alone else self.count(need) >= need.nodes

    def count(self, need: Need, names: Iterable[str] | None = None) -> int:
        """How many nodes have room. names: of the machines that are looked at, None = all."""
        most = 1 if need.nodes <= len(self._rooms) else need.nodes
        rooms = self._usable if names is None else [self._rooms[name] for name in names if name in self._rooms]
        return sum(min(most, self._nodes_on(room, need)) for room in rooms if not room.unusable)

    def _nodes_on(self, room: MachineCapacity, need: Need) -> int:
        cpus = self._cpus[room.name]
        if cpus < need.cpus:
            return 0
        by_cpus = cpus // need.cpus if need.cpus else need.nodes
        return min(by_cpus, len(self.gpus_of(room.name)) // need.gpus) if need.gpus else by_cpus

    def capacity(self, room: MachineCapacity, need: Need) -> int:
        """How many nodes of that size what is left of a machine can hold."""
        gpus = self.gpus_of(room.name) if need.gpus else ()
        return _count_nodes(need, self._cpus[room.name], len(gpus)) if room.takes(need) else 0

    def fits_after(self, need: Need, ending: Sequence[SlotAllocation]) -> bool:
        """Whether there is room for every node once these have given their slots back."""
        for one in ending:
            self.give(one)
        fits = self.fits(need)
        for one in ending:
            self.take(one)
        return fits

    def _spread(self, need: Need) -> tuple[Slot, ...] | None:
        """Each node on a machine of its own."""
        slots: list[Slot] = []
        cpus = self._cpus
        for room in self._usable if need.nodes else ():
            if cpus[room.name] < need.cpus:
                continue
            gpus = self.gpus_of(room.name) if need.gpus else ()
            if len(gpus) >= need.gpus:
                slots.append(Slot(len(slots), room.name, need.cpus, gpus[: need.gpus]))
                if len(slots) == need.nodes:
                    break
        return tuple(slots) if len(slots) == need.nodes else None

    def _dealt(self, need: Need) -> tuple[Slot, ...] | None:
        """More nodes than machines: one on each in turn, as long as it has room."""
        turns = deque((room.name, self._cpus[room.name], self.gpus_of(room.name)) for room in self._usable)
        slots: list[Slot] = []
        while len(slots) < need.nodes:
            if not turns:
                return None
            name, cpus, gpus = turns.popleft()
            if cpus >= need.cpus and len(gpus) >= need.gpus:
                slots.append(Slot(len(slots), name, need.cpus, gpus[: need.gpus]))
                turns.append((name, cpus - need.cpus, gpus[need.gpus :]))
        return tuple(slots)


def _alone(need: Need, rooms: Sequence[MachineCapacity]) -> tuple[Slot, ...] | None:
    """Returns all slots of the compute for a job with more ranks than CPU slots."""
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
    """Returns the CPU slots of one node on a shared machine; those of all nodes add up to the machine's."""
    room = rooms[node % len(rooms)]
    index, sharing = node // len(rooms), len(range(node % len(rooms), nodes, len(rooms)))
    return room.cpus // sharing + (1 if index < room.cpus % sharing else 0)


def fits_when_empty(need: Need, rooms: Sequence[MachineCapacity]) -> bool:
    """Whether the job would fit if nothing were held and every machine usable."""
    return fit(need, [replace(room, unusable="") if room.unusable else room for room in rooms], ()) is not None


def is_unseen(rooms: Sequence[MachineCapacity]) -> bool:
    """Whether the hardware of one of the machines isn't known yet."""
    return any(room.unusable and not room.cpus for room in rooms)


def capacity(room: MachineCapacity, size: Need) -> int:
    """Returns how many nodes of that size a machine can hold."""
    return _count_nodes(size, room.cpus, len(room.gpus)) if room.takes(size) else 0


def _count_nodes(size: Need, cpus: int, gpus: int) -> int:
    by_cpus = cpus // max(1, size.cpus)
    return min(by_cpus, gpus // size.gpus) if size.gpus else by_cpus


def crowd(need: Need, rooms: Sequence[MachineCapacity]) -> str:
    """Says what is too much for one machine, "" = nothing."""
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

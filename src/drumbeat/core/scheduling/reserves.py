"""What is kept of a compute for the jobs that wait, so that none that comes later delays them: pure.

It is kept up to date while jobs of a queue are looked at: a queue may have ten thousand, and a compute a thousand
machines.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from drumbeat.core.scheduling.resource_needs import Need, Slot
from drumbeat.core.scheduling.slot_fitting import FreeSlots, MachineCapacity, SlotAllocation


class Reserve:
    """What is kept for waiting jobs. free: what is free now; it is told of slots that are taken by `started`."""

    def __init__(self, rooms: Sequence[MachineCapacity], given_back: Mapping[str, float], free: FreeSlots) -> None:
        self._free, self._left = free, FreeSlots(as_usable(rooms))
        self._kept: dict[str, dict[float, Slot]] = {}
        """By machine and number of CPUs a GPU."""
        self._now: dict[str, Slot] = {}
        """The part of it that is kept of what is free now, by machine."""
        self._given_back = dict(given_back)
        self.changes = 0
        """How often more was kept."""

    @property
    def is_empty(self) -> bool:
        """Whether nothing was ever kept."""
        return not self.changes

    @property
    def kept(self) -> SlotAllocation:
        """What is kept in all, once the jobs that run have ended."""
        return SlotAllocation("", tuple(slot for sums in self._kept.values() for slot in sums.values()))

    def leaves_room(self, need: Need) -> bool:
        """Whether a job fits beside what is kept once the jobs that run have ended, if every machine is usable."""
        return self._left.fit(need) is not None

    @property
    def now(self) -> SlotAllocation:
        """What is kept of what is free now."""
        return SlotAllocation("", tuple(self._now.values()))

    def keep(self, need: Need, able: Sequence[MachineCapacity], on_one: int) -> None:
        """Keeps the most that a job could take of each machine when those that run have ended.

        able: the machines that it may use. on_one: the most nodes of it on one machine.
        """
        self.changes += 1
        slots = [slot for room in able if (slot := self._possible(need, room, on_one))]
        self._left.take(SlotAllocation("", tuple(slots)))
        for slot in slots:
            sums = self._kept.setdefault(slot.machine, {})
            before = sums.get(_cpus_per_gpu(slot), Slot(0, slot.machine, 0))
            sums[_cpus_per_gpu(slot)] = Slot(0, slot.machine, before.cpus + slot.cpus, before.gpus + slot.gpus)
            self._now[slot.machine] = self._kept_now(slot.machine)

    def _possible(self, need: Need, room: MachineCapacity, on_one: int) -> Slot | None:
        if need.alone:
            return Slot(0, room.name, room.cpus, room.gpus)
        count = min(on_one, self._left.capacity(room, need))
        if count <= 0:
            return None
        return Slot(0, room.name, count * need.cpus, self._left.gpus_of(room.name)[: count * need.gpus])

    def started(self, holding: SlotAllocation) -> None:
        """Slots were taken of what is free."""
        note_given_back(self._given_back, holding)
        for machine in {slot.machine for slot in holding.slots} & self._kept.keys():
            self._now[machine] = self._kept_now(machine)

    def _kept_now(self, machine: str) -> Slot:
        """What is kept of what is free of a machine.

        Whichever GPU a job takes, a blocked one may have any other. A GPU that is held now comes free with the CPU
        slots of its holder, so only what a blocked job needs beyond these is kept.
        """
        wanted, gpus = self._kept[machine].values(), self._free.gpus_of(machine)
        given_back = self._given_back.get(machine, 0.0)
        each = sorted((_cpus_per_gpu(slot) for slot in wanted for _ in slot.gpus), reverse=True)
        now, later = each[: len(gpus)], [max(0.0, one - given_back) for one in each[len(gpus) :]]
        beside_gpus = math.ceil(round(sum(now) + sum(later), 6))
        cpus = beside_gpus + sum(slot.cpus for slot in wanted if not slot.gpus)
        return Slot(0, machine, cpus, gpus[: len(each)])

    def spares(self, wanted: SlotAllocation) -> bool:
        """Whether these slots leave all that is kept: the jobs start no later, whichever job ends first."""
        taken: dict[str, int] = {}
        for slot in wanted.slots:
            taken[slot.machine] = taken.get(slot.machine, 0) + slot.cpus
        return all(self._is_spare(slot, taken[slot.machine]) for slot in wanted.slots)

    def _is_spare(self, slot: Slot, cpus: int) -> bool:
        kept = self._now.get(slot.machine, Slot(0, slot.machine, 0))
        gpus = {*self._free.gpus_of(slot.machine)} - {*kept.gpus}
        return (self._free.cpus_of(slot.machine) - kept.cpus - cpus >= 0 or not slot.cpus) and {*slot.gpus} <= gpus


def note_given_back(cpus: dict[str, float], holding: SlotAllocation) -> None:
    """Adds an attempt to the fewest CPU slots that come free with each GPU, by machine."""
    for slot in holding.slots:
        if slot.gpus:
            cpus[slot.machine] = min(cpus.get(slot.machine, math.inf), _cpus_per_gpu(slot))


def as_usable(rooms: Sequence[MachineCapacity]) -> list[MachineCapacity]:
    """The machines as if each could be used."""
    return [replace(room, unusable="") if room.unusable else room for room in rooms]


def _cpus_per_gpu(slot: Slot) -> float:
    return slot.cpus / len(slot.gpus) if slot.gpus else math.inf

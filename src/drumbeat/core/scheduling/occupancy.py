"""Who holds what of a compute's machines, kept from one pass over its queue to the next: pure."""

from __future__ import annotations

from collections.abc import Sequence

from drumbeat.core.scheduling.reserves import note_given_back
from drumbeat.core.scheduling.slot_fitting import FreeSlots, MachineCapacity, SlotAllocation
from drumbeat.core.scheduling.wait_reasons import SlotHolders


class Occupancy:
    """The machines of a compute, and what is held of them. A pass changes copies of its parts."""

    def __init__(self, rooms: Sequence[MachineCapacity], held: Sequence[SlotAllocation]) -> None:
        self._read(rooms, held, FreeSlots(rooms, held))

    def _read(self, rooms: Sequence[MachineCapacity], held: Sequence[SlotAllocation], free: FreeSlots) -> None:
        self.rooms, self.held, self.free = rooms, held, free
        self.holders, self.given_back = SlotHolders(held), dict[str, float]()
        for one in held:
            note_given_back(self.given_back, one)
        self.holding_jobs = {one.job for one in held if one.slots}

    def update(self, rooms: Sequence[MachineCapacity], held: Sequence[SlotAllocation]) -> None:
        """Takes over what is held now. What hasn't changed is known by its identity."""
        if rooms != self.rooms:
            self._read(rooms, held, FreeSlots(rooms, held))
            return
        before, now = {id(one): one for one in self.held}, {id(one): one for one in held}
        if before.keys() == now.keys():
            return
        for key in before.keys() - now.keys():
            self.free.give(before[key])
        for key in now.keys() - before.keys():
            self.free.take(now[key])
        self._read(rooms, held, self.free)

"""Finds how many more nodes an elastic job could have now. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from drumbeat.core.scheduling.queued_job import QueuedJob, machines_for_job, possible_sizes, taken_by
from drumbeat.core.scheduling.quota_balances import Balances
from drumbeat.core.scheduling.resource_needs import Need, Slot
from drumbeat.core.scheduling.slot_fitting import MachineCapacity, SlotAllocation, fit
from drumbeat.model.api.computes import NodeState


def growth(
    job: QueuedJob, nodes: int, rooms: Sequence[MachineCapacity], held: Sequence[SlotAllocation], balances: Balances
) -> tuple[Slot, ...]:
    """Returns slots for the most nodes that an elastic job could have now; () = it can't have more than it has.

    nodes: those that it runs on, which come first. Machines that are on come before others.
    """
    others = [one for one in held if one.job != job.job]
    own = {slot.machine for one in held if one.job == job.job for slot in one.slots}
    able = sorted(
        machines_for_job(job, rooms), key=lambda room: (room.name not in own, room.state is not NodeState.IDLE)
    )
    for size in possible_sizes(job, rooms, has_spare=True):
        slots = fit(size, able, others) if size.nodes > nodes else None
        if slots and _is_allowed(job, size, slots, rooms, balances):
            return slots
    return ()


def idle_growth(
    job: QueuedJob, nodes: range, idle: int, rooms: Sequence[MachineCapacity], balances: Balances
) -> tuple[Slot, ...]:
    """Returns the same where the engine has its own queue: as many more nodes as are idle, on machines that it chooses.

    nodes: from those that it runs on to the most that it may have at a time.
    """
    size = replace(job.need, nodes=min(nodes.stop, nodes.start + idle))
    slots = tuple(Slot(node, "", size.cpus) for node in range(size.nodes))
    return slots if size.nodes > nodes.start and _is_allowed(job, size, (), rooms, balances) else ()


def _is_allowed(
    job: QueuedJob, size: Need, slots: Sequence[Slot], rooms: Sequence[MachineCapacity], balances: Balances
) -> bool:
    """Whether the quotas leave room for that size, the job's own slots not counted."""
    allowances = balances.allowances
    others = tuple(one for one in allowances.held if one.job != job.job)
    return replace(allowances, held=others).wait(job.payer, taken_by(size, slots, rooms)) is None

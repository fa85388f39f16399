"""The growth of elastic jobs: those that run on fewer nodes than they may have hear how many are free.

What a job does then is decided by `core/lifecycle/elastic_growth.py`. This runs on the loop's thread.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from drumbeat.core.lifecycle import elastic_growth
from drumbeat.core.lifecycle.events import GrowthPossible
from drumbeat.core.lifecycle.job import Job
from drumbeat.core.scheduling import autoscaling
from drumbeat.core.scheduling.cluster_queue import idle_nodes
from drumbeat.core.scheduling.elastic_placement import growth, idle_growth
from drumbeat.core.scheduling.resource_needs import Slot
from drumbeat.core.scheduling.slot_fitting import MachineCapacity, SlotAllocation
from drumbeat.model.states import Reason, State
from drumbeat.server.loop.waiting_jobs import queue_of

if TYPE_CHECKING:
    from drumbeat.server.loop.loop import Loop

LOOK_INTERVAL_S = 2.0
"""How often the free nodes are looked at, while a job may take some."""


class Grower:
    """Looks for nodes that the elastic jobs of a loop may take."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._looked_at = -LOOK_INTERVAL_S

    def look(self) -> None:
        """Tells each job that may grow how many nodes it could have."""
        now, at = self._loop.clock.now(), self._loop.clock.monotonic()
        computes = {job.plan.compute for job in self._elastic() if elastic_growth.may_grow(job, now)}
        if not computes or at - self._looked_at < LOOK_INTERVAL_S:
            return
        self._looked_at = at
        for compute in sorted(computes & self._loop.supply.machines.keys() - self._loop.supply.troubles.keys()):
            rooms = self._loop.supply.rooms(compute)
            sizes = self.sizes(compute, rooms)
            for job in self._elastic():
                if job.plan.compute == compute and (job.growth or sizes.get(job.name)):
                    nodes = sizes.get(job.name, ())
                    self._loop.apply(job.name, GrowthPossible(job.attempt, len(nodes)))

    def sizes(self, compute: str, rooms: list[MachineCapacity]) -> dict[str, tuple[Slot, ...]]:
        """Returns the slots that each elastic job of a compute could run on, if they are more than it has.

        Empty while another job waits for slots or gives some back. Each node is counted for one job only: first for
        those that wait for a checkpoint to take it, then for the oldest.
        """
        jobs = [record.job for record in self._loop.jobs.values() if record.job.plan.compute == compute]
        now = self._loop.clock.now()
        able = sorted((one for one in jobs if elastic_growth.may_grow(one, now)), key=lambda one: not one.growth)
        if not able or any(_comes_first(job) for job in jobs):
            return {}
        held = self._loop.placer.holdings(compute)
        offers: dict[str, tuple[Slot, ...]] = {}
        for job in able:
            slots = self._slots(job, rooms, held)
            if slots:
                offers[job.name] = slots
                held = [*(one for one in held if one.job != job.name), SlotAllocation(job.name, slots)]
                if compute in self._loop.supply.with_queue:  # Which idle node would be whose isn't known there.
                    break
        return offers

    def _slots(self, job: Job, rooms: list[MachineCapacity], held: list[SlotAllocation]) -> tuple[Slot, ...]:
        supply, compute = self._loop.supply, job.plan.compute
        queue = queue_of([job], self._loop.store, self._loop.clock.now())
        waiting, cap = queue.jobs[0], supply.caps.get(compute)
        if compute not in supply.with_queue:
            return growth(waiting, job.plan.nodes, rooms, held, queue.balances)
        others = sum(len(one.slots) for one in held if one.job != job.name)
        most = job.need.max_nodes if cap is None else min(job.need.max_nodes, cap.most - others)
        taken = [slot for one in held for slot in one.slots]
        idle = idle_nodes(job.need, rooms, taken, is_shared=compute in supply.shared)
        return idle_growth(waiting, range(job.plan.nodes, most), idle, rooms, queue.balances)

    def needed(self, compute: str, rooms: list[MachineCapacity]) -> set[str]:
        """The machines that elastic jobs would take if they had started, for as many nodes as were asked for."""
        sizes = self.sizes(compute, autoscaling.as_if_started(rooms))
        jobs = self._loop.jobs
        wanted = {name: jobs[name].job.need.nodes for name in sizes}
        return {
            slot.machine
            for name, slots in sizes.items()
            if jobs[name].job.plan.nodes < wanted[name]
            for slot in slots[: wanted[name]]
        }

    def _elastic(self) -> list[Job]:
        return [record.job for record in list(self._loop.jobs.values()) if record.job.plan.elastic]


def _comes_first(job: Job) -> bool:
    """Whether a job waits for slots, or is about to give some back or to take some again."""
    if job.state is State.QUEUED:
        return job.reason is not Reason.WAITING_FOR_QUOTA
    return job.state is State.STOPPING

"""Places jobs of a compute whose engine has its own queue: they join it at once, by a quota later, or never. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from drumbeat.core.scheduling.queued_job import Placement, QueuedJob
from drumbeat.core.scheduling.quota_balances import NO_BALANCES, Balances
from drumbeat.core.scheduling.quotas import Amount
from drumbeat.core.scheduling.resource_needs import Need, Slot
from drumbeat.core.scheduling.slot_fitting import MachineCapacity, capacity
from drumbeat.core.scheduling.wait_reasons import format_amount
from drumbeat.model.api.computes import NodeState
from drumbeat.model.plurals import counted
from drumbeat.model.states import Reason


def enqueue(  # noqa: PLR0913 - as `place`
    queue: Sequence[QueuedJob],
    rooms: Sequence[MachineCapacity],
    *,
    compute: str,
    balances: Balances = NO_BALANCES,
    is_shared: bool = False,
    taken: Sequence[Slot] = (),
) -> list[Placement]:
    """Returns a placement for every job of a compute whose engine has its own queue.

    Its slots say how large a node is, not where it lies. is_shared: nodes of one job may share a machine. taken: nodes
    that jobs have now.
    """
    placements: list[Placement] = []
    allowances, held = balances.allowances, [*taken]
    for asked in queue:
        job = asked.least
        most = max((room.cpus for room in rooms if room.takes(job.need)), default=0)
        size = replace(job.need, cpus=min(job.need.cpus, most) if job.need.alone else job.need.cpus)
        able = sum(capacity(room, size) if is_shared else capacity(room, size) > 0 for room in rooms)
        if able < size.nodes:
            has = f"room for {counted(able, 'node')}" if is_shared else f"{counted(able, 'machine')} with that much"
            sentence = f"the job needs {format_amount(size)}; {compute} has {has}"
            placements.append(Placement(job.job, never=True, sentence=sentence))
            continue
        idle = idle_nodes(size, rooms, held, is_shared=is_shared) if asked.need.is_elastic else 0
        size = _queued_size(asked, size, idle, has_spare=len(queue) == 1)
        takes = Amount(size.nodes * size.cpus, size.nodes * size.gpus)
        if wait := allowances.wait(job.payer, takes):
            placements.append(Placement(job.job, reason=Reason.WAITING_FOR_QUOTA, sentence=wait.sentence))
            allowances = allowances.behind(wait)
        else:
            gpus = tuple(str(number) for number in range(size.gpus))
            slots = tuple(Slot(node, "", size.cpus, gpus) for node in range(size.nodes))
            placements.append(Placement(job.job, slots, least=job.need.nodes if job.need.is_elastic else 0))
            allowances = allowances.taken(job.job, job.payer, takes)
            held += slots
    return placements


def idle_nodes(size: Need, rooms: Sequence[MachineCapacity], taken: Sequence[Slot], *, is_shared: bool) -> int:
    """Returns how many nodes of that size a cluster has idle, at most what jobs leave. taken: nodes that jobs have now.

    The states of machines are as old as the last look at the cluster, and a job may have been started since. On which
    machines its nodes are isn't known: each counts that can be on one for nodes of that size.
    """
    usable = [room for room in rooms if not room.unusable and capacity(room, size)]
    kinds = Counter((slot.cpus, len(slot.gpus)) for slot in taken)
    count = sum(
        number for (cpus, gpus), number in kinds.items() if any(capacity(room, Need(1, cpus, gpus)) for room in usable)
    )
    idle = [room for room in usable if room.state is NodeState.IDLE]
    able, free = (
        sum(capacity(room, size) if is_shared else capacity(room, size) > 0 for room in some) for some in (usable, idle)
    )
    return max(0, min(free, able - count))


def _queued_size(asked: QueuedJob, size: Need, idle: int, *, has_spare: bool) -> Need:
    """Returns the size with which an elastic job joins the engine's queue: what is idle, at least its smallest size."""
    need = asked.need
    if not need.is_elastic:
        return size
    if asked.growth:
        return replace(size, nodes=asked.growth)
    most = need.max_nodes if has_spare else max(need.nodes, asked.kept)
    return replace(size, nodes=max(size.nodes, min(most, idle + asked.kept)))

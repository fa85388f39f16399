"""A job that waits for slots, and what placement says of it: pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cached_property, lru_cache
from typing import NamedTuple

from drumbeat.core.scheduling.quotas import Amount, Payer
from drumbeat.core.scheduling.resource_needs import Need, Slot
from drumbeat.core.scheduling.slot_fitting import MachineCapacity
from drumbeat.model.states import Reason

LACKS_SHARE = "it was given up for this job"
"""Why a machine that lacks a share can't be used by this job."""


@dataclass(frozen=True)
class QueuedJob:
    """A job in the queue. lasts: its time limit with its grace, if it has one.

    avoided: machines that it has lost nodes on just now: the engine may not know yet that they are gone.
    """

    job: str
    need: Need
    priority: int
    submitted_at: datetime
    lasts: timedelta | None = None
    avoided: tuple[str, ...] = ()
    payer: Payer = field(default_factory=Payer)
    lacking: tuple[str, ...] = ()
    """Machines that lack a share: none of its nodes goes there."""
    lack: str = ""
    """What the last of them lacked, in a sentence."""
    is_resized: bool = False
    """It is an elastic job between two attempts: it comes first, so that it keeps the nodes that it had."""

    growth: int = 0
    """The number of nodes for which an elastic job has ended its round, 0 = it lost some."""
    kept: int = 0
    """How many nodes of its last attempt an elastic job has not lost."""

    @property
    def least(self) -> QueuedJob:
        """The job with the fewest nodes with which it can start."""
        return replace(self, need=self.need.least) if self.need.is_elastic else self

    @property
    def aim(self) -> Need:
        """The need with which an elastic job waits for the slots of its last attempt."""
        return replace(self.need, nodes=max(self.need.nodes, self.growth))

    @cached_property
    def kind(self) -> tuple[object, ...]:
        """What its slots depend on."""
        need = (self.need.nodes, self.need.cpus, self.need.gpus, self.need.alone)
        sizes = (self.need.min_nodes, self.need.max_nodes, self.growth, self.kept)
        return *need, *sizes, self.lacking, self.avoided, self.lack

    @cached_property
    def class_key(self) -> tuple[object, ...]:
        """What its wait depends on beside its payer's quotas: jobs with the same one start or wait together."""
        return _shared((*self.kind, None if self.lasts is None else self.lasts.total_seconds()))

    @cached_property
    def rival_key(self) -> tuple[object, ...]:
        """By what it is compared with the job that is next."""
        return _shared((self.payer.user, self.priority))

    @property
    def standing(self) -> tuple[bool, int, str]:
        """What its place depends on beside its age: whether it was resized, its priority, and its user."""
        return not self.is_resized, -self.priority, self.payer.user

    def rank(self, use: float = 0.0) -> tuple[bool, int, float, datetime, str]:
        """Its place in the queue: by priority, then by recent use, then by age.

        use: slot-hours that count against its user; 0 once its age is `MAX_AGE` in fair_share.py.
        """
        return not self.is_resized, -self.priority, use, self.submitted_at, self.job


class Placement(NamedTuple):  # Ten thousand are made in a pass, and a dataclass takes four times as long.
    """What placement says of a job: slots, or why it waits. never: it will never fit.

    is_unsure: it isn't known yet whether it will, for a machine was never seen. lacks_share: it will not, for too few
    machines have a share.
    """

    job: str
    slots: tuple[Slot, ...] = ()
    reason: Reason | None = None
    sentence: str = ""
    never: bool = False
    is_unsure: bool = False
    lacks_share: bool = False
    least: int = 0
    """The fewest nodes with which an elastic job may start; 0 = its number of nodes is fixed."""


class QueuePosition(NamedTuple):
    """A job that waits for its turn, as most of a long queue do: its sentence is made where it is read."""

    job: str
    number: int
    behind: str
    """The sentence after its number."""
    is_unsure: bool = False

    @property
    def placement(self) -> Placement:
        """The same as a placement."""
        sentence = f"number {self.number} {self.behind}"
        return Placement(self.job, reason=Reason.WAITING_FOR_TURN, sentence=sentence, is_unsure=self.is_unsure)


@lru_cache(1 << 14)  # Equal keys are one object: a pass over a long queue compares them ten thousand times.
def _shared(key: tuple[object, ...]) -> tuple[object, ...]:
    return key


def possible_sizes(job: QueuedJob, rooms: Sequence[MachineCapacity], *, has_spare: bool) -> tuple[Need, ...]:
    """The sizes that an elastic job may have, the largest first.

    It has more nodes than it asks for only where that puts no two of them on the same machine.
    """
    need = job.need
    largest = need.max_nodes if has_spare else max(need.nodes, job.growth or job.kept)
    return need.sizes(largest if need.nodes > len(rooms) else min(largest, len(rooms)))


def machines_for_job(job: QueuedJob, rooms: Sequence[MachineCapacity]) -> Sequence[MachineCapacity]:
    """The machines as this job may use them."""
    if not job.lacking:
        return rooms
    return [replace(room, unusable=LACKS_SHARE) if room.name in job.lacking else room for room in rooms]


def taken_by(need: Need, slots: Sequence[Slot] | None, rooms: Sequence[MachineCapacity]) -> Amount:
    """What a job takes of quotas: its slots, or what it would have."""
    if slots:
        return Amount(sum(slot.cpus for slot in slots), sum(len(slot.gpus) for slot in slots))
    cpus = sum(room.cpus for room in rooms if room.takes(need)) if need.alone else need.nodes * need.cpus
    return Amount(cpus, need.nodes * need.gpus)

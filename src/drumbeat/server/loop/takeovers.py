"""Which queued jobs take over nodes that are kept, and which kept nodes are given back because other jobs need them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from drumbeat.core.lifecycle import handover
from drumbeat.core.lifecycle.events import Placed
from drumbeat.core.scheduling.queued_job import Placement
from drumbeat.core.scheduling.resource_needs import Slot
from drumbeat.model.errors import StaleError
from drumbeat.server.database.records import TakenEffect
from drumbeat.server.loop.kept_gangs import KeptGang

if TYPE_CHECKING:
    from drumbeat.server.loop.loop import Loop

log = logging.getLogger(__name__)

PlaceWithout = Callable[[Mapping[str, frozenset[Slot]]], Sequence[Placement]]
"""Places the queue of a compute as if these jobs, which have ended, had given these slots back."""


@dataclass(frozen=True)
class Takeovers:
    """Hands kept nodes on, in the order in which jobs would be placed if the nodes had been given back."""

    loop: Loop

    def hand_on(self, compute: str, place: PlaceWithout) -> bool:
        """Hands kept nodes of a compute on; returns whether something has changed, so that the queue is read again.

        A job takes nodes over only where it would start now. So none passes a job that is before it, and quotas hold.
        """
        kept = self.loop.kept_gangs.on(compute)
        if not kept:
            return False
        started = [one for one in place({one.job.name: frozenset(one.job.slots) for one in kept}) if one.slots]
        left, has_handed = list(kept), False
        for placed in started:
            match = next((one for one in left if self._fits(placed.job, one)), None)
            if match is not None:
                left.remove(match)
                has_handed = self._hand_on(placed.job, match) or has_handed
            else:
                self._give_back(placed, left)
        return has_handed

    def _fits(self, name: str, kept: KeptGang) -> bool:
        record = self.loop.jobs.get(name)
        return record is not None and handover.fits(record.job, kept.shape)

    def _hand_on(self, name: str, kept: KeptGang) -> bool:
        effect = TakenEffect(kept.job.name, kept.job.attempt, kept.n)
        try:
            self.loop.apply(name, Placed(kept.job.slots, kept.taken), kept.job.slots, effect)
        except StaleError as error:  # Its nodes are being given back: the job is placed like any other.
            log.info("job %s takes over no nodes: %s", name, error)
            self.loop.kept_gangs.forget(kept)
            return False
        self.loop.kept_gangs.wake(kept)
        return True

    def _give_back(self, placed: Placement, left: Sequence[KeptGang]) -> None:
        """Has nodes given back without delay that stand in the way of a job."""
        machines = {slot.machine for slot in placed.slots}
        for one in left:
            if machines & {slot.machine for slot in one.job.slots}:
                self.loop.kept_gangs.hurry(one)

"""How the ranks of a round are looked at that seem to hang: twice, with native frames where Python's leave it open."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Protocol, TypeVar

from drumbeat.core.diagnosis.hangs.activity import Activity
from drumbeat.server.nodes.stacks import JobFacts

MAX_PAUSE_S, MAX_CONFIRM_S = 5.0, 30.0
"""Between the two looks of an agent, and before a verdict is confirmed."""


@dataclass(frozen=True)
class Ask:
    """What is asked of the nodes. ranks: () = all."""

    pause_s: float = 0.0
    is_native: bool = False
    ranks: tuple[int, ...] = ()
    sample_s: float = 0.0
    """For how long the ranks are sampled; 0 = looks are wanted."""


class NamesRank(Protocol):
    """A verdict."""

    @property
    def rank(self) -> int | None:
        """The rank that is the cause, None = no single one is."""
        ...


V = TypeVar("V", bound=NamesRank)
Seen = tuple[V, JobFacts]
"""A verdict, and the facts that it rests on."""


@dataclass(frozen=True)
class CloserLook:
    """Looks at the ranks of one round.

    workers: the ranks whose work counts; those that serve others have nothing to do until they are asked. limit_s: how
    long they did nothing when they are looked at. left: returns those that exited with code 0. wait: waits for that
    long, and returns whether to give up.
    """

    workers: Collection[int]
    limit_s: float
    ask: Callable[[Ask], JobFacts]
    left: Callable[[], Collection[int]]
    wait: Callable[[float], bool]

    def facts(self) -> JobFacts:
        """Returns what the ranks do, by Python's frames."""
        return self.ask(Ask(min(MAX_PAUSE_S, self.limit_s / 2)))

    def with_native(self, facts: JobFacts, unclear: Collection[Activity]) -> JobFacts:
        """Returns the facts with native frames of these ranks."""
        return facts.with_native(self.ask(Ask(is_native=True, ranks=tuple(one.rank for one in unclear))))

    def activities(self, facts: JobFacts) -> list[Activity]:
        """Returns what each worker does that is known of."""
        return [one for one in facts.activities if one.rank in self.workers]

    def unclear(self, facts: JobFacts) -> list[Activity]:
        """Returns the workers whose native frames decide whether it is a hang; [] = it is clear without."""
        activities = self.activities(facts)
        unclear = [one for one in activities if one.is_unclear]
        is_open = all(one.is_unclear or not one.works or one.works_by_gpu for one in activities)
        return unclear if is_open else []

    def confirmed(
        self, first: Seen[V], again: Callable[[], Seen[V]], counts: Callable[[V], bool], unsure: V
    ) -> Seen[V]:
        """Returns what a second look says; a verdict that counts must name the same rank, and none may have moved."""
        verdict, facts = first
        if self.wait(min(self.limit_s, MAX_CONFIRM_S)):
            return unsure, facts
        second, later = again()
        if counts(second) and not (second.rank == verdict.rank and _is_still(facts, later)):
            return unsure, later
        return second, later


def _is_still(first: JobFacts, second: JobFacts) -> bool:
    """Whether no rank that waits for others or its GPU has moved between two looks, as far as the stacks say."""
    before = {one.rank: one.digest for one in first.activities}
    waiting = (one for one in second.activities if (one.waits_for_ranks or one.works_by_gpu) and one.digest)
    return all(one.digest == before.get(one.rank, "") for one in waiting)

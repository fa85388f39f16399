"""Why a store takes no changes of jobs now, such as a full disk, as the loop learned by trying."""

from __future__ import annotations

from dataclasses import dataclass

LASTS_S = 5.0
"""How long a refusal counts when nothing is tried after it."""
COUNTS_AFTER_S = 2.0
"""A refusal that is over sooner, such as a conflict with another transaction, isn't worth anybody's attention."""


@dataclass
class RefusedWrites:
    """The refusals of one store since it last took a change. Written by one thread, read by any."""

    _refusals: tuple[str, float, float] = ("", 0.0, 0.0)
    """What the last one said, when the first one was, when the last one was, in seconds of the monotonic clock."""

    def add(self, problem: str, now: float) -> None:
        """Notes that the store refused a change now."""
        before, first, _ = self._refusals
        self._refusals = (problem, first if before else now, now)

    def clear(self) -> bool:
        """Notes that the store took a change. Returns whether it had refused the one before."""
        before, self._refusals = self._refusals[0], ("", 0.0, 0.0)
        return before != ""

    def clear_old(self, now: float) -> bool:
        """Forgets refusals when none came for `LASTS_S`. Returns whether it did."""
        problem, _, last = self._refusals
        return problem != "" and now >= last + LASTS_S and self.clear()

    @property
    def problem(self) -> str:
        """The store's words, once they have held for `COUNTS_AFTER_S`; "" = it takes changes, as far as was tried."""
        problem, first, last = self._refusals
        return problem if last >= first + COUNTS_AFTER_S else ""

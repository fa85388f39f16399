"""How users and experiments stand when jobs are placed: pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta

from drumbeat.core.scheduling.fair_share import HALF_LIFE, describe_use
from drumbeat.core.scheduling.quotas import Allowances


@dataclass(frozen=True)
class Balances:
    """What is left of quotas, and what users have used recently."""

    allowances: Allowances = field(default_factory=Allowances)
    use: Mapping[str, float] = field(default_factory=dict[str, float])
    """Slot-hours by user; empty where only one user's jobs wait."""
    half_life: timedelta = HALF_LIFE

    def without(self, jobs: Collection[str]) -> Balances:
        """Returns the balances as if these jobs, which have ended, held nothing any more."""
        held = tuple(one for one in self.allowances.held if one.job not in jobs)
        return replace(self, allowances=replace(self.allowances, held=held)) if jobs else self

    def describe(self, user: str, first: str) -> str:
        """The numbers by which another user's job comes first, "" = there is nothing to compare."""
        if user == first or not self.use:
            return ""
        return f"; {describe_use(self.use, (user, first), self.half_life)}"


NO_BALANCES = Balances()
"""Without quotas, and with one user."""

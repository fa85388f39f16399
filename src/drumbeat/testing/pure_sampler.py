"""A sampler without a process, for the simulator and for tests: bayesian sweeps get random values."""

from __future__ import annotations

from collections.abc import Sequence

from drumbeat.core.sweeping.parameters import Value
from drumbeat.core.sweeping.search import SampledTrial, Search, sample


class PureSampler:
    """Fills the port `Sampler`."""

    def missing(self, search: Search) -> str:
        del search
        return ""

    def ask(self, search: Search, trials: Sequence[SampledTrial], count: int) -> tuple[dict[str, Value], ...]:
        return sample(search, trials, count)

    def close(self) -> None:
        pass

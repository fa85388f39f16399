"""Samplers, which propose the parameters of trials by the results of earlier ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from drumbeat.core.child_jobs import TrialProgress


class Sampler(Protocol):
    """Proposes the parameters of a sweep's trials. Thread-safe."""

    def ask(self, count: int, trials: Sequence[TrialProgress]) -> Sequence[Mapping[str, Any]]:
        """Returns the parameters of the next `count` trials.

        trials: all trials so far by number, with their states and best values. This is a level: a sampler that has just
        started, after a restart of the server, learns from it what an earlier one knew, and proposes the same as that
        would have. Raises UnreachableError if it can not propose now: it is asked again. Raises RefusedError if it
        never can: the sweep fails.
        """
        ...

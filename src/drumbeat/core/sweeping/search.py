"""A search: what a sampler has to know of a sweep, and the trials that it has already given values to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from drumbeat.core.sweeping import grid
from drumbeat.core.sweeping.draws import draw
from drumbeat.core.sweeping.parameters import Value, Values
from drumbeat.core.sweeping.ranking import Goal
from drumbeat.dialect.sweeping.search_space import SearchFunction
from drumbeat.dialect.sweeping.sweep import BayesianSampling, GridSampling, RandomSampling, SweepJob

Sampling = RandomSampling | GridSampling | BayesianSampling
TrialState = Literal["running", "completed", "stopped", "failed"]
"""`running` until it has ended. `stopped`: by a rule or by a person, with the values that it reported before."""


@dataclass(frozen=True)
class Search:
    """A search over a space."""

    space: Mapping[str, SearchFunction]
    sampling: Sampling
    goal: Goal
    seed: int
    """The sweep's own, or one that was chosen when it was submitted and is kept with it."""


@dataclass(frozen=True)
class SampledTrial:
    """A trial that has its values."""

    values: Values
    state: TrialState = "running"
    value: float | None = None
    """The best value of the primary metric so far; None = none was reported."""


def search_of(sweep: SweepJob, seed: int) -> Search:
    """The search of a sweep. seed: taken where the sweep names none."""
    sampling = sampling_of(sweep)
    own = sampling.seed if isinstance(sampling, RandomSampling) else None
    return Search(sweep.search_space, sampling, sweep.objective.goal, seed if own is None else own)


def sampling_of(sweep: SweepJob) -> Sampling:
    """The sampling algorithm with its options, also where the sweep has only its name."""
    match sweep.sampling_algorithm:
        case "random":
            return RandomSampling()
        case "grid":
            return GridSampling()
        case "bayesian":
            return BayesianSampling()
        case written:
            return written


def sample(search: Search, trials: Sequence[SampledTrial], count: int) -> tuple[dict[str, Value], ...]:
    """Values for the next trials, for algorithms that don't learn: grid, and random for all others.

    Fewer than `count` where a grid has no more combinations.
    """
    numbers = range(len(trials), len(trials) + count)
    if isinstance(search.sampling, GridSampling):
        size = grid.count(search.space)
        return tuple(grid.combination(search.space, number) for number in numbers if number < size)
    sampling = search.sampling if isinstance(search.sampling, RandomSampling) else RandomSampling()
    return tuple(draw(search.space, sampling, search.seed, number) for number in numbers)

"""Random sampling: the values of a trial follow from the seed and its number, with no generator in between.

Each parameter of each trial has a coordinate between 0 and 1, which the quantile of its function maps to a value. So
the same seed gives the same trials, in any order and after any restart. With the rule `random`, the coordinate is a
hash of seed, number and parameter; with `sobol`, it is that of Sobol's sequence, shifted by the seed.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Mapping
from hashlib import sha256
from statistics import NormalDist
from typing import cast

from drumbeat.core.sweeps import sobol_sampling
from drumbeat.core.sweeps.trial_values import Scalar, Value
from drumbeat.jobfile.sweeping.search_space import (
    Choice,
    LogNormal,
    LogUniform,
    Normal,
    QLogNormal,
    QLogUniform,
    QNormal,
    QUniform,
    RandInt,
    SearchFunction,
    Uniform,
)
from drumbeat.jobfile.sweeping.sweep import RandomSampling

Coordinate = Callable[[str], float]
"""The coordinate, between 0 and 1, of the parameter with that path."""

BITS = 52
"""Bits of a random coordinate. Together with the half that is added, they fit a double exactly."""


def draw(space: Mapping[str, SearchFunction], sampling: RandomSampling, seed: int, number: int) -> dict[str, Value]:
    """Draws the values of the trial with that number, counted from 0."""
    base = math.e if sampling.logbase in (None, "e") else float(sampling.logbase)
    if sampling.rule != "sobol":
        return _values(space, lambda path: _random(seed, number, path), base)
    dimensions = {path: place for place, path in enumerate(paths(space))}
    return _values(space, lambda path: _sobol(seed, number, path, dimensions[path]), base)


def paths(space: Mapping[str, object], above: str = "") -> Iterator[str]:
    """Yields the path of each function: its name; in a branch, the choice's path and the branch's number come first."""
    for name, function in space.items():
        path = f"{above}{name}"
        if isinstance(function, SearchFunction):
            yield path
        for place, option in enumerate(function.values if isinstance(function, Choice) else ()):
            if isinstance(option, Mapping):
                yield from paths(option, f"{path}.{place}.")


def _values(space: Mapping[str, object], coordinate: Coordinate, base: float, above: str = "") -> dict[str, Value]:
    values: dict[str, Value] = {}
    for name, function in space.items():
        path = f"{above}{name}"
        if isinstance(function, Choice):
            place = int(coordinate(path) * len(function.values))
            option = function.values[place]
            is_branch = isinstance(option, Mapping)
            values[name] = _values(option, coordinate, base, f"{path}.{place}.") if is_branch else option
        elif isinstance(function, SearchFunction):
            values[name] = quantile(function, coordinate(path), base)
        else:
            values[name] = cast("Scalar", function)
    return values


def quantile(function: SearchFunction, at: float, base: float = math.e) -> int | float:
    """Returns the value below which a share of `at` of the function's draws lies. base: of the logarithms."""
    match function:
        case RandInt():
            return min(int(at * function.upper), function.upper - 1)
        case Uniform() | LogUniform() | QUniform() | QLogUniform():
            drawn = function.min_value + (function.max_value - function.min_value) * at
        case Normal() | LogNormal() | QNormal() | QLogNormal():
            drawn = NormalDist(function.mu, function.sigma).inv_cdf(at)
        case _:
            raise TypeError(type(function).__name__)
    if isinstance(function, LogUniform | QLogUniform | LogNormal | QLogNormal):
        drawn = _power(base, drawn)
    is_stepped = isinstance(function, QUniform | QLogUniform | QNormal | QLogNormal)
    return stepped(drawn, function.q) if is_stepped else drawn


def stepped(value: float, step: float) -> int | float:
    """round(value / step) * step; a whole number where the step is one, for scripts that read an int."""
    steps = value / step
    if not math.isfinite(steps):
        return value
    if step.is_integer():
        return round(steps) * int(step)
    # 3 * 0.1 is 0.30000000000000004: twelve digits give the intended value.
    return float(f"{round(steps) * step:.12g}")


def _power(base: float, exponent: float) -> float:
    try:
        return base**exponent
    except OverflowError:
        return sys.float_info.max


def _random(seed: int, number: int, path: str) -> float:
    return ((_hash(f"{seed}/{number}/{path}") >> (64 - BITS)) + 0.5) / 2**BITS


def _sobol(seed: int, number: int, path: str, dimension: int) -> float:
    shift = _hash(f"{seed}/{path}") >> (64 - sobol_sampling.BITS)
    return ((sobol_sampling.coordinate(number, dimension) ^ shift) + 0.5) / 2**sobol_sampling.BITS


def _hash(text: str) -> int:
    return int.from_bytes(sha256(text.encode()).digest()[:8])

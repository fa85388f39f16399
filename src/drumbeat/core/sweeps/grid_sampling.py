"""Grid sampling: every combination of the choices, in the order written; the last parameter changes first."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import cast

from drumbeat.core.sweeps.trial_values import Scalar, Value
from drumbeat.jobfile.sweeping.search_space import Choice

Space = Mapping[str, object]
"""Search functions by name. In a branch of a choice, plain values too."""


def count(space: Space) -> int:
    """Returns how many combinations the space has, including branches of nested choices."""
    return prod(_count_values(function) for function in space.values())


def combination(space: Space, number: int) -> dict[str, Value]:
    """Returns the combination with that number, counted from 0. Raises IndexError beyond the last."""
    if not 0 <= number < count(space):
        raise IndexError(number)
    values: dict[str, Value] = {}
    for name in reversed(list(space)):
        number, index = divmod(number, _count_values(space[name]))
        values[name] = _value(space[name], index)
    return {name: values[name] for name in space}


def _count_values(function: object) -> int:
    return sum(_count_option(option) for option in function.values) if isinstance(function, Choice) else 1


def _count_option(option: object) -> int:
    return count(cast("Space", option)) if isinstance(option, Mapping) else 1


def _value(function: object, index: int) -> Value:
    if not isinstance(function, Choice):
        return cast("Scalar", function)
    for option in function.values:
        size = _count_option(option)
        if index < size:
            return combination(option, index) if isinstance(option, Mapping) else option
        index -= size
    raise IndexError(index)

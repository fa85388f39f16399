"""The parameters that a search space gives to its trials: names, branches, and what can't be drawn.

A choice may list mappings, its branches. The keys of a branch are parameters beside the others, under their own names,
and have values only in trials that drew the branch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from drumbeat.jobfile.reading.error_messages import shown, words
from drumbeat.jobfile.reading.expressions import MARK
from drumbeat.jobfile.reading.model import Contradiction, Loc
from drumbeat.jobfile.sweeping.search_space import Choice, QUniform, SearchFunction, Uniform

MAX_SOBOL = 64
"""Functions of a search space that Sobol's sequence has a dimension for."""


def parameter_names(space: Mapping[str, object]) -> dict[str, bool]:
    """Every name that a trial may have a value for, and whether each trial has one."""
    names = dict.fromkeys(space, True)
    for function in space.values():
        names |= _names_in_branches(function)
    return names


def _names_in_branches(function: object) -> dict[str, bool]:
    if not isinstance(function, Choice):
        return {}
    branches = [parameter_names(value) if isinstance(value, Mapping) else {} for value in function.values]
    names = {name for branch in branches for name in branch}
    return {name: all(branch.get(name, False) for branch in branches) for name in sorted(names)}


def space_contradictions(space: Mapping[str, object]) -> Iterator[Contradiction]:
    """Names that two parameters have, and texts that would be read as expressions."""
    yield from _duplicates(space, ("search_space",))
    for loc, value in _constants(space, ("search_space",)):
        if isinstance(value, str) and (mark := MARK.search(value)) and mark[0] != "]]":
            what = f"{shown(value)} would be read as an expression in the command of a trial"
            yield Contradiction(loc, what, f"Write the values without `{mark[0]}`.", mark[0])


def sampling_contradictions(sampling: object, space: Mapping[str, object]) -> Iterator[Contradiction]:
    """Functions that a sampling algorithm can't draw from, those in branches included."""
    kind = sampling if isinstance(sampling, str) else getattr(sampling, "type", "")
    fits = {"grid": (Choice,), "bayesian": (Choice, Uniform, QUniform)}.get(kind)
    for loc, function in _functions(space, ("search_space",)) if fits else ():
        if not isinstance(function, fits or ()):
            able = words([str(cls.kind()) for cls in fits or ()], "or")
            what = f"`{kind}` sampling can't draw from `{getattr(function, 'type', '')}`"
            yield Contradiction(loc, what, f"Use {able}, or `random` sampling.")
    functions = [*_functions(space, ())] if getattr(sampling, "rule", None) == "sobol" else []
    if len(functions) > MAX_SOBOL:
        what = f"`sobol` draws from at most {MAX_SOBOL} functions, and the search space has {len(functions)}"
        yield Contradiction(("sampling_algorithm", "rule"), what, "Leave `rule` out.")


def _duplicates(space: Mapping[str, object], loc: Loc) -> Iterator[Contradiction]:
    counts = Counter(space.keys())
    for name, function in space.items():
        inner = _names_in_branches(function)
        counts.update(inner.keys())
        for twice in (each for each in inner if counts[each] > 1):
            what = f"`{twice}` in a branch of `{name}` is the name of another parameter, too"
            yield Contradiction((*loc, name), what, "Rename one of them.")
        for place, branch in _branches(function):
            yield from _duplicates(branch, (*loc, name, *place))


def _functions(space: Mapping[str, object], loc: Loc) -> Iterator[tuple[Loc, SearchFunction]]:
    for name, function in space.items():
        if isinstance(function, SearchFunction):
            yield (*loc, name), function
        for place, branch in _branches(function):
            yield from _functions(branch, (*loc, name, *place))


def _constants(space: Mapping[str, object], loc: Loc) -> Iterator[tuple[Loc, object]]:
    for name, function in space.items():
        if not isinstance(function, SearchFunction):
            yield (*loc, name), function
        values = function.values if isinstance(function, Choice) else []
        yield from (((*loc, name, "values", at), value) for at, value in enumerate(values))
        for place, branch in _branches(function):
            yield from _constants(branch, (*loc, name, *place))


def _branches(function: object) -> Iterator[tuple[Loc, Mapping[str, object]]]:
    values = function.values if isinstance(function, Choice) else []
    for at, value in enumerate(values):
        if isinstance(value, Mapping):
            yield ("values", at), value

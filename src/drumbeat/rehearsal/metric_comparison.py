"""Compares the metrics of two runs of one job, bit for bit. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from drumbeat.model.metrics import SYSTEM


@dataclass(frozen=True)
class LoggedPoint:
    """One value of a metric."""

    step: int
    value: float | str
    """The value; a string for `NaN` and the infinities, as in the API."""
    at: float
    """Seconds since the epoch, by the clock of the rank."""


@dataclass(frozen=True, order=True)
class SeriesKey:
    """A metric of one rank."""

    name: str
    rank: int

    def __str__(self) -> str:
        """Returns its name in a message."""
        return f"{self.name} of rank {self.rank}"


Logged = Mapping[SeriesKey, Sequence[LoggedPoint]]
"""The metrics of a job, each series in order of arrival."""

_TIMES = re.compile(
    r"(^|[/_. -])(s|sec|secs|seconds|ms|us|time|times|elapsed|duration|eta|speed|throughput|latency|fps|per_s"
    r"|per_sec|per_second|memory|mib|gib|utilization)$|per_(s|sec|second)\b|/s$"
)


def measures_time(name: str) -> bool:
    """Whether a metric, by its name, measures time or the machine, and so differs between any two runs."""
    return bool(_TIMES.search(name.lower()))


def is_judged(key: SeriesKey) -> bool:
    """Whether a series is the script's own: nodes log metrics, too, and drumbeat logs its checkpoints."""
    return key.rank >= 0 and not key.name.startswith((SYSTEM, "checkpoint/"))


def last_values(points: Iterable[LoggedPoint]) -> dict[int, float | str]:
    """Returns the value of each step, the later one of a repeated step."""
    return {point.step: point.value for point in points}


@dataclass(frozen=True)
class SeriesDifference:
    """The first difference of a series from the unbroken job's."""

    key: SeriesKey
    step: int
    """The first one that differs."""
    expected: float | str | None
    """None = the unbroken job has no such step."""
    actual: float | str | None
    last_equal: int | None
    """The last equal step before it, None = none."""

    def __str__(self) -> str:
        """Returns a message about it."""
        if self.actual is None:
            return f"{self.key} has no step {self.step:,}"
        if self.expected is None:
            return f"{self.key} has a step {self.step:,} that the unbroken run lacks"
        return f"{self.key} differs from step {self.step:,} on: {self.actual!r}, unbroken {self.expected!r}"


def compare_series(expected: Logged, actual: Logged, but: Iterable[SeriesKey] = ()) -> list[SeriesDifference]:
    """Returns the first difference of each compared series. but: series that aren't compared."""
    keys = sorted({key for key in (*expected, *actual) if is_judged(key)} - {*but})
    both = [(key, last_values(expected.get(key, ())), last_values(actual.get(key, ()))) for key in keys]
    return [first for key, ours, theirs in both if (first := _first_difference(key, ours, theirs)) is not None]


def _first_difference(
    key: SeriesKey, expected: Mapping[int, float | str], actual: Mapping[int, float | str]
) -> SeriesDifference | None:
    last_equal: int | None = None
    for step in sorted({*expected, *actual}):
        # A zero with the other sign differs bit for bit.
        if repr(expected.get(step)) != repr(actual.get(step)):
            return SeriesDifference(key, step, expected.get(step), actual.get(step), last_equal)
        last_equal = step
    return None


@dataclass(frozen=True)
class LostPoints:
    """Steps of a series that the resumed job didn't repeat, and whose values were lost with a killed process."""

    key: SeriesKey
    steps: tuple[int, ...]

    def __str__(self) -> str:
        """Returns a message about them."""
        steps = f"step {self.steps[0]:,}" if len(self.steps) == 1 else f"steps {self.steps[0]:,}–{self.steps[-1]:,}"
        return f"{self.key} lost {steps} with the process that had logged it"


def find_lost_points(expected: Logged, actual: Logged, restarted_at: float) -> list[LostPoints]:
    """Returns series that only lack steps from before the step at which they resumed."""
    return [
        LostPoints(key, steps)
        for key in sorted(key for key in expected if is_judged(key))
        if (steps := _lost_steps(expected[key], actual.get(key, ()), restarted_at))
    ]


def _lost_steps(expected: Sequence[LoggedPoint], actual: Sequence[LoggedPoint], restarted_at: float) -> tuple[int, ...]:
    unbroken, values = last_values(expected), last_values(actual)
    resumed = next((point.step for point in actual if point.at > restarted_at), None)
    missing = sorted(unbroken.keys() - values.keys())
    is_equal = all(repr(unbroken.get(step)) == repr(value) for step, value in values.items())
    if resumed is None or not missing or not is_equal or missing[-1] >= resumed:
        return ()
    return tuple(missing)


def main_series(logged: Logged) -> SeriesKey | None:
    """Returns the series that counts steps: of the lowest rank, the one with most steps."""
    keys = [key for key, points in logged.items() if points and is_judged(key)]
    return min(keys, key=lambda key: (key.rank, -len(last_values(logged[key])), key.name), default=None)

"""Medians with their spread, and ratios of runs that were taken in turns."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Spread:
    """A sample's middle, its inner half and its ends; `missing` counts runs that gave no value."""

    median: float
    quarter: float
    three_quarters: float
    least: float
    most: float
    count: int
    missing: int = 0


def spread(values: Sequence[float | None]) -> Spread | None:
    """None when no run gave a value."""
    known = sorted(value for value in values if value is not None)
    if not known:
        return None
    quarters = statistics.quantiles(known, n=4, method="inclusive") if len(known) > 1 else [known[0]] * 3
    return Spread(
        median=statistics.median(known),
        quarter=quarters[0],
        three_quarters=quarters[2],
        least=known[0],
        most=known[-1],
        count=len(known),
        missing=len(values) - len(known),
    )


def ratios(ours: Sequence[float | None], theirs: Sequence[float | None]) -> list[float | None]:
    """Ratio by ratio of the runs of one round, so that a change in the machine's load meets both sides."""
    pairs = zip(ours, theirs, strict=True)
    return [None if mine is None or other is None else mine / other for mine, other in pairs]


def say(found: Spread | None, lost: str = "never ended", digits: int = 2) -> str:
    """`2.31 (2.2–2.4; 2.1–3.0)`: median, inner half, ends; and how many runs gave nothing, and why."""
    if found is None:
        return "none"
    ends = ((found.quarter, found.three_quarters), (found.least, found.most))
    inner = "; ".join(f"{low:.{digits}f}–{high:.{digits}f}" for low, high in ends)
    missing = f"; {found.missing} of {found.count + found.missing} {lost}" if found.missing else ""
    return f"{found.median:.{digits}f} ({inner}{missing})"

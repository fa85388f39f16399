"""Chooses, sorts and groups runs by their values. Rows are anything; a function gives the value of a field."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from statistics import fmean, stdev
from typing import TypeVar

from drumbeat.core.run_queries.conditions import Condition
from drumbeat.core.run_queries.fields import Cell, Field, number_of
from drumbeat.core.run_queries.parser import SortKey

T = TypeVar("T")
ValueOf = Callable[[T, Field], Cell]
"""Returns the value of a field of a row."""


@dataclass(frozen=True)
class ColumnSpread:
    """The values of a column in a group. common: the one that all members have; None = they differ, or have none.

    mean, spread, low, high: of the numbers among them; spread is the sample's standard deviation, None for one number.
    """

    numbers: int
    mean: float | None = None
    spread: float | None = None
    low: float | None = None
    high: float | None = None
    common: Cell = None


def matching(rows: Iterable[T], conditions: Sequence[Condition], value_of: ValueOf[T]) -> list[T]:
    """Returns the rows that meet all conditions."""
    return [row for row in rows if all(one.is_met(value_of(row, one.field)) for one in conditions)]


def sorted_rows(rows: Sequence[T], keys: Sequence[SortKey], value_of: ValueOf[T]) -> list[T]:
    """Returns the rows in an order: numbers by size, then texts by letters in any case, rows without a value last.

    NaN counts as no value. Rows that are equal keep their order.
    """
    ordered = list(rows)
    for key in reversed(keys):
        rated = [(sort_value(value_of(row, key.field)), row) for row in ordered]
        present = [one for one in rated if one[0] is not None]
        present.sort(key=lambda one: one[0] or (0, 0.0, ""), reverse=not key.is_ascending)
        ordered = [row for _, row in present] + [row for value, row in rated if value is None]
    return ordered


def sort_value(cell: Cell) -> tuple[int, float, str] | None:
    """Returns what a value is sorted by; None = it comes last."""
    if cell is None:
        return None
    number = number_of(cell)
    if number is not None:
        return None if math.isnan(number) else (0, number, "")
    return (1, 0.0, str(cell).lower())


def grouped(rows: Sequence[T], fields: Sequence[Field], value_of: ValueOf[T]) -> list[tuple[tuple[Cell, ...], list[T]]]:
    """Returns the values of each group and its rows in their order, the groups sorted by their values."""

    def values(row: T) -> tuple[tuple[bool, tuple[int, float, str]], ...]:
        cells = [sort_value(value_of(row, field)) for field in fields]
        return tuple((one is None, one or (0, 0.0, "")) for one in cells)

    groups = [list(members) for _, members in groupby(sorted(rows, key=values), key=values)]
    return [(tuple(value_of(members[0], field) for field in fields), members) for members in groups]


def spread_of(cells: Sequence[Cell]) -> ColumnSpread:
    """Returns mean and spread of the values of a group."""
    numbers = [number for cell in cells if (number := number_of(cell)) is not None and math.isfinite(number)]
    common = cells[0] if cells and all(cell == cells[0] for cell in cells) else None
    if not numbers:
        return ColumnSpread(0, common=common)
    spread = stdev(numbers) if len(numbers) > 1 else None
    return ColumnSpread(len(numbers), fmean(numbers), spread, min(numbers), max(numbers), common)

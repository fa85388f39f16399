"""The transformations of an `MLTable` on rows that have been read, as a pandas DataFrame."""

from __future__ import annotations

import functools
import importlib
import random
from collections.abc import Iterator, Sequence
from typing import Any

from drumbeat.parallel.mltable import POSITIONAL

_TRUE, _FALSE = ("true", "1"), ("false", "0")


def apply(frame: Any, steps: Sequence[tuple[str, Any]], cuts: Sequence[Sequence[int]], place: str) -> Any:
    """Returns the rows that are left. cuts: for each `take` and `skip`, which of these rows it leaves.

    place: names the rows, so that a random sample is the same in each try.
    """
    places: Iterator[Sequence[int]] = iter(cuts)
    for name, value in steps:
        if name in POSITIONAL:
            first, last = next(places)
            frame = frame.iloc[first:last]
        else:
            frame = apply_step(frame, name, value, place)
    return frame.reset_index(drop=True)


def apply_step(frame: Any, name: str, value: Any, place: str) -> Any:
    """Returns the rows after one transformation that isn't a `take` or `skip`."""
    match name:
        case "filter":
            return value.select(frame)
        case "keep_columns":
            return frame[[one for one in frame.columns if one in value]]
        case "drop_columns":
            return frame.drop(columns=[one for one in value if one in frame.columns])
        case "take_random_sample":
            probability, seed = value
            draw = random.Random(f"{seed}/{place}")  # noqa: S311 - a sample of rows
            return frame[[draw.random() < probability for _ in range(len(frame))]]
        case _:
            frame = frame.copy()
            for columns, type_, options in value:
                for column in columns:
                    if column in frame.columns:
                        frame[column] = _converted(frame[column], type_, options)
            return frame


def _converted(column: Any, type_: str, options: dict[str, Any]) -> Any:
    """A column with another type; a value that has none of it is missing."""
    pandas: Any = importlib.import_module("pandas")
    match type_:
        case "string":
            return column.map(_text, na_action="ignore").astype(object)
        case "int":
            numbers = pandas.to_numeric(column, errors="coerce")
            return numbers.astype("int64") if numbers.notna().all() else numbers.map(int, na_action="ignore")
        case "float":
            return pandas.to_numeric(column, errors="coerce").astype("float64")
        case "boolean":
            truths = column.map(functools.partial(_truth, options=options), na_action="ignore")
            return truths.astype(bool) if truths.notna().all() else truths
        case _:
            formats = options["formats"]
            times = pandas.Series(pandas.NaT, index=column.index)
            for form in [formats] if isinstance(formats, str) else formats:
                times = times.fillna(pandas.to_datetime(column, errors="coerce", format=form))
            return times


def _text(value: Any) -> str:
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _truth(value: Any, options: dict[str, Any]) -> bool | None:
    text = _text(value)
    if "true_values" in options or "false_values" in options:
        values = dict.fromkeys(options.get("true_values", ()), True) | dict.fromkeys(
            options.get("false_values", ()), False
        )
    else:
        values, text = dict.fromkeys(_TRUE, True) | dict.fromkeys(_FALSE, False), text.lower()
    other = {"true": True, "false": False}.get(str(options.get("mismatch_as", "error")).lower())
    return values.get(text, other)

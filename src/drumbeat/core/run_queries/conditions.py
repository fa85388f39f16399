"""The conditions of filters: which comparators a field takes, and whether a value meets one."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from datetime import UTC, datetime
from functools import lru_cache

from pydantic_core import SchemaError, SchemaValidator, core_schema

from drumbeat.core.run_queries.fields import Cell, Field, Unit, number_of
from drumbeat.jobfile.reading.error_messages import either
from drumbeat.model.errors import SpecError
from drumbeat.model.metrics import RUN_STATUSES
from drumbeat.model.states import State

_ORDER: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
COMPARATORS = ("=", "!=", *_ORDER, "~", "LIKE", "ILIKE", "IN", "NOT IN", "IS NULL", "IS NOT NULL")
_PATTERNS = ("~", "LIKE", "ILIKE")

_WORDS: dict[str, tuple[str, ...]] = {"state": tuple(State), "status": RUN_STATUSES}
"""The values that attributes have, where these are few."""

MAX_PATTERN = 1000
"""Maximum length of a pattern."""

_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)([smhd])")


@dataclass(frozen=True)
class Operand:
    """A value as a filter has it."""

    text: str
    is_quoted: bool = False


@dataclass(frozen=True)
class Condition:
    """A comparison of a field. values: one, several of a list, none for IS NULL."""

    field: Field
    comparator: str
    values: tuple[Operand, ...]
    is_met: Callable[[Cell], bool] = dataclass_field(repr=False, compare=False)
    """Whether a run's value of the field meets it. None meets only IS NULL."""


def condition(field: Field, comparator: str, values: tuple[Operand, ...]) -> Condition:
    """Returns a condition. Raises SpecError, without a place, for what the field isn't compared with."""
    if comparator in ("IS NULL", "IS NOT NULL"):
        is_null = comparator == "IS NULL"
        return Condition(field, comparator, values, lambda cell: (cell is None) is is_null)
    if comparator in _PATTERNS:
        if field.unit not in (Unit.TEXT, Unit.ANY):
            raise SpecError(f"{field} is no text, so {comparator} can't match it", fix="Use =, !=, <, <=, > or >=.")
        has_match = _pattern(comparator, values[0].text)
        return Condition(field, comparator, values, lambda cell: cell is not None and has_match(text_of(cell)))
    if comparator in _ORDER:
        if field.unit is Unit.TEXT and field.kind == "attribute":
            raise SpecError(f"{field} is a text, which {comparator} can't compare", fix="Use =, !=, ~, LIKE or IN.")
        limit, compare = _number(field, values[0]), _ORDER[comparator]
        return Condition(field, comparator, values, lambda cell: _is_beside(compare, number_of(cell), limit))
    for value in values:
        _require_word(field, value)
    equal = [_equality(field, value) for value in values]
    is_wanted = comparator in ("=", "IN")
    return Condition(
        field, comparator, values, lambda cell: cell is not None and any(one(cell) for one in equal) is is_wanted
    )


def _require_word(field: Field, value: Operand) -> None:
    """Raises SpecError for a state that no run can have."""
    words = _WORDS.get(field.key, ()) if field.kind == "attribute" else ()
    if words and value.text not in words:
        what = f"{value.text[:40]!r} is no {field}"
        raise SpecError(what, fix=either(value.text, words, "Use one of"))


def text_of(cell: float | str) -> str:
    """Returns a value as patterns and texts are compared with it: a whole number without a point."""
    if isinstance(cell, str):
        return cell
    number = float(cell)
    return str(int(number)) if number.is_integer() and abs(number) < 1e15 else repr(number)


def _is_beside(compare: Callable[[float, float], bool], number: float | None, limit: float) -> bool:
    return number is not None and compare(number, limit)


def _equality(field: Field, value: Operand) -> Callable[[float | str], bool]:
    wanted = value.text
    if field.unit not in (Unit.TEXT, Unit.ANY):
        number = _number(field, value)
        return lambda cell: number_of(cell) == number or (number != number and cell != cell)  # noqa: PLR0124 - NaN
    plain = None if value.is_quoted else number_of(wanted)

    def is_equal(cell: float | str) -> bool:
        if isinstance(cell, str):
            return cell == wanted or (plain is not None and number_of(cell) == plain)
        return number_of(wanted) == cell

    return is_equal


def _number(field: Field, value: Operand) -> float:
    """Returns the number that a value means to a field. Raises SpecError."""
    if field.unit is Unit.DURATION and _DURATION.sub("", value.text) == "" and value.text:
        return sum(float(count) * _SECONDS[unit] for count, unit in _DURATION.findall(value.text))
    number = number_of(value.text)
    if number is None and field.unit is Unit.TIME:
        try:
            at = datetime.fromisoformat(value.text)
        except ValueError:
            raise SpecError(
                f"{value.text[:40]!r} is no time", fix="Write 2026-11-28 or 2026-11-28T14:30, in UTC."
            ) from None
        return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000
    if number is None:
        what = "seconds, or a duration like 1h30m" if field.unit is Unit.DURATION else "a number"
        raise SpecError(f"{value.text[:40]!r} is no number, and {field} is compared with one", fix=f"Write {what}.")
    return number


@lru_cache(256)
def _pattern(comparator: str, text: str) -> Callable[[str], bool]:
    """Returns whether a text matches. Patterns take time in proportion to the text: they come from any user."""
    if len(text) > MAX_PATTERN:
        raise SpecError(
            f"a pattern may have {MAX_PATTERN:,} characters, and this one has {len(text):,}", fix="Shorten it."
        )
    pattern = text if comparator == "~" else _like(text, ignores_case=comparator == "ILIKE")
    try:
        # Rust's engine, unlike Python's, never goes back.
        validator = SchemaValidator(core_schema.str_schema(pattern=pattern, regex_engine="rust-regex"))
    except SchemaError as error:
        why = str(error).strip().splitlines()[-1].removeprefix("error: ").strip()
        raise SpecError(
            f"{text[:60]!r} is no regular expression: {why}",
            fix="The syntax is RE2's, without look-around; to match a text as it is, use = or LIKE.",
        ) from None
    return validator.isinstance_python


def _like(text: str, *, ignores_case: bool) -> str:
    parts = (".*" if one == "%" else "." if one == "_" else _escaped(one) for one in text)
    return f"(?s{'i' if ignores_case else ''})^{''.join(parts)}$"


def _escaped(letter: str) -> str:
    return f"\\{letter}" if letter in r"\.+*?()|[]{}^$#&-~" else letter

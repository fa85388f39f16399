"""The values of parameters in their declared types: files may write `'0.1'` for a number and `True` for a string."""

from __future__ import annotations

import re

from drumbeat.jobfile.reading.yaml_tree import scalar

Scalar = bool | int | float | str

_INTEGER = re.compile(r"[+-]?\d{1,400}")
_BOOLEANS = {"true": True, "false": False}


def typed(kind: str, value: Scalar) -> Scalar | None:
    """Returns the value as a parameter type has it; None where it is of another."""
    if kind == "string":
        return str(value)
    if kind == "boolean":
        return value if isinstance(value, bool) else _BOOLEANS.get(str(value).strip().casefold())
    number = _number(value.strip()) if isinstance(value, str) else value
    if number is None or isinstance(number, bool):
        return None
    if kind == "integer":
        return int(number) if isinstance(number, int) or number.is_integer() else None
    return number


def passed(kind: str, value: Scalar) -> Scalar:
    """Returns a value of a type as the script gets it: a number that was typed as a text keeps its text.

    An `integer` keeps no text that scripts couldn't read as one: 1e3 is passed as 1000.
    """
    own = typed(kind, value)
    if isinstance(value, str) and isinstance(own, int | float) and not isinstance(own, bool):
        is_readable = _INTEGER.fullmatch(value.strip()) if kind == "integer" else _float(value) is not None
        return value.strip() if is_readable else own
    return value if own is None else own


def _number(text: str) -> float | int | None:
    if _INTEGER.fullmatch(text):
        return int(text)
    number = scalar(text)
    number = number if isinstance(number, int | float) and not isinstance(number, bool) else _float(text)
    return number if number is not None and number - number == 0 else None  # JSON has no word for infinite and NaN.


def _float(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None

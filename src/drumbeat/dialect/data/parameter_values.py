"""The values of parameters in their declared types: files may write `'0.1'` for a number and `True` for a string."""

from __future__ import annotations

import re

Scalar = bool | int | float | str

_INTEGER = re.compile(r"[+-]?\d{1,400}")
_BOOLEANS = {"true": True, "false": False}


def typed(kind: str, value: Scalar) -> Scalar | None:
    """Returns the value as a parameter type has it; None where it is of another."""
    if kind == "string":
        return str(value)
    if kind == "boolean":
        return value if isinstance(value, bool) else _BOOLEANS.get(str(value).strip().casefold())
    if isinstance(value, bool):
        return None
    if kind == "integer":
        is_whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
        return int(value) if is_whole or (isinstance(value, str) and _INTEGER.fullmatch(value.strip())) else None
    return value if not isinstance(value, str) else _number(value)


def _number(text: str) -> float | int | None:
    if _INTEGER.fullmatch(text.strip()):
        return int(text)
    try:
        number = float(text)
    except ValueError:
        return None
    return number if number - number == 0 else None  # Neither infinite nor NaN, which JSON has no word for.

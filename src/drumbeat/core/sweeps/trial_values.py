"""Formats the values of one trial for its command, its environment variables and messages.

A choice between mappings (branches) gives a mapping. Its keys become parameters beside the others, and the choice
itself has the whole branch as JSON.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import cast

Scalar = bool | int | float | str
Value = Scalar | Mapping[str, "Value"]
Values = Mapping[str, Value]
"""By parameter, in the order of the search space. JSON can hold it."""

MAX_TEXT = 40
"""Characters of a parameter's value in a sentence."""
PREFIX = "AZUREML_SWEEP_"


def texts(values: Values) -> dict[str, str]:
    """Returns each parameter's text, including those of branches: what `${{search_space.x}}` stands for."""
    flat: dict[str, str] = {}
    for name, value in values.items():
        if isinstance(value, Mapping):
            branch = cast("Values", value)
            flat[name] = json.dumps(branch, ensure_ascii=False)
            flat |= texts(branch)
        else:
            flat[name] = str(value)
    return flat


def shorten(text: str) -> str:
    """Shortens a parameter's text for a sentence: a number to four digits, other text to MAX_TEXT characters."""
    try:
        if "." in text or "e" in text:
            return f"{float(text):.4g}"
    except ValueError:
        pass
    return text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]}…"


def variables(values: Values) -> dict[str, str]:
    """Returns the environment variables `AZUREML_SWEEP_<name>` of a trial."""
    return {f"{PREFIX}{name}": text for name, text in texts(values).items()}

"""What a request body must satisfy, stated without a validation library: pydantic reads it, the client doesn't."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Constraint:
    """Limits of a value, as in pydantic's core schema: `Annotated[str, Constraint(max_length=200)]`."""

    def __init__(self, **limits: Any) -> None:
        self._limits = limits

    def __get_pydantic_core_schema__(self, source: Any, handler: Callable[[Any], dict[str, Any]]) -> dict[str, Any]:
        """Called by pydantic when the server builds its models."""
        return {**handler(source), **self._limits}


NO_OTHER_KEYS: dict[str, Any] = {"extra": "forbid"}
"""The configuration of a request body that is refused with a key that isn't one of its fields."""


def limited(description: str = "", *, default: Any = None, **limits: Any) -> dict[str, Any]:
    """Metadata of a field: its description and limits; `default` is shown where the field has a factory."""
    shown = {"json_schema_extra": {"default": default}} if default is not None else {}
    return {**({"description": description} if description else {}), **limits, **shown}

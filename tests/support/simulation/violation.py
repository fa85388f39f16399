"""How an invariant that does not hold is reported."""

from __future__ import annotations


class Violation(AssertionError):
    """An invariant that didn't hold, in words."""


def require(holds: bool, sentence: str) -> None:
    """Raises Violation."""
    if not holds:
        raise Violation(sentence)

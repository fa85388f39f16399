"""Small parts of sentences."""

from __future__ import annotations


def counted(n: int, what: str) -> str:
    """`1 node`, `3 nodes`."""
    return f"{n} {what}" if n == 1 else f"{n} {what}s"

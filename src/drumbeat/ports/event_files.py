"""Readers of TensorBoard's event files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol


class Scalar(NamedTuple):
    """One value of a tag. file: index among the files that were asked for."""

    file: int
    tag: str
    value: float
    step: int
    at_ms: int


class EventReader(Protocol):
    """Reads the scalars of event files."""

    @property
    def is_installed(self) -> bool:
        """Whether the library that reads them is there."""
        ...

    def scalars(self, files: Sequence[Path]) -> Iterator[Scalar]:
        """Yields the scalars, file by file, always in the same order. What can't be read is left out."""
        ...

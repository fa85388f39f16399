"""What the `begin_…` operations return: the work is done when they return, so that nothing is waited for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class LROPoller(Generic[T]):
    """The result of an operation that Azure carries out later, and drumbeat at once."""

    def __init__(self, value: T) -> None:
        self._value = value

    def result(self, timeout: float | None = None) -> T:
        """Returns the result."""
        del timeout
        return self._value

    def wait(self, timeout: float | None = None) -> None:
        """Returns at once."""
        del timeout

    def done(self) -> bool:
        """Returns True."""
        return True

    def status(self) -> str:
        """Returns `Succeeded`."""
        return "Succeeded"

    def add_done_callback(self, func: Callable[[Any], Any]) -> None:
        """Calls it at once."""
        func(self)

"""Which failures are new: what is tried again and again is logged once, until it fails in another way."""

from __future__ import annotations

from collections.abc import Collection, Hashable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)


class RepeatedFailures(Generic[Key]):
    """The last failure of each thing that is tried again. For any thread."""

    def __init__(self) -> None:
        self._last: dict[Key, str] = {}

    def is_new(self, key: Key, error: Exception) -> bool:
        """Notes a failure, and says whether the one before had another text."""
        text = str(error)
        before, self._last[key] = self._last.get(key), text
        return before != text

    def forget(self, key: Key) -> None:
        """Notes that it has succeeded, or isn't tried any more."""
        self._last.pop(key, None)

    def forget_all_but(self, keys: Collection[Key]) -> None:
        """Keeps only what is noted of these."""
        for key in self._last.keys() - set(keys):
            self._last.pop(key, None)

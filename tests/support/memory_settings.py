"""Settings, and what servers agree on, of a store in memory."""

from __future__ import annotations

from tests.support.memory_shelf import Shelf


class MemorySettings:
    """The part of the `Store` port that is about settings."""

    shelf: Shelf

    def agreed(self, name: str, value: str) -> str:
        with self.shelf.lock:
            return self.shelf.facts.setdefault(name, value)

    def setting(self, name: str) -> str:
        with self.shelf.lock:
            return self.shelf.settings.get(name, "")

    def set_setting(self, name: str, value: str) -> None:
        with self.shelf.lock:
            self.shelf.settings[name] = value

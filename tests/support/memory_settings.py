"""Aliases, computes, and what servers agree on, of a store in memory."""

from __future__ import annotations

import copy

from drumbeat.dialect.reading.error_messages import nearest
from drumbeat.protocol.errors import NotFoundError
from tests.support.memory_shelf import Shelf


class MemorySettings:
    """The part of the `Store` port that is about names and settings."""

    shelf: Shelf

    def aliases(self) -> dict[tuple[str, str], str]:
        with self.shelf.lock:
            return dict(self.shelf.names)

    def set_alias(self, kind: str, name: str, target: str | None) -> None:
        with self.shelf.lock:
            if target is not None:
                self.shelf.names[kind, name] = target
            elif self.shelf.names.pop((kind, name), None) is None:
                names = [one for of, one in self.shelf.names if of == kind]
                raise NotFoundError(f"there is no {kind.replace('_', ' ')} alias {name}", fix=nearest(name, names))

    def agreed(self, name: str, value: str) -> str:
        with self.shelf.lock:
            return self.shelf.facts.setdefault(name, value)

    def setting(self, name: str) -> str:
        with self.shelf.lock:
            return self.shelf.settings.get(name, "")

    def set_setting(self, name: str, value: str) -> None:
        with self.shelf.lock:
            self.shelf.settings[name] = value

    def replace_setting(self, name: str, before: str, value: str) -> bool:
        with self.shelf.lock:
            if self.shelf.settings.get(name, "") != before:
                return False
            self.shelf.settings[name] = value
            return True

    def computes(self) -> dict[str, dict[str, object]]:
        with self.shelf.lock:
            return copy.deepcopy(self.shelf.specs)

    def set_compute(self, name: str, spec: dict[str, object] | None) -> None:
        with self.shelf.lock:
            if spec is not None:
                self.shelf.specs[name] = copy.deepcopy(spec)
            elif self.shelf.specs.pop(name, None) is None:
                raise NotFoundError(f"there is no compute {name}")

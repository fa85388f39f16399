"""The `Catalog` port in memory."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field, replace
from threading import RLock

from drumbeat.dialect.reading.error_messages import nearest, no_version
from drumbeat.ports import Resource, Use
from drumbeat.protocol.errors import ConflictError, NotFoundError


@dataclass
class CatalogShelf:
    """What several catalogs see as one database. resources: oldest first. uses: (job, use), oldest first."""

    resources: list[Resource] = field(default_factory=list[Resource])
    uses: list[tuple[str, Use]] = field(default_factory=list[tuple[str, Use]])


class MemoryCatalog:
    """The `Catalog` port over a shelf."""

    def __init__(self, shelf: CatalogShelf, lock: RLock) -> None:
        self._kept, self._lock = shelf, lock

    def add_version(self, resource: Resource) -> tuple[Resource, bool]:
        with self._lock:
            there = self.resources(resource.kind, resource.name)
            if resource.version:
                known = next((one for one in there if one.version == resource.version), None)
                if known and known.digest != resource.digest:
                    raise ConflictError(f"{resource.kind} {resource.name}:{resource.version} is there already")
            else:
                known = there[0] if there and there[0].digest == resource.digest else None
            if known:
                return known, False
            numbers = [int(one.version) for one in there if one.version.isascii() and one.version.isdigit()]
            made = replace(resource, version=resource.version or str(max(numbers, default=0) + 1))
            self._kept.resources.append(copy.deepcopy(made))
            return made, True

    def put_resource(self, resource: Resource) -> bool:
        with self._lock:
            others = [one for one in self._kept.resources if (one.kind, one.name) != (resource.kind, resource.name)]
            is_new = len(others) == len(self._kept.resources)
            self._kept.resources[:] = [*others, copy.deepcopy(resource)]
            return is_new

    def resource(self, kind: str, name: str, version: str = "") -> Resource:
        there = self.resources(kind, name)
        found = next((one for one in there if version in ("", one.version)), None)
        if found is None:
            if not there:
                names = sorted({one.name for one in self.resources(kind)})
                raise NotFoundError(f"there is no {kind} {name}", fix=nearest(name, names))
            what, fix = no_version(kind, name, version, [one.version for one in there])
            raise NotFoundError(what, fix=fix)
        return found

    def resources(self, kind: str, name: str | None = None) -> list[Resource]:
        with self._lock:
            wanted = [one for one in self._kept.resources if one.kind == kind and name in (None, one.name)]
            return copy.deepcopy(wanted[::-1])

    def remove_resource(self, kind: str, name: str, version: str = "") -> None:
        with self._lock:
            found = self.resource(kind, name, version)
            if found.version != version:
                raise NotFoundError(f"there is no {kind} {name}:")
            self._kept.resources.remove(found)

    def users(self, kind: str, name: str, version: str) -> list[tuple[str, str]]:
        with self._lock:
            this = (kind, name, version)
            return [(job, use.role) for job, use in self._kept.uses[::-1] if (use.kind, use.name, use.version) == this]

    def uses(self, job: str) -> list[Use]:
        with self._lock:
            return [use for name, use in self._kept.uses if name == job]

"""The `Catalog` port in memory."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field, replace
from threading import RLock

from drumbeat.dialect.reading.error_messages import nearest, no_version
from drumbeat.ports import Asset, AssetKind, StoredDatastore, StoredRegistry, Use, UsedKind
from drumbeat.protocol.errors import ConflictError, NotFoundError


@dataclass
class CatalogShelf:
    """What several catalogs see as one database. assets: oldest first. uses: (job, use), oldest first."""

    assets: list[Asset] = field(default_factory=list[Asset])
    uses: list[tuple[str, Use]] = field(default_factory=list[tuple[str, Use]])
    datastores: dict[str, StoredDatastore] = field(default_factory=dict[str, StoredDatastore])
    registries: dict[str, StoredRegistry] = field(default_factory=dict[str, StoredRegistry])


class MemoryCatalog:
    """The `Catalog` port over a shelf."""

    def __init__(self, shelf: CatalogShelf, lock: RLock) -> None:
        self._kept, self._lock = shelf, lock

    def add_asset(self, asset: Asset) -> tuple[Asset, bool]:
        with self._lock:
            there = self.assets(asset.kind, asset.name)
            if asset.version:
                known = next((one for one in there if one.version == asset.version), None)
                if known and known.digest != asset.digest:
                    raise ConflictError(f"{asset.kind} {asset.name}:{asset.version} is there already")
            else:
                known = there[0] if there and there[0].digest == asset.digest else None
            if known:
                return known, False
            numbers = [int(one.version) for one in there if one.version.isascii() and one.version.isdigit()]
            made = replace(asset, version=asset.version or str(max(numbers, default=0) + 1))
            self._kept.assets.append(copy.deepcopy(made))
            return made, True

    def asset(self, kind: AssetKind, name: str, version: str = "") -> Asset:
        there = self.assets(kind, name)
        found = next((one for one in there if version in ("", one.version)), None)
        if found is None:
            if not there:
                raise NotFoundError(f"there is no {kind} {name}", fix=self._nearest(kind, name))
            what, fix = no_version(kind, name, version, [one.version for one in there])
            raise NotFoundError(what, fix=fix)
        return found

    def _nearest(self, kind: AssetKind, name: str) -> str:
        return nearest(name, sorted({one.name for one in self.assets(kind)}))

    def assets(self, kind: AssetKind, name: str | None = None) -> list[Asset]:
        with self._lock:
            wanted = [one for one in self._kept.assets if one.kind == kind and name in (None, one.name)]
            return copy.deepcopy(wanted[::-1])

    def remove_asset(self, kind: AssetKind, name: str, version: str) -> None:
        with self._lock:
            if not version:
                raise NotFoundError(f"there is no {kind} {name}:")
            there = self.asset(kind, name, version)
            self._kept.assets.remove(there)

    def users(self, kind: UsedKind, name: str, version: str) -> list[tuple[str, str]]:
        with self._lock:
            this = (kind, name, version)
            return [(job, use.role) for job, use in self._kept.uses[::-1] if (use.kind, use.name, use.version) == this]

    def uses(self, job: str) -> list[Use]:
        with self._lock:
            return [use for name, use in self._kept.uses if name == job]

    def datastores(self) -> dict[str, StoredDatastore]:
        with self._lock:
            return copy.deepcopy(dict(sorted(self._kept.datastores.items())))

    def set_datastore(self, name: str, datastore: StoredDatastore | None) -> None:
        with self._lock:
            if datastore is not None:
                self._kept.datastores[name] = copy.deepcopy(datastore)
            elif self._kept.datastores.pop(name, None) is None:
                raise NotFoundError(f"there is no datastore {name}")

    def registries(self) -> dict[str, StoredRegistry]:
        with self._lock:
            return copy.deepcopy(dict(sorted(self._kept.registries.items())))

    def set_registry(self, name: str, registry: StoredRegistry | None) -> None:
        with self._lock:
            if registry is not None:
                self._kept.registries[name] = copy.deepcopy(registry)
            elif self._kept.registries.pop(name, None) is None:
                raise NotFoundError(f"there is no registry {name}")

"""What jobs refer to by name: versions of environments and data, datastores, and the registries of images."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, Protocol

AssetKind = Literal["environment", "data", "component"]
UsedKind = Literal["environment", "data", "component", "step", "place"]
"""What jobs name: assets; by its reuse key the result of a step, which has no asset; the places of their outputs."""


@dataclass(frozen=True)
class Asset:
    """One version of a named thing; it never changes.

    version: "" where the catalog is to count one. document: what it is, as JSON-able values. digest: of its content;
    the same content has the same. made_by: the job whose output it is, "" = a person registered it.
    """

    kind: AssetKind
    name: str
    version: str
    document: dict[str, object]
    digest: str
    created_at: datetime
    made_by: str = ""


@dataclass(frozen=True)
class Use:
    """A job names an asset. role: what for, as the job calls it (`inputs.data`, `environment`)."""

    kind: UsedKind
    name: str
    version: str
    role: str


@dataclass(frozen=True)
class StoredDatastore:
    """A datastore as kept. document: what a person wrote, without credentials. sealed: these, encrypted; b"" = none."""

    name: str
    document: dict[str, object]
    sealed: bytes = field(default=b"", repr=False)


@dataclass(frozen=True)
class StoredRegistry:
    """A registry of images as kept: `StoredDatastore` says the rest."""

    name: str
    document: dict[str, object]
    sealed: bytes = field(default=b"", repr=False)


class Catalog(Protocol):
    """Versioned assets, datastores and registries. What a call has returned from is durable."""

    def add_asset(self, asset: Asset) -> tuple[Asset, bool]:
        """Keeps a version; (it, True).

        Without a version: the whole number after the highest one of that name, unless the newest version has this
        digest: then that one is the answer, and False. A version that there is with the same digest is the answer,
        too; with another it raises ConflictError.
        """
        ...

    def asset(self, kind: AssetKind, name: str, version: str = "") -> Asset:
        """One version; "" = the newest. Raises NotFoundError, which names what there is."""
        ...

    def assets(self, kind: AssetKind, name: str | None = None) -> list[Asset]:
        """All versions, of one name or of all, newest first."""
        ...

    def remove_asset(self, kind: AssetKind, name: str, version: str) -> None:
        """Takes a version out; its number isn't given again while a newer one is there. Raises NotFoundError."""
        ...

    def users(self, kind: UsedKind, name: str, version: str) -> list[tuple[str, str]]:
        """(job, role) of the jobs that named the version, newest first."""
        ...

    def uses(self, job: str) -> list[Use]:
        """The assets that a job named when it was submitted."""
        ...

    def datastores(self) -> dict[str, StoredDatastore]:
        """Those that people have made, by name."""
        ...

    def set_datastore(self, name: str, datastore: StoredDatastore | None) -> None:
        """Keeps a datastore, or removes it (None). Removing one that isn't there raises NotFoundError."""
        ...

    def registries(self) -> dict[str, StoredRegistry]:
        """Those that people have made, by name."""
        ...

    def set_registry(self, name: str, registry: StoredRegistry | None) -> None:
        """Keeps a registry, or removes it (None). Removing one that isn't there raises NotFoundError."""
        ...

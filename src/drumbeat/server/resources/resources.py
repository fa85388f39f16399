"""The service of the resources of one kind: create, list, show, delete, and decrypt for the server's own use.

Secrets are decrypted only here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Generic, TypeVar, cast

from drumbeat.jobfile.reading.error_messages import nearest
from drumbeat.model.errors import NotFoundError
from drumbeat.resources.kind import Kind, StoredResource
from drumbeat.server.database import SqlStore
from drumbeat.server.resources.records import Resource
from drumbeat.server.resources.sealing import Seal

V = TypeVar("V")


class ResourceService(Generic[V]):
    """Manages the resources of a kind. Thread-safe.

    Kinds with which the server does more have a subclass.
    """

    def __init__(self, kind: Kind[V], catalog: SqlStore, key: bytes) -> None:
        self.kind, self._catalog, self._seal = kind, catalog, Seal(key, kind.noun)

    # --- for users --------------------------------------------------------------------------------------------
    def list(self) -> list[V]:
        """Returns all resources, by name, without secrets."""
        return [self._view(one) for one in self._stored().values()]

    def show(self, name: str) -> V:
        """Returns one resource without secrets. Raises NotFoundError."""
        return self._view(self._one(name))

    def create(self, document: Mapping[str, object], source: str) -> tuple[V, bool]:
        """Stores a resource, or replaces the one of its name. Returns it, and whether it is new.

        Raises SpecError.
        """
        from drumbeat.jobfile.data.credentials import split

        kept, secrets = split(self.kind.read(document, source))
        name = str(kept["name"])
        sealed = self._seal.close(self.kind.sealed_for(kept), secrets)
        is_new = self._catalog.put_resource(Resource(self.kind.name, name, document=kept, sealed=sealed))
        return self.show(name), is_new

    def delete(self, name: str) -> None:
        """Deletes a resource with its secrets. Raises NotFoundError."""
        self._one(name)
        self._catalog.remove_resource(self.kind.name, name)

    # --- for the server ---------------------------------------------------------------------------------------
    def names(self) -> Sequence[str]:
        """Returns the names of all resources."""
        return list(self._stored())

    def documents(self) -> dict[str, Mapping[str, Any]]:
        """Returns the documents of all resources, by name, without secrets."""
        return {name: one.document for name, one in self._stored().items()}

    def opened(self, name: str) -> Any:
        """Returns the model of a resource with its secrets. Raises NotFoundError; StorageError if decryption fails."""
        return self._open(self._one(name))

    def _view(self, one: Resource) -> V:
        has_secrets, at = bool(one.sealed), one.created_at
        opened = partial(self._open, one)
        return self.kind.view(
            StoredResource(name=one.name, document=one.document, created_at=at, has_secrets=has_secrets, open=opened)
        )

    def _open(self, one: Resource) -> Any:
        secrets = self._seal.open(self.kind.sealed_for(one.document), one.sealed)
        return cast("Any", self.kind.join(one.document, secrets))

    def _one(self, name: str) -> Resource:
        stored = self._stored()
        if name not in stored:
            noun, names = self.kind.noun, self.names()
            fix = nearest(name, names) or f"Create it: drumbeat {self.kind.name} create -f FILE"
            listing = f"; known: {', '.join(names)}" if names else ""
            raise NotFoundError(f"there is no {noun} {name}{listing}", fix=fix)
        return stored[name]

    def _stored(self) -> dict[str, Resource]:
        return {one.name: one for one in sorted(self._catalog.resources(self.kind.name), key=lambda one: one.name)}

"""The service of one kind with versions: create, list, show, archive, delete. A version's content never changes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Generic, TypeVar

from drumbeat.ports.clock import Clock
from drumbeat.resources.kind import Kind, StoredResource
from drumbeat.server.database import SqlStore
from drumbeat.server.resources.records import Resource

V = TypeVar("V")


class VersionService(Generic[V]):
    """Manages the versions of a kind. Thread-safe. An archived version is hidden from lists; jobs can still use it.

    Its views have `same_as`, another version with the same content, set when one was just created.
    """

    def __init__(self, kind: Kind[V], catalog: SqlStore, clock: Clock) -> None:
        self.kind, self._catalog, self._clock = kind, catalog, clock

    def list(self, name: str | None = None, *, archived: bool = False) -> Sequence[V]:
        """Returns all versions of all names or of one, newest first. archived: archived ones, too."""
        listed = self._catalog.resources(self.kind.name, name)
        return [self._view(one) for one in listed if archived or not one.is_archived]

    def show(self, name: str, version: str = "") -> V:
        """Returns one version, "" = the newest that isn't archived. Raises NotFoundError."""
        return self._view(self._catalog.resource(self.kind.name, name, version))

    def create(self, document: Mapping[str, Any], source: str) -> tuple[V, bool]:
        """Stores a version. Returns it, and whether it is new. Idempotent for the content of the newest version.

        Raises SpecError; ConflictError if the version exists with other content.
        """
        kept = self.kind.read(document, source).model_dump(mode="json", exclude_none=True)
        return self._keep(str(kept.pop("name")), str(kept.pop("version", "")), kept)

    def set_archived(self, name: str, version: str = "", *, is_archived: bool) -> Sequence[V]:
        """Hides a version, or all of a name (""), from lists, or shows it again. Raises NotFoundError."""
        kind = self.kind.name
        changed = self._catalog.archive_versions(kind, name, version, is_archived=is_archived)
        return [self._view(one) for one in changed]

    def delete(self, name: str, version: str) -> None:
        """Deletes a version; jobs that use it continue. Raises NotFoundError."""
        self._catalog.remove_resource(self.kind.name, name, version)

    def _keep(self, name: str, version: str, document: dict[str, Any]) -> tuple[V, bool]:
        digest = hashlib.sha256(json.dumps(document, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
        sent = Resource(self.kind.name, name, version, document, digest, self._clock.now())
        made, is_new = self._catalog.add_version(sent)
        view: Any = self._view(made)
        return replace(view, same_as=twin(made, self._catalog)), is_new

    def _view(self, one: Resource) -> V:
        return self.kind.view(
            StoredResource(
                name=one.name,
                version=one.version,
                document=one.document,
                created_at=one.created_at,
                is_archived=one.is_archived,
                open=lambda: self.kind.read({**one.document, "name": one.name, "version": one.version}),
                jobs=lambda: self._jobs(one),
            )
        )

    def _jobs(self, one: Resource) -> tuple[str, ...]:
        """Returns the jobs that were submitted with a version, newest first."""
        return tuple(dict.fromkeys(job for job, _ in self._catalog.users(self.kind.name, one.name, one.version)))


def twin(version: Resource, catalog: SqlStore) -> str:
    """Returns the newest other version of the name with identical content, "" = none."""
    others = (one for one in catalog.resources(version.kind, version.name) if one.version != version.version)
    return next((one.version for one in others if one.digest == version.digest), "")

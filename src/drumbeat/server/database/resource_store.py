"""The part of the store with named things: resources, their versions, models, and which jobs use them."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, TypeVar

from sqlalchemy import Connection

from drumbeat.model.errors import ConflictError
from drumbeat.server.database.leased_database import LeasedDatabase
from drumbeat.server.models import tables as models
from drumbeat.server.resources import tables as resources
from drumbeat.server.resources.records import Resource, Use

T = TypeVar("T")


class ResourceStore(LeasedDatabase):
    """Keeps resources, with or without versions."""

    def resources(self, kind: str, name: str | None = None) -> list[Resource]:
        """Those of a kind, all versions, of one name or of all: the newest first."""
        with self._database.read() as connection:
            return resources.versions(connection, kind, name)

    def resource(self, kind: str, name: str, version: str = "") -> Resource:
        """One of them, "" = the newest version. Raises NotFoundError, which names what there is."""
        with self._database.read() as connection:
            return resources.one(connection, kind, name, version)

    def add_version(self, resource: Resource) -> tuple[Resource, bool]:
        """Keeps a version; (it, True).

        Without a version: the whole number after the highest one of that name, unless the newest version has this
        digest: then that one is the answer, and False. A version that exists with the same digest is the answer, too;
        with another it raises ConflictError.
        """
        return self._write_again(lambda connection: resources.add(connection, resource))

    def put_resource(self, resource: Resource) -> bool:
        """Keeps a resource without versions, in place of the one of its name; returns whether there was none."""
        return self._write_again(lambda connection: resources.put(connection, resource))

    def _write_again(self, write: Callable[[Connection], T]) -> T:
        try:
            with self._write() as connection:
                return write(connection)
        except ConflictError:
            # Where writers run side by side, another one may have inserted the same row in between.
            with self._write() as connection:
                return write(connection)

    def archive_versions(self, kind: str, name: str, version: str = "", *, is_archived: bool) -> list[Resource]:
        """Has lists leave out a version, or all versions of a name (""), or show them again. Returns them.

        Raises NotFoundError.
        """
        with self._write() as connection:
            return resources.archive(connection, kind, name, version, is_archived=is_archived)

    def remove_resource(self, kind: str, name: str, version: str = "") -> None:
        """Removes one. The number of a version isn't given again while a newer one exists. Raises NotFoundError."""
        with self._write() as connection:
            resources.remove(connection, kind, name, version)

    def change_resource(
        self, kind: str, name: str, version: str, change: Callable[[dict[str, Any]], dict[str, Any]]
    ) -> Resource:
        """Replaces the document of a resource by the result of `change`, which must be pure. Raises NotFoundError."""
        with self._write() as connection:
            return models.change(connection, (kind, name, version), change)

    def add_model(self, version: Resource, shared: dict[str, Any]) -> tuple[Resource, bool]:
        """Keeps a version of a model; (it, True). shared: the document of its name, if that is new.

        Without a version: the number after the highest that the name ever had. A version that exists with the same
        digest is the answer, and False; with another it raises ConflictError.
        """
        return self._write_again(lambda connection: models.add(connection, version, shared))

    def rename_model(self, name: str, new_name: str) -> None:
        """Gives all versions of a model another name. Raises ConflictError if a model has it."""
        with self._write() as connection:
            models.rename(connection, name, new_name)

    def remove_models(self, kinds: Collection[str], name: str, version: str | None = None) -> int:
        """Removes the rows of these kinds with a name, of one version or of all (None). Returns how many there were."""
        with self._write() as connection:
            return models.remove(connection, kinds, name, version)

    def users(self, kind: str, name: str, version: str) -> list[tuple[str, str]]:
        """(job, role) of the jobs that named the version, newest first."""
        with self._database.read() as connection:
            return resources.users(connection, kind, name, version)

    def uses(self, job: str) -> list[Use]:
        """What a job named when it was submitted."""
        with self._database.read() as connection:
            return resources.uses(connection, job)

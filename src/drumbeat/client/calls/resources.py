"""The calls of `Client` that are about named things: four for every kind, and the same by the names of some kinds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from drumbeat.client.connection import Connection, part
from drumbeat.client.responses import view, views
from drumbeat.protocol.api.data import DatastoreView
from drumbeat.protocol.api.environments import RegistryView
from drumbeat.protocol.api.notices import NoticeTargetView
from drumbeat.resources.datastore import DATASTORE
from drumbeat.resources.kind import Kind
from drumbeat.resources.notice_target import NOTICE_TARGET
from drumbeat.resources.registry import REGISTRY

if TYPE_CHECKING:
    from drumbeat.dialect.reading.frozen_model import Model

    Given = str | Path | Mapping[str, Any] | Model

V = TypeVar("V")


class ResourceCalls:
    """A part of `Client`."""

    connection: Connection

    # --- of every kind ----------------------------------------------------------------------------------------
    def resources(self, kind: Kind[V]) -> list[V]:
        """Those of a kind, by name."""
        return views(kind.view_type, self.connection.call("GET", f"/{kind.path}"))

    def resource(self, kind: Kind[V], name: str) -> V:
        """One of them. Raises NotFoundError."""
        return view(kind.view_type, self.connection.call("GET", f"/{kind.path}/{part(name)}"))

    def create_resource(self, kind: Kind[V], given: Given, *, sets: Sequence[str] = (), **more: object) -> V:
        """Creates a resource, in place of the one of its name: the path of a file, or one made in Python.

        Under `credentials`, `env:NAME` stands for a variable of this process, `file:PATH` for a file here. sets:
        `key=value`, changed in the file before it is read. more: other keys of the request. Raises SpecError.
        """
        from drumbeat.client.resource_files import described

        document, source = described(kind, given, sets)
        body = {"document": document, "source": source, **more}
        return view(kind.view_type, self.connection.call("POST", f"/{kind.path}", json=body))

    def delete_resource(self, kind: Kind[V], name: str) -> None:
        """Deletes a resource with its secrets. Raises NotFoundError."""
        self.connection.call("DELETE", f"/{kind.path}/{part(name)}")

    # --- registries of images ---------------------------------------------------------------------------------
    def registries(self) -> list[RegistryView]:
        """The registries, by name."""
        return self.resources(REGISTRY)

    def registry(self, name: str) -> RegistryView:
        """One of them. Raises NotFoundError."""
        return self.resource(REGISTRY, name)

    def create_registry(self, registry: Given, *, sets: Sequence[str] = ()) -> RegistryView:
        """As `create_resource`."""
        return self.create_resource(REGISTRY, registry, sets=sets)

    def delete_registry(self, name: str) -> None:
        """Deletes a registry and its credentials. Raises NotFoundError."""
        self.delete_resource(REGISTRY, name)

    # --- notice targets ---------------------------------------------------------------------------------------
    def notice_targets(self) -> list[NoticeTargetView]:
        """Where the server reports the ends of jobs, by name."""
        return self.resources(NOTICE_TARGET)

    def notice_target(self, name: str) -> NoticeTargetView:
        """One of them. Raises NotFoundError."""
        return self.resource(NOTICE_TARGET, name)

    def create_notice_target(self, target: Given, *, sets: Sequence[str] = ()) -> NoticeTargetView:
        """As `create_resource`."""
        return self.create_resource(NOTICE_TARGET, target, sets=sets)

    def delete_notice_target(self, name: str) -> None:
        """Deletes a notice target. Raises NotFoundError."""
        self.delete_resource(NOTICE_TARGET, name)

    def test_notice_target(self, name: str) -> NoticeTargetView:
        """Delivers a test notice. Raises NotFoundError, UnreachableError, RefusedError."""
        return view(NoticeTargetView, self.connection.call("POST", f"/notices/{part(name)}/test"))

    # --- datastores -------------------------------------------------------------------------------------------
    def datastores(self) -> list[DatastoreView]:
        """The datastores, by name."""
        return self.resources(DATASTORE)

    def datastore(self, name: str) -> DatastoreView:
        """One of them; `default` is the default one. Raises NotFoundError."""
        return self.resource(DATASTORE, name)

    def create_datastore(self, datastore: Given, *, sets: Sequence[str] = (), check: bool = True) -> DatastoreView:
        """As `create_resource`. check: the store is asked first, and nothing is kept when it doesn't answer.

        Raises what the store says, too.
        """
        return self.create_resource(DATASTORE, datastore, sets=sets, check=check)

    def delete_datastore(self, name: str) -> None:
        """Deletes the entry of a datastore; what lies in it stays. Raises NotFoundError."""
        self.delete_resource(DATASTORE, name)

"""The calls of `Client` that are about named things: four for every kind, and the same by the names of some kinds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from drumbeat.client import job_upload
from drumbeat.client.connection import Connection, part
from drumbeat.client.responses import view, views
from drumbeat.model import wire
from drumbeat.model.api.components import ComponentView
from drumbeat.model.api.data import DatastoreView, DataView
from drumbeat.model.api.environments import EnvironmentView, RegistryView
from drumbeat.model.api.notices import NoticeTargetView
from drumbeat.resources.component import COMPONENT
from drumbeat.resources.data import DATA
from drumbeat.resources.datastore import DATASTORE
from drumbeat.resources.environment import ENVIRONMENT
from drumbeat.resources.kind import Kind
from drumbeat.resources.notice_target import NOTICE_TARGET
from drumbeat.resources.registry import REGISTRY

if TYPE_CHECKING:
    from drumbeat.client.environment_files import GivenEnvironment
    from drumbeat.jobfile.pipelines.component_file import Component
    from drumbeat.jobfile.reading.model import Model

    Given = str | Path | Mapping[str, Any] | Model
    GivenComponent = str | Path | Mapping[str, Any] | Component

V = TypeVar("V")


def _path(kind: Kind[Any], name: str, version: str) -> str:
    return f"/{kind.path}/{part(name)}" + (f"/versions/{part(version)}" if version else "")


class ResourceCalls:
    """A part of `Client`."""

    connection: Connection

    # --- of every kind ----------------------------------------------------------------------------------------
    def resources(self, kind: Kind[V], name: str | None = None, *, archived: bool = False) -> list[V]:
        """Those of a kind, by name; of a kind with versions every one, newest first.

        name: only its versions. archived: archived versions, too.
        """
        params = {**({"name": name} if name else {}), **({"archived": True} if archived else {})}
        return views(kind.view_type, self.connection.call("GET", f"/{kind.path}", params=params))

    def resource(self, kind: Kind[V], name: str, version: str = "") -> V:
        """One of them. version: of a kind with versions; "" = the newest that isn't archived. Raises NotFoundError."""
        return view(kind.view_type, self.connection.call("GET", _path(kind, name, version)))

    def create_resource(self, kind: Kind[V], given: Given, *, sets: Sequence[str] = (), **more: object) -> V:
        """Creates a resource, in place of the one of its name: the path of a file, or one made in Python.

        Under `credentials`, `env:NAME` stands for a variable of this process, `file:PATH` for a file here. sets:
        `key=value`, changed in the file before it is read. more: other keys of the request. Raises SpecError.
        """
        from drumbeat.client.resource_files import described

        document, source = described(kind, given, sets)
        body = {"document": document, "source": source, **more}
        return view(kind.view_type, self.connection.call("POST", f"/{kind.path}", json=body))

    def delete_resource(self, kind: Kind[V], name: str, version: str = "") -> None:
        """Deletes a resource with its secrets; of a kind with versions one of them. Raises NotFoundError."""
        self.connection.call("DELETE", _path(kind, name, version))

    def archive_resource(self, kind: Kind[V], name: str, version: str = "") -> None:
        """Hides a version, or all versions of a name (""), from lists; jobs can still use it. Raises NotFoundError."""
        self.connection.call("POST", f"{_path(kind, name, version)}/archive")

    def restore_resource(self, kind: Kind[V], name: str, version: str = "") -> None:
        """Shows an archived version, or all of a name, in lists again. Raises NotFoundError."""
        self.connection.call("POST", f"{_path(kind, name, version)}/restore")

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

    # --- data -------------------------------------------------------------------------------------------------
    def data(self, name: str | None = None, *, archived: bool = False) -> list[DataView]:
        """The newest version of each name; with a name, all versions of it, the newest first. archived: these too."""
        return self.resources(DATA, name, archived=archived)

    def get_data(self, name: str, version: str = "") -> DataView:
        """One version, "" = the newest that isn't archived, with the jobs that used it. Raises NotFoundError."""
        return self.resource(DATA, name, version)

    def archive_data(self, name: str, version: str = "") -> None:
        """As `archive_resource`."""
        self.archive_resource(DATA, name, version)

    def restore_data(self, name: str, version: str = "") -> None:
        """As `restore_resource`."""
        self.restore_resource(DATA, name, version)

    def delete_data(self, name: str, version: str) -> None:
        """Forgets a version; its content stays. Raises NotFoundError."""
        self.delete_resource(DATA, name, version)

    # --- environments -----------------------------------------------------------------------------------------
    def environments(
        self, name: str | None = None, *, curated: bool = False, archived: bool = False
    ) -> list[EnvironmentView]:
        """Every version of what users made, or of one of them, newest first; or those that drumbeat brings.

        archived: archived versions, too.
        """
        params = {"curated": curated, **({"name": name} if name else {}), **({"archived": True} if archived else {})}
        return views(EnvironmentView, self.connection.call("GET", "/environments", params=params))

    def environment(self, name: str, version: str = "") -> EnvironmentView:
        """One version, "" = the newest that isn't archived; the curated one where no user made one.

        Raises NotFoundError.
        """
        return self.resource(ENVIRONMENT, name, version)

    def create_environment(self, environment: GivenEnvironment, *, sets: Sequence[str] = ()) -> EnvironmentView:
        """Makes a version of an environment: the path of a file, or one made in Python. The same again is the same one.

        sets: `key=value`, changed in the file before it is read. Raises SpecError, with the line in the conda file or
        the requirements; RefusedError for what can't be made here; ConflictError when the version has other content.
        """
        from drumbeat.client.environment_files import given

        body = given(environment, sets, partial(job_upload.snapshot_digest, self.connection))
        return view(EnvironmentView, self.connection.call("POST", "/environments", json=body))

    def archive_environment(self, name: str, version: str = "") -> None:
        """As `archive_resource`. Raises RefusedError for one that drumbeat brings."""
        self.archive_resource(ENVIRONMENT, name, version)

    def restore_environment(self, name: str, version: str = "") -> None:
        """As `restore_resource`."""
        self.restore_resource(ENVIRONMENT, name, version)

    def delete_environment(self, name: str, version: str) -> None:
        """Forgets a version; jobs that have it go on. Raises NotFoundError."""
        self.delete_resource(ENVIRONMENT, name, version)

    # --- components -------------------------------------------------------------------------------------------
    def components(self, name: str | None = None, *, archived: bool = False) -> list[ComponentView]:
        """Every version of every registered component, or of one, newest first. archived: archived versions, too."""
        return self.resources(COMPONENT, name, archived=archived)

    def component(self, name: str, version: str = "") -> ComponentView:
        """One version, "" = the newest that isn't archived. Raises NotFoundError."""
        return self.resource(COMPONENT, name, version)

    def create_component(self, component: GivenComponent, *, sets: Sequence[str] = ()) -> ComponentView:
        """Registers a version of a component: the path of a file, or one made in Python.

        The code, the files of its environment, and local data at its inputs' `path` are sent with it. sets:
        `key=value`, changed in the file before it is read. Raises SpecError; ConflictError when the version has other
        content.
        """
        from drumbeat.client.component_files import inline_component, load_component_origin
        from drumbeat.client.step_files import send_inlined

        document, origin = load_component_origin(component, sets)
        sent = send_inlined(inline_component(document, origin), self.connection, is_sending=True, is_kept=True)
        body = {"document": sent.document, "parts": wire.to_wire(sent.parts), "source": origin.source}
        return view(ComponentView, self.connection.call("POST", "/components", json=body))

    def archive_component(self, name: str, version: str = "") -> None:
        """As `archive_resource`."""
        self.archive_resource(COMPONENT, name, version)

    def restore_component(self, name: str, version: str = "") -> None:
        """As `restore_resource`."""
        self.restore_resource(COMPONENT, name, version)

    def delete_component(self, name: str, version: str) -> None:
        """Deletes a version; jobs that have it continue. Raises NotFoundError."""
        self.delete_resource(COMPONENT, name, version)

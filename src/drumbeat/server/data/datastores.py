"""Datastores: those that users create, and the server's built-in folders.

Credentials are decrypted only here, and only for code that reads and writes data.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, cast

from drumbeat.jobfile.data.paths import StoreReference
from drumbeat.jobfile.reading.error_messages import short
from drumbeat.model.api.data import DatastoreView
from drumbeat.model.errors import ConflictError, DrumbeatError, SpecError
from drumbeat.resources.datastore import DATASTORE, DEFAULT
from drumbeat.resources.kind import StoredResource
from drumbeat.server.database import SqlStore
from drumbeat.server.resources.records import Resource
from drumbeat.server.resources.resources import ResourceService

if TYPE_CHECKING:
    from drumbeat.jobfile.data.datastores import Datastore, FolderDatastore

log = logging.getLogger(__name__)

ALWAYS_THERE = (DEFAULT, "workspaceartifactstore")
"""Built-in folders of the server, each until a user creates a datastore of its name."""

ALIAS = "default"

WHOLE = "it can't be listed: "
"""The beginning of the stores' messages about the root of a datastore."""

LONG = 12
"""A secret of at least this length doesn't occur in another text by accident."""


class Datastores(ResourceService[DatastoreView]):
    """Manages datastores. folder: the server's folder in which the built-in ones are."""

    def __init__(self, catalog: SqlStore, key: bytes, folder: str = "") -> None:
        super().__init__(DATASTORE, catalog, key)
        self._folder, self._trying = folder, threading.local()
        self._known: dict[str, tuple[Resource, Datastore]] = {}
        """Decrypted datastores with their sources, cached because they are needed for every file."""
        self.ask: Callable[[str], object] | None = None
        """Reads the root of a datastore to see whether it answers; None = datastores aren't checked."""
        self.require_unused: Callable[[str], None] = lambda _: None
        """Raises ConflictError if a datastore can't be deleted yet."""

    def all(self) -> dict[str, Datastore]:
        """Returns every usable datastore with its credentials, only for code that reads and writes data."""
        datastores: dict[str, Datastore] = self._always_there()
        for name, stored in self._stored().items():
            try:
                datastores[name] = self._open(stored)
            except DrumbeatError as error:  # One unusable datastore mustn't affect the others.
                log.warning("datastore %s can't be used: %s", name, error)
        datastores |= getattr(self._trying, "there", {})
        return {**datastores, **({ALIAS: datastores[DEFAULT]} if DEFAULT in datastores else {})}

    def names(self) -> Sequence[str]:
        """Returns the names of all datastores."""
        return sorted({*self._always_there(), *self._stored()})

    def folders(self) -> list[str]:
        """Returns the names of datastores that are folders of the server's machine."""
        made = self._stored()
        own = [name for name in self._always_there() if name not in made]
        return sorted([*own, *(name for name, one in made.items() if one.document.get("type") == "folder")])

    def why_read_only(self, name: str) -> str:
        """Returns why a datastore is known to be read-only, without contacting it; "" = it may be writable."""
        from drumbeat.jobfile.data.datastores import why_read_only

        datastore = self.all().get(name)
        return why_read_only(datastore) if datastore else ""

    def without_secrets(self, environment: Mapping[str, str]) -> dict[str, str]:
        """Returns an environment without the variables that contain a datastore's secret.

        The server may have been started from the shell whose variable a datastore's `env:NAME` named.
        """
        from drumbeat.jobfile.data.datastores import secret_texts

        secrets = {one for store in self.all().values() for one in secret_texts(store)}
        return {name: value for name, value in environment.items() if not _holds(value, secrets)}

    def list(self) -> list[DatastoreView]:
        made, own = self._stored(), self._always_there()
        return [self._view(made[name]) if name in made else self._own_view(own[name]) for name in self.names()]

    def show(self, name: str) -> DatastoreView:
        """Returns one datastore; `default` is the one for data without a named datastore. Raises NotFoundError."""
        title, own = DEFAULT if name == ALIAS else name, self._always_there()
        if title in self._stored():
            return super().show(title)
        return self._own_view(own[title]) if title in own else super().show(name)

    def _own_view(self, own: Datastore) -> DatastoreView:
        view = self.kind.view(StoredResource(name=own.name, document={}, open=lambda: own))
        return replace(view, is_builtin=True)

    def create(self, document: Mapping[str, object], source: str, *, check: bool = True) -> tuple[DatastoreView, bool]:
        """Creates a datastore like other resources. check: only if the store answers; raises what the store raises."""
        made = cast("Datastore", self.kind.read(document, source))
        if made.name == ALIAS:
            raise SpecError(f"`{ALIAS}` means {DEFAULT}", where=f"{source}.name", fix=f"Use {DEFAULT} or another name.")
        if (folder := _folder(made)) is not None and not folder.is_absolute:
            what = f"`{short(folder.path)}` is a relative path"
            raise SpecError(what, where=f"{source}.path", fix="Give an absolute path.")
        if check and self.ask:
            self._try(made, source, self.ask)
        return super().create(document, source)

    def _try(self, made: Datastore, source: str, ask: Callable[[str], object]) -> None:
        """Contacts the store of a new datastore, which only this thread can see until then."""
        self._trying.there = {made.name: made}
        try:
            ask(StoreReference(made.name).uri)
        except DrumbeatError as error:
            what = f"datastore {made.name} can't be reached: {error.what.removeprefix(WHOLE)}"
            fix = f"{error.fix} To create it without this check: --no-check".strip()
            folder = _folder(made)
            where = f"{source}.path: {folder.path}" if folder else source
            raise type(error)(what, where=where, fix=fix) from error
        finally:
            del self._trying.there

    def delete(self, name: str) -> None:
        """Deletes a datastore, but not its content. Raises NotFoundError; ConflictError for a built-in one, and while
        outputs of ended jobs have yet to be published there.
        """
        if name in (*ALWAYS_THERE, ALIAS) and name not in self._stored():
            raise ConflictError(f"datastore {name} is a built-in folder of the server and can't be deleted")
        self.require_unused(name)
        super().delete(name)

    def _open(self, one: Resource) -> Datastore:
        entry = self._known.get(one.name)
        if entry is None or entry[0] != one:
            entry = self._known[one.name] = one, super()._open(one)
        return entry[1]

    def _always_there(self) -> dict[str, Datastore]:
        from drumbeat.jobfile.data.datastores import FolderDatastore

        if not self._folder:
            return {}
        return {name: FolderDatastore(name=name, path=f"{self._folder}/{name}") for name in ALWAYS_THERE}


def _folder(made: Datastore) -> FolderDatastore | None:
    from drumbeat.jobfile.data.datastores import FolderDatastore

    return made if isinstance(made, FolderDatastore) else None


def _holds(value: str, secrets: Iterable[str]) -> bool:
    """Whether a text is a secret or contains a long one."""
    return any(value.strip() == one or (len(one) >= LONG and one in value) for one in secrets)

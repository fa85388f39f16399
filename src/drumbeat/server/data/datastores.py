"""The datastores that there are: those that people make, and the folders that are always there.

Only here are credentials opened, and only for those who read and write data.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, cast

from drumbeat.jobfile.data.paths import InStore
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
"""Folders of the server's own, until a person makes a datastore of that name."""

ALIAS = "default"

WHOLE = "it can't be listed: "
"""What the stores say first of the address of all of them."""

LONG = 12
"""So many characters are in another text by no accident."""


class Datastores(ResourceService[DatastoreView]):
    """By name. folder: the server's own, below which those that are always there lie."""

    def __init__(self, catalog: SqlStore, key: bytes, folder: str = "") -> None:
        super().__init__(DATASTORE, catalog, key)
        self._folder, self._trying = folder, threading.local()
        self._known: dict[str, tuple[Resource, Datastore]] = {}
        """What was opened, and what from: it is asked for with every file."""
        self.ask: Callable[[str], object] | None = None
        """Reads the address of a whole datastore, to see whether it answers; None = they aren't asked."""
        self.require_unused: Callable[[str], None] = lambda _: None
        """Raises ConflictError where a datastore can't be deleted yet."""

    def all(self) -> dict[str, Datastore]:
        """Every one that can be read, with its credentials: for those who reach data, and for nobody else."""
        found: dict[str, Datastore] = self._always_there()
        for name, stored in self._stored().items():
            try:
                found[name] = self._open(stored)
            except DrumbeatError as error:  # It mustn't take the others along.
                log.warning("datastore %s can't be used: %s", name, error)
        found |= getattr(self._trying, "there", {})
        return {**found, **({ALIAS: found[DEFAULT]} if DEFAULT in found else {})}

    def names(self) -> Sequence[str]:
        """Of all of them."""
        return sorted({*self._always_there(), *self._stored()})

    def folders(self) -> list[str]:
        """Of those that are folders of the server's machine."""
        made = self._stored()
        own = [name for name in self._always_there() if name not in made]
        return sorted([*own, *(name for name, one in made.items() if one.document.get("type") == "folder")])

    def why_read_only(self, name: str) -> str:
        """Why nothing can be written to one of them, as far as it is known without asking it; "" = it may be."""
        from drumbeat.jobfile.data.datastores import why_read_only

        found = self.all().get(name)
        return why_read_only(found) if found else ""

    def without_secrets(self, environment: Mapping[str, str]) -> dict[str, str]:
        """What of an environment may be handed on: no variable that holds what a datastore keeps.

        The server may have been started from the shell that a datastore's `env:NAME` was read from.
        """
        from drumbeat.jobfile.data.datastores import secrets_of

        secrets = {one for store in self.all().values() for one in secrets_of(store)}
        return {name: value for name, value in environment.items() if not _holds(value, secrets)}

    def list(self) -> list[DatastoreView]:
        made, own = self._stored(), self._always_there()
        return [self._view(made[name]) if name in made else self._own_view(own[name]) for name in self.names()]

    def show(self, name: str) -> DatastoreView:
        """One of them; `default` is the one where data goes for which none is named. Raises NotFoundError."""
        title, own = DEFAULT if name == ALIAS else name, self._always_there()
        if title in self._stored():
            return super().show(title)
        return self._own_view(own[title]) if title in own else super().show(name)

    def _own_view(self, own: Datastore) -> DatastoreView:
        view = self.kind.view(StoredResource(name=own.name, document={}, open=lambda: own))
        return replace(view, is_builtin=True)

    def create(self, document: Mapping[str, object], source: str, *, check: bool = True) -> tuple[DatastoreView, bool]:
        """As of other kinds. check: it is kept only if it answers; what the store raises is raised."""
        made = cast("Datastore", self.kind.read(document, source))
        if made.name == ALIAS:
            raise SpecError(f"`{ALIAS}` means {DEFAULT}", where=f"{source}.name", fix=f"Call it {DEFAULT}, or else.")
        if (folder := _folder(made)) is not None and not folder.is_whole:
            what = f"the server doesn't know what `{short(folder.path)}` counts from"
            raise SpecError(what, where=f"{source}.path", fix="Write the whole path, from `/` on.")
        if check and self.ask:
            self._try(made, source, self.ask)
        return super().create(document, source)

    def _try(self, made: Datastore, source: str, ask: Callable[[str], object]) -> None:
        """Asks the store before it is anybody's: until then it is there for this thread alone."""
        self._trying.there = {made.name: made}
        try:
            ask(InStore(made.name).uri)
        except DrumbeatError as error:
            what = f"datastore {made.name} doesn't answer as it should: {error.what.removeprefix(WHOLE)}"
            fix = f"{error.fix} To keep it all the same: --no-check".strip()
            folder = _folder(made)
            where = f"{source}.path: {folder.path}" if folder else source
            raise type(error)(what, where=where, fix=fix) from error
        finally:
            del self._trying.there

    def delete(self, name: str) -> None:
        """As of other kinds; what lies in it stays. Raises ConflictError for one of the server's own, too, and while
        outputs of ended jobs are still to be published there.
        """
        if name in (*ALWAYS_THERE, ALIAS) and name not in self._stored():
            raise ConflictError(f"datastore {name} is always there: a folder of the server's own")
        self.require_unused(name)
        super().delete(name)

    def _open(self, one: Resource) -> Datastore:
        known = self._known.get(one.name)
        if known is None or known[0] != one:
            known = self._known[one.name] = one, super()._open(one)
        return known[1]

    def _always_there(self) -> dict[str, Datastore]:
        from drumbeat.jobfile.data.datastores import FolderDatastore

        if not self._folder:
            return {}
        return {name: FolderDatastore(name=name, path=f"{self._folder}/{name}") for name in ALWAYS_THERE}


def _folder(made: Datastore) -> FolderDatastore | None:
    from drumbeat.jobfile.data.datastores import FolderDatastore

    return made if isinstance(made, FolderDatastore) else None


def _holds(value: str, secrets: Iterable[str]) -> bool:
    """Whether a text is a secret, or has a long one in it."""
    return any(value.strip() == one or (len(one) >= LONG and one in value) for one in secrets)

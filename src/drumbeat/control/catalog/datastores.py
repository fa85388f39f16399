"""The datastores that there are: those that people make, and the folders that are always there.

Only here are credentials opened, and only for those who read and write data.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from drumbeat.control.catalog.sealing import Seal
from drumbeat.dialect.data.paths import InStore
from drumbeat.dialect.reading.error_messages import nearest, short
from drumbeat.ports import Catalog, StoredDatastore
from drumbeat.protocol.api.data import DatastoreView
from drumbeat.protocol.errors import ConflictError, DrumbeatError, NotFoundError, SpecError

if TYPE_CHECKING:
    from drumbeat.dialect.data.datastores import Datastore, FolderDatastore

log = logging.getLogger(__name__)

DEFAULT = "workspaceblobstore"
"""Where data goes for which nobody names a datastore. Azure's clients know it by this name."""

ALWAYS_THERE = (DEFAULT, "workspaceartifactstore")
"""Folders of the server's own, until a person makes a datastore of that name."""

ALIAS = "default"

WHOLE = "it can't be listed: "
"""What the stores say first of the address of all of them."""

LONG = 12
"""So many characters are in another text by no accident."""


class Datastores:
    """By name. folder: the server's own, below which those that are always there lie."""

    def __init__(self, catalog: Catalog, key: bytes, folder: str = "") -> None:
        self._catalog, self._seal, self._folder = catalog, Seal(key), folder
        self._trying = threading.local()
        self._known: dict[str, tuple[StoredDatastore, Datastore]] = {}
        """What was opened, and what from: it is asked for with every file."""

    def all(self) -> dict[str, Datastore]:
        """Every one that can be read, with its credentials: for those who reach data, and for nobody else."""
        found: dict[str, Datastore] = self._always_there()
        for name, stored in self._catalog.datastores().items():
            try:
                found[name] = self._opened(stored)
            except DrumbeatError as error:  # It mustn't take the others along.
                log.warning("datastore %s can't be used: %s", name, error)
        found |= getattr(self._trying, "there", {})
        return {**found, **({ALIAS: found[DEFAULT]} if DEFAULT in found else {})}

    def names(self) -> list[str]:
        """Of all of them."""
        return sorted({*self._always_there(), *self._catalog.datastores()})

    def folders(self) -> list[str]:
        """Of those that are folders of the server's machine."""
        made = self._catalog.datastores()
        own = [name for name in self._always_there() if name not in made]
        return sorted([*own, *(name for name, one in made.items() if one.document.get("type") == "folder")])

    def why_read_only(self, name: str) -> str:
        """Why nothing can be written to one of them, as far as it is known without asking it; "" = it may be."""
        from drumbeat.dialect.data.datastores import why_read_only

        found = self.all().get(name)
        return why_read_only(found) if found else ""

    def without_secrets(self, environment: Mapping[str, str]) -> dict[str, str]:
        """What of an environment may be handed on: no variable that holds what a datastore keeps.

        The server may have been started from the shell that a datastore's `env:NAME` was read from.
        """
        from drumbeat.dialect.data.datastores import secrets_of

        secrets = {one for store in self.all().values() for one in secrets_of(store)}
        return {name: value for name, value in environment.items() if not _holds(value, secrets)}

    def views(self) -> list[DatastoreView]:
        """All of them, as people may see them."""
        made = self._catalog.datastores()
        return [self._view(name, made.get(name)) for name in sorted({*self._always_there(), *made})]

    def view(self, name: str) -> DatastoreView:
        """One of them. Raises NotFoundError."""
        title = DEFAULT if name == ALIAS else name
        stored = self._catalog.datastores().get(title)
        if stored is None and title not in self._always_there():
            raise self.missing(name)
        return self._view(title, stored)

    def _view(self, title: str, stored: StoredDatastore | None) -> DatastoreView:
        from drumbeat.dialect.data.datastores import kind_of_credentials, split

        try:
            found = self._opened(stored) if stored else self._always_there()[title]
        except DrumbeatError as error:
            document = dict(stored.document) if stored else {}
            kind = str(document.get("type", ""))
            return DatastoreView(title, kind, document, error.what, is_default=False, is_builtin=False)
        shown, _ = split(found)
        return DatastoreView(
            title, found.type, shown, kind_of_credentials(found), title == DEFAULT, is_builtin=stored is None
        )

    def create(
        self, document: Mapping[str, object], source: str, ask: Callable[[str], object] | None = None
    ) -> tuple[DatastoreView, bool]:
        """Keeps a datastore, in place of one of its name; and whether there was none.

        ask: is called first, with the address of the whole store; what it raises is raised, and nothing is kept. Raises
        SpecError too.
        """
        from drumbeat.dialect.data.datastores import datastore_from, split

        made = datastore_from(document, source)
        if made.name == ALIAS:
            raise SpecError(f"`{ALIAS}` means {DEFAULT}", where=f"{source}.name", fix=f"Call it {DEFAULT}, or else.")
        if (folder := _folder(made)) is not None and not folder.is_whole:
            what = f"the server doesn't know what `{short(folder.path)}` counts from"
            raise SpecError(what, where=f"{source}.path", fix="Write the whole path, from `/` on.")
        if ask:
            self._try(made, source, ask)
        kept, credentials = split(made)
        is_new = made.name not in self._catalog.datastores()
        sealed = self._seal.close(made.name, credentials)
        self._catalog.set_datastore(made.name, StoredDatastore(made.name, kept, sealed))
        return self.view(made.name), is_new

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
        """Forgets a datastore; what lies in it stays. Raises NotFoundError, ConflictError."""
        if name not in self._catalog.datastores():
            if name in (*ALWAYS_THERE, ALIAS):
                raise ConflictError(f"datastore {name} is always there: a folder of the server's own")
            raise self.missing(name)
        self._catalog.set_datastore(name, None)

    def missing(self, name: str) -> NotFoundError:
        """Says what there is."""
        names = self.names()
        fix = nearest(name, names) or "Make it: drumbeat datastore create -f FILE"
        return NotFoundError(f"there is no datastore {name}; there is {', '.join(names) or 'none yet'}", fix=fix)

    def _opened(self, stored: StoredDatastore) -> Datastore:
        from drumbeat.dialect.data.datastores import join

        known = self._known.get(stored.name)
        if known is None or known[0] != stored:
            known = stored, join(stored.document, self._seal.open(stored.name, stored.sealed))
            self._known[stored.name] = known
        return known[1]

    def _always_there(self) -> dict[str, Datastore]:
        from drumbeat.dialect.data.datastores import FolderDatastore

        if not self._folder:
            return {}
        return {name: FolderDatastore(name=name, path=f"{self._folder}/{name}") for name in ALWAYS_THERE}


def _folder(made: Datastore) -> FolderDatastore | None:
    from drumbeat.dialect.data.datastores import FolderDatastore

    return made if isinstance(made, FolderDatastore) else None


def _holds(value: str, secrets: Iterable[str]) -> bool:
    """Whether a text is a secret, or has a long one in it."""
    return any(value.strip() == one or (len(one) >= LONG and one in value) for one in secrets)

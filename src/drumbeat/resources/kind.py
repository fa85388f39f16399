"""The record of a kind of named thing: how its documents are read, and split from their secrets.

The server's routes and service, the client's calls and the family of commands are made of this record; nothing here
knows any of them. Models are imported when they are first needed: they take longer to import than a command to run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from drumbeat.jobfile.reading.loader import DocumentKind
    from drumbeat.jobfile.reading.model import Model

V = TypeVar("V")
"""What users see of a resource: a dataclass of `model.api`."""

ALWAYS = datetime.min.replace(tzinfo=UTC)
"""The time of creation of the server's own resources."""

CREDENTIALS = "credentials"
"""The key of a document below which its secrets are."""


@dataclass(frozen=True, kw_only=True)
class StoredResource:
    """A resource as the database has it, from which its view is made."""

    name: str
    version: str = ""
    document: Mapping[str, Any]
    created_at: datetime = ALWAYS
    is_archived: bool = False
    has_secrets: bool = False
    open: Callable[[], Any]
    """Returns its model, with the secrets. Raises StorageError where they can't be opened."""
    jobs: Callable[[], tuple[str, ...]] = tuple
    """Returns the jobs that were submitted with the version, newest first."""


def _no_view(_: Any) -> Any:
    raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class Sentences(Generic[V]):
    """The texts of the command line about resources of a kind."""

    about: str
    """Help of the family of commands."""
    page: str
    """The page of the documentation that describes the file."""
    create: str = ""
    list: str
    show: str
    delete: str
    """Help of each command; "" = the family has another one in its place."""
    example: str
    """A name, for examples."""
    create_example: str
    """Arguments of `create`."""
    name_help: str = ""
    """Of the argument NAME, where there is more to say than that it's the name."""
    columns: Callable[[V], Mapping[str, object]] = _no_view
    """Returns a row of `list`, by heading; one that begins with `>` is aligned right."""
    details: Callable[[V], Mapping[str, object]] = _no_view
    """Returns what `show` prints, by name; what is empty is left out."""
    empty: str = ""
    """What `list` says when there are none."""
    created: Callable[[V], str] = _no_view
    deleted: str
    """With `{name}`, of a version `mine:2`."""


@dataclass(frozen=True, kw_only=True)
class Kind(Generic[V]):
    """A kind of named thing."""

    name: str
    """In the database, on the command line, and where a document has no file. It can't change: see `noun`."""
    noun: str
    """In sentences, and in the purpose of the key that seals secrets: another noun opens none of those kept before."""
    plural: str
    path: str
    """Of its routes, below `/api/v1`."""
    view_type: type[V]
    view: Callable[[StoredResource], V] = _no_view
    """Returns what users see of one: never a secret. Left out where the class of the service makes it."""
    model: Callable[[], DocumentKind]
    """Returns which models its documents have. Secrets are below `credentials` (`jobfile.data.credentials`)."""
    has_versions: bool = False
    """Whether its resources are kept in versions, which never change; else a new one replaces the one of its name."""
    sealed_for: Callable[[Mapping[str, Any]], str] = field(default=lambda document: str(document["name"]))
    """What the secrets of a document are for: with another address in the database they can't be opened."""
    anchored: Callable[[Any, Path], Any] = field(default=lambda model, _: model)
    """Returns a model whose relative paths are whole. The second argument is the folder that they count from."""
    sentences: Sentences[V]

    @property
    def word(self) -> str:
        """The noun in names of operations, such as `notice_target`."""
        return self.noun.replace(" ", "_")

    def read(self, document: Mapping[str, Any], source: str = "") -> Model:
        """Returns the model in a mapping; messages call it `source`. Raises SpecError."""
        from drumbeat.jobfile.reading.loader import model_from

        return model_from(document, self.model(), source or self.name)

    def join(self, document: Mapping[str, Any], secrets: Mapping[str, Any]) -> Model:
        """Returns the model that was split into these. Raises SpecError where they don't fit."""
        return self.read({**document, **({CREDENTIALS: dict(secrets)} if secrets else {})})

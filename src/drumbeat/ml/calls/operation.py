"""What the operations of all kinds of objects share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, ClassVar, TypeVar

from drumbeat.client import Client
from drumbeat.ml.errors import with_azure_errors
from drumbeat.model.errors import RefusedError, SpecError
from drumbeat.model.versions import newest_of_each
from drumbeat.resources.kind import Kind

T = TypeVar("T")
LATEST = "latest"
ACTIVE_ONLY, ARCHIVED_ONLY = "ActiveOnly", "ArchivedOnly"


class Operations:
    """Calls of one server. Errors of its public methods are Azure's, too."""

    def __init__(self, client: Callable[[], Client]) -> None:
        self._client_of = client

    def __init_subclass__(cls) -> None:
        for name, function in list(vars(cls).items()):
            if callable(function) and not name.startswith("_"):
                setattr(cls, name, with_azure_errors(function))

    @property
    def client(self) -> Client:
        """The client, connected at its first call."""
        return self._client_of()


class VersionOperations(Operations):
    """Calls about a kind with versions."""

    kind: ClassVar[Kind[Any]]

    def archive(self, name: str, version: str | None = None, label: str | None = None, **keys: Any) -> None:
        """Hides a version, or all versions of a name, from lists. Jobs can still use them."""
        del keys
        self.client.archive_resource(self.kind, name, self._exact(name, version, label))

    def restore(self, name: str, version: str | None = None, label: str | None = None, **keys: Any) -> None:
        """Shows an archived version, or all of a name, in lists again."""
        del keys
        self.client.restore_resource(self.kind, name, self._exact(name, version, label))

    def _exact(self, name: str, version: str | None, label: str | None) -> str:
        """Returns the version that is meant, "" = all versions of the name."""
        meant = version_of(self.kind.noun, version, label)
        return meant if label is None else self.client.resource(self.kind, name).version

    def _listed(self, name: str | None, list_view_type: str) -> list[Any]:
        """Returns the versions of a name that a list shows, newest first; without a name the newest of each name."""
        views: Any = self.client.resources(self.kind, name, archived=list_view_type != ACTIVE_ONLY)
        chosen = views if name else sorted(newest_of_each(views), key=lambda one: one.name)
        return [one for one in chosen if list_view_type != ARCHIVED_ONLY or one.is_archived]


def pages(values: Iterable[T]) -> Iterator[T]:
    """Returns values as Azure's lists give them: one after the other."""
    return iter([*values])


def version_of(noun: str, version: str | None, label: str | None) -> str:
    """Returns the version that is meant, "" = the newest. Raises SpecError for both, or for another label."""
    if version is not None and label is not None:
        raise SpecError(f"a {noun} is asked for by its version or by its label, not by both")
    if label not in (None, LATEST):
        raise SpecError(f"a {noun} has no label {label!r}; there is `{LATEST}`")
    return "" if version is None else str(version)


def unavailable(what: str, fix: str = "") -> RefusedError:
    """Returns the refusal of an operation that only Azure has."""
    return RefusedError(what, fix=fix)

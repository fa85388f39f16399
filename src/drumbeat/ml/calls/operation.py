"""What the operations of all kinds of objects share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from drumbeat.client import Client
from drumbeat.ml.errors import with_azure_errors
from drumbeat.model.errors import RefusedError, SpecError

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


def refuse_archive(noun: str, name: str) -> RefusedError:
    """Returns the refusal to hide a version: what has a name stays in lists until it is deleted."""
    fix = f"Delete a version that isn't needed: drumbeat {noun} delete {name} --version VERSION"
    return RefusedError(f"drumbeat doesn't archive a {noun}", where=name, fix=fix)


def unavailable(what: str, fix: str = "") -> RefusedError:
    """Returns the refusal of an operation that only Azure has."""
    return RefusedError(what, fix=fix)

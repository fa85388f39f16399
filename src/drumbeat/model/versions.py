"""Which version a name without one means: the same rule for data, models, environments and components."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol, TypeVar


class AnyVersion(Protocol):
    """A version of something with a name."""

    @property
    def version(self) -> str:
        """Its number, or a text."""
        ...

    @property
    def is_archived(self) -> bool:
        """Whether lists leave it out."""
        ...


class NamedVersion(AnyVersion, Protocol):
    """A version that has its name with it."""

    @property
    def name(self) -> str:
        """The name that it shares with other versions."""
        ...


V = TypeVar("V", bound=AnyVersion)
N = TypeVar("N", bound=NamedVersion)


def choose_version(versions: Sequence[V], version: str = "") -> V | None:
    """Returns a version of these, which stand newest first; None = there is none.

    version: "" = the newest that isn't archived; where all are archived, the newest. Azure's client resolves `@latest`
    by a list, which leaves archived versions out; by its number an archived version can be used as any other.
    """
    if version:
        return next((one for one in versions if one.version == version), None)
    return newest_listed(versions) or (versions[0] if versions else None)


def newest_listed(versions: Iterable[V]) -> V | None:
    """Returns the newest version that isn't archived, of versions that stand newest first."""
    return next((one for one in versions if not one.is_archived), None)


def newest_of_each(versions: Iterable[N], key: Callable[[N], object] = lambda one: one.name) -> list[N]:
    """Returns what each name means without a version, in the order of the names' first appearance.

    versions: newest first. key: what versions of one name have in common.
    """
    groups: dict[object, list[N]] = {}
    for one in versions:
        groups.setdefault(key(one), []).append(one)
    return [one for group in groups.values() if (one := choose_version(group))]

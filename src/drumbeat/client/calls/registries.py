"""The calls of `Client` that are about registries of images."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from drumbeat.client.connection import Connection, part
from drumbeat.client.responses import view, views
from drumbeat.protocol.api.environments import RegistryView
from drumbeat.protocol.errors import SpecError

if TYPE_CHECKING:
    from drumbeat.dialect.environments.registries import Registry

    GivenRegistry = str | Path | Mapping[str, Any] | Registry


class RegistryCalls:
    """A part of `Client`."""

    connection: Connection

    def registries(self) -> list[RegistryView]:
        """The registries, by name."""
        return views(RegistryView, self.connection.call("GET", "/registries"))

    def registry(self, name: str) -> RegistryView:
        """One of them. Raises NotFoundError."""
        return view(RegistryView, self.connection.call("GET", f"/registries/{part(name)}"))

    def create_registry(self, registry: GivenRegistry, *, sets: Sequence[str] = ()) -> RegistryView:
        """Makes a registry, in place of one of its name: the path of a file, or one made in Python.

        Under `credentials`, `env:NAME` stands for a variable of this process, `file:PATH` for a file here. Raises
        SpecError.
        """
        document, source = _described(registry, sets)
        body = {"document": document, "source": source}
        return view(RegistryView, self.connection.call("POST", "/registries", json=body))

    def delete_registry(self, name: str) -> None:
        """Forgets a registry and its credentials. Raises NotFoundError."""
        self.connection.call("DELETE", f"/registries/{part(name)}")


def _described(registry: GivenRegistry, sets: Sequence[str]) -> tuple[dict[str, Any], str]:
    """The registry as a document, its secrets in the clear, and where it was written."""
    from drumbeat.client.datastore_files import looked_up, resolved
    from drumbeat.dialect.environments.registries import load_registry, registry_from

    if isinstance(registry, str | Path):
        return _whole(load_registry(registry, [*sets, *looked_up(Path(registry), sets)])), str(registry)
    if sets:
        raise SpecError("values are set in a file; this registry was made in Python", fix="Set them on the object.")
    if isinstance(registry, Mapping):
        return _whole(registry_from({**registry, **resolved(registry, Path.cwd())})), "registry"
    return _whole(registry), "registry"


def _whole(registry: Registry) -> dict[str, Any]:
    from drumbeat.dialect.environments.registries import split

    document, secrets = split(registry)
    return {**document, **({"credentials": secrets} if secrets else {})}

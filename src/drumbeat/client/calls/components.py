"""The calls of `Client` that are about registered components."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from drumbeat.client.connection import Connection, part
from drumbeat.client.responses import view, views
from drumbeat.protocol import wire
from drumbeat.protocol.api.components import ComponentView

if TYPE_CHECKING:
    from drumbeat.dialect.pipelines.component_file import Component

    GivenComponent = str | Path | Mapping[str, Any] | Component


class ComponentCalls:
    """A part of `Client`."""

    connection: Connection

    def components(self, name: str | None = None) -> list[ComponentView]:
        """Every version of every registered component, or of one, newest first."""
        params = {"name": name} if name else {}
        return views(ComponentView, self.connection.call("GET", "/components", params=params))

    def component(self, name: str, version: str = "") -> ComponentView:
        """One version, "" = the newest. Raises NotFoundError."""
        path = f"/components/{part(name)}" + (f"/versions/{part(version)}" if version else "")
        return view(ComponentView, self.connection.call("GET", path))

    def create_component(self, component: GivenComponent, *, sets: Sequence[str] = ()) -> ComponentView:
        """Registers a version of a component: the path of a file, or one made in Python.

        The code, the files of its environment, and local data at its inputs' `path` are sent with it. sets:
        `key=value`, changed in the file before it is read. Raises SpecError; ConflictError when the version has other
        content.
        """
        from drumbeat.client.component_files import inline_component, origin_of
        from drumbeat.client.step_files import send_inlined

        document, origin = origin_of(component, sets)
        sent = send_inlined(inline_component(document, origin), self.connection, is_sending=True, is_kept=True)
        body = {"document": sent.document, "parts": wire.to_wire(sent.parts), "source": origin.source}
        return view(ComponentView, self.connection.call("POST", "/components", json=body))

    def delete_component(self, name: str, version: str) -> None:
        """Deletes a version; jobs that have it continue. Raises NotFoundError."""
        self.connection.call("DELETE", f"/components/{part(name)}/versions/{part(version)}")

"""Registered components: create, list, show, delete, and look up for pipelines and sweeps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from drumbeat.core.pipelines.registered_components import (
    RegisteredComponent,
    Resolved,
    UsedComponent,
    parts_from,
    resolve,
    snapshot_digests,
)
from drumbeat.jobfile.environments.references import VERSION
from drumbeat.jobfile.pipelines.component import REGISTERED_NAME
from drumbeat.jobfile.pipelines.component_file import Component, RegisteredName, component_from
from drumbeat.jobfile.reading.error_messages import shown
from drumbeat.jobfile.reading.writer import to_dict
from drumbeat.model import wire
from drumbeat.model.api.components import ComponentView
from drumbeat.model.api.requests import JobRequest, StepParts
from drumbeat.model.errors import NotFoundError, SpecError, UnknownNameError
from drumbeat.ports.clock import Clock
from drumbeat.resources.component import COMPONENT
from drumbeat.server.database import SqlStore
from drumbeat.server.resources.environments import check_texts
from drumbeat.server.resources.records import Resource, Use
from drumbeat.server.resources.versions import VersionService


class Components(VersionService[ComponentView]):
    """Manages the registered components."""

    def __init__(self, catalog: SqlStore, clock: Clock, has_snapshot: Callable[[str], bool] = lambda _: True) -> None:
        super().__init__(COMPONENT, catalog, clock)
        self._has_snapshot = has_snapshot

    # --- for jobs -----------------------------------------------------------------------------------------------
    def resolved(self, request: JobRequest) -> Resolved:
        """Returns the request with all components that its document names. Raises SpecError, UnknownNameError."""
        return resolve(request, self._look_up)

    def _look_up(self, name: RegisteredName, where: str) -> RegisteredComponent:
        try:
            kept = self._catalog.resource(COMPONENT.name, name.name, name.version)
        except NotFoundError as error:
            raise UnknownNameError(error.what, where=where, fix=error.fix) from None
        return registered(kept)

    # --- for users --------------------------------------------------------------------------------------------
    def create(
        self, document: Mapping[str, Any], source: str, *, parts: Mapping[str, StepParts] | None = None
    ) -> tuple[ComponentView, bool]:
        """Registers a component. Raises what `VersionService.create` does; NotFoundError for a missing snapshot.

        parts: the files of each step, by path; those of a command, under an empty path.
        """
        component = component_from(document, source)
        name, version = _titled(component, source)
        parts = parts or {}
        for one in parts.values():
            check_texts(one.environment)
        for digest in snapshot_digests(parts):
            if not self._has_snapshot(digest):
                raise NotFoundError(f"snapshot {digest} was not uploaded", fix="Upload it before the component.")
        own = {key: value for key, value in to_dict(component).items() if key not in ("name", "version")}
        # The type is stored even if the file omits it, because steps are parsed by it.
        kept = {"component": {**own, "type": component.type}, "parts": wire.to_wire(dict(parts))}
        return self._keep(name, version, kept)


def registered(asset: Resource) -> RegisteredComponent:
    """Returns the component of a stored resource."""
    document = asset.document
    return RegisteredComponent(asset.name, asset.version, document["component"], parts_from(document["parts"]))


def component_uses(used: Iterable[UsedComponent]) -> tuple[Use, ...]:
    """Returns the uses of components in a job, for its lineage."""
    return tuple(Use(COMPONENT.name, one.name, one.version, one.role) for one in used)


def _titled(component: Component, source: str) -> tuple[str, str]:
    """Returns name and version of a component; "" = the next version."""
    if not component.name:
        raise SpecError("the component needs the key `name`", where=source)
    if not REGISTERED_NAME.fullmatch(component.name):
        what = f"`name`: a component can't be registered as {shown(component.name)}"
        raise SpecError(what, where=source, fix="Use lower-case letters, digits and `_`, a letter first.")
    if not VERSION.fullmatch(component.version or "1"):
        fix = "Letters, digits, `-`, `_` and `.`, at most 64; a letter or digit first."
        raise SpecError(f"`version`: {shown(component.version)} isn't allowed here", where=source, fix=fix)
    return component.name, component.version or ""

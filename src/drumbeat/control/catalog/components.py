"""Components by name: registered, listed, shown, deleted, and looked up for pipelines and sweeps."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from drumbeat.control.catalog.data_assets import twin
from drumbeat.control.catalog.environments import check_texts
from drumbeat.core.pipelines.registered_components import (
    RegisteredComponent,
    Resolved,
    UsedComponent,
    digests_of,
    parts_of,
    resolve,
)
from drumbeat.dialect.environments.references import NAME, VERSION
from drumbeat.dialect.pipelines.component import REGISTERED_NAME
from drumbeat.dialect.pipelines.component_file import Component, RegisteredName, component_from
from drumbeat.dialect.reading.error_messages import shown
from drumbeat.dialect.reading.writer import to_dict
from drumbeat.ports import Clock, Resource, Use
from drumbeat.protocol import wire
from drumbeat.protocol.api.components import ComponentView
from drumbeat.protocol.api.requests import JobRequest, StepParts
from drumbeat.protocol.errors import NotFoundError, SpecError, UnknownNameError
from drumbeat.stores.sql import SqlStore

KIND = "component"


@dataclass(frozen=True)
class Components:
    """The registered components, over the catalog."""

    catalog: SqlStore
    clock: Clock
    has_snapshot: Callable[[str], bool] = lambda _: True

    # --- for jobs -----------------------------------------------------------------------------------------------
    def resolved(self, request: JobRequest) -> Resolved:
        """The request with every component that its document names. Raises SpecError, UnknownNameError."""
        return resolve(request, self._look_up)

    def _look_up(self, name: RegisteredName, where: str) -> RegisteredComponent:
        try:
            kept = self.catalog.resource(KIND, name.name, name.version)
        except NotFoundError as error:
            raise UnknownNameError(error.what, where=where, fix=error.fix) from None
        return registered(kept)

    # --- for people ---------------------------------------------------------------------------------------------
    def create(
        self, document: Mapping[str, Any], parts: Mapping[str, StepParts], source: str
    ) -> tuple[ComponentView, bool]:
        """Registers a version, and whether it is new: the same content again is the version that exists.

        Raises SpecError; NotFoundError for a snapshot that was not uploaded, ConflictError for other content of a
        version.
        """
        component = component_from(document, source)
        name, version = _titled(component, source)
        for one in parts.values():
            check_texts(one.environment)
        for digest in digests_of(parts):
            if not self.has_snapshot(digest):
                raise NotFoundError(f"snapshot {digest} was not uploaded", fix="Send it before the component.")
        own = {key: value for key, value in to_dict(component).items() if key not in ("name", "version")}
        # The type is written even where the file leaves it out: steps are read by it.
        kept: dict[str, object] = {"component": {**own, "type": component.type}, "parts": wire.to_wire(dict(parts))}
        digest = hashlib.sha256(json.dumps(kept, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
        made, is_new = self.catalog.add_version(Resource(KIND, name, version, kept, digest, self.clock.now()))
        return replace(self._view(made), same_as=twin(made, self.catalog)), is_new

    def list(self, name: str | None = None) -> list[ComponentView]:
        """Every version of every component, or of one, newest first."""
        if name is not None and not NAME.fullmatch(name):
            return []
        return [self._view(one) for one in self.catalog.resources(KIND, name)]

    def show(self, name: str, version: str = "") -> ComponentView:
        """One version, "" = the newest. Raises NotFoundError."""
        _require_a_name(name, version)
        return self._view(self.catalog.resource(KIND, name, version))

    def delete(self, name: str, version: str) -> None:
        """Forgets a version; jobs that have it continue. Raises NotFoundError."""
        _require_a_name(name, version)
        self.catalog.remove_resource(KIND, name, version)

    def _view(self, one: Resource) -> ComponentView:
        kept = registered(one)
        table = kept.document
        jobs = tuple(dict.fromkeys(job for job, _ in self.catalog.users(KIND, one.name, one.version)))
        return ComponentView(
            name=one.name,
            version=one.version,
            type=str(table.get("type") or "command"),
            created_at=one.created_at,
            display_name=str(table.get("display_name") or ""),
            description=str(table.get("description") or ""),
            is_deterministic=bool(table.get("is_deterministic", True)),
            inputs=table.get("inputs") or {},
            outputs=table.get("outputs") or {},
            code={path: parts.code for path, parts in kept.parts.items() if parts.code},
            jobs=jobs,
            document={"name": one.name, "version": one.version, **table},
        )


def registered(asset: Resource) -> RegisteredComponent:
    """Returns the component that is kept as an asset."""
    document = asset.document
    return RegisteredComponent(asset.name, asset.version, document["component"], parts_of(document["parts"]))


def component_uses(used: Iterable[UsedComponent]) -> tuple[Use, ...]:
    """What a job names, for its lineage."""
    return tuple(Use(KIND, one.name, one.version, one.role) for one in used)


def _titled(component: Component, source: str) -> tuple[str, str]:
    """Name and version, "" = the next one."""
    if not component.name:
        raise SpecError("the component needs the key `name`", where=source)
    if not REGISTERED_NAME.fullmatch(component.name):
        what = f"`name`: a component can't be registered as {shown(component.name)}"
        raise SpecError(what, where=source, fix="Use lower-case letters, digits and `_`, a letter first.")
    if not VERSION.fullmatch(component.version or "1"):
        fix = "Letters, digits, `-`, `_` and `.`, at most 64; a letter or digit first."
        raise SpecError(f"`version`: {shown(component.version)} isn't allowed here", where=source, fix=fix)
    return component.name, component.version or ""


def _require_a_name(name: str, version: str) -> None:
    """Raises NotFoundError for what no component can be called: not every database takes any text."""
    if not NAME.fullmatch(name) or (version and not VERSION.fullmatch(version)):
        title = f"{name}:{version}" if version else name
        raise NotFoundError(f"there is no component {title}", fix="See those that exist: drumbeat component list")

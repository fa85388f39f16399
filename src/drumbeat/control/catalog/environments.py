"""Environments by name: made, listed, looked at, deleted, and found for a job."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from drumbeat.control.catalog.data_assets import twin
from drumbeat.core.planning import environments as core
from drumbeat.core.planning.environments import Registered, Shelf
from drumbeat.dialect.environments.curated import CURATED, Curated, curated, for_name
from drumbeat.dialect.environments.definition import define
from drumbeat.dialect.environments.environment_keys import Environment, environment_from
from drumbeat.dialect.environments.included_files import MAX_BYTES
from drumbeat.dialect.environments.references import NAME, VERSION
from drumbeat.dialect.reading.error_messages import nearest, shown
from drumbeat.dialect.reading.writer import to_dict
from drumbeat.ports import Clock, Resource, Use
from drumbeat.protocol.api.environments import EnvironmentView
from drumbeat.protocol.api.requests import MAX_FILES, EnvironmentFiles
from drumbeat.protocol.errors import NotFoundError, SpecError
from drumbeat.stores.sql import SqlStore

KIND = "environment"
OWN = (sys.version_info.major, sys.version_info.minor)
"""The server's Python: taken where an environment allows several."""


@dataclass(frozen=True)
class Environments:
    """Those that people made, over the catalog; and the curated ones."""

    catalog: SqlStore
    clock: Clock
    has_snapshot: Callable[[str], bool] = lambda _: True

    # --- for a job ----------------------------------------------------------------------------------------------
    def shelf(self, written: Environment | str | None, aliases: Mapping[tuple[str, str], str]) -> Shelf:
        """All that the environment of a job can mean here. Raises SpecError."""
        names = core.wanted_names(written, aliases)
        found = {name: [_registered(one) for one in self.catalog.resources(KIND, name)] for name in names}
        return Shelf(found, aliases, OWN, names=() if not names or any(found.values()) else self._names())

    # --- for people ---------------------------------------------------------------------------------------------
    def create(self, document: Mapping[str, Any], texts: EnvironmentFiles, source: str) -> tuple[EnvironmentView, bool]:
        """The environment that a person described, and whether it is new. The same content again is the same success.

        Raises SpecError; RefusedError for what can't be made here; ConflictError when the version has other content.
        """
        check_texts(texts)
        written = environment_from(document, source)
        name, version = _titled(written, source)
        core.image_build(define(written, texts, OWN).build)
        if texts.context and not self.has_snapshot(texts.context):
            what = f"snapshot {texts.context} was not uploaded"
            raise NotFoundError(what, where="environment.build", fix="Send it before the environment.")
        kept = core.document_of(to_dict(written), texts)
        digest = hashlib.sha256(json.dumps(kept, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
        made, is_new = self.catalog.add_version(Resource(KIND, name, version, kept, digest, self.clock.now()))
        return replace(self._view(made), same_as=twin(made, self.catalog)), is_new

    def check_alias(self, name: str, target: str, aliases: Mapping[tuple[str, str], str]) -> None:
        """Raises SpecError for a target that can't be an environment, and for aliases that go round in a circle."""
        core.wanted_names(name, {**aliases, (KIND, name): target})

    def list(self, name: str | None = None) -> list[EnvironmentView]:
        """Those that people made: all versions, newest first."""
        if name is not None and not NAME.fullmatch(name):
            return []
        return [self._view(one) for one in self.catalog.resources(KIND, name)]

    def show(self, name: str, version: str = "") -> EnvironmentView:
        """One of them, "" = its newest version; else the curated one of that name, in any version.

        Raises NotFoundError.
        """
        _require_a_name(name, version)
        known = curated(name)
        if not self.catalog.resources(KIND, name):
            if known is not None:
                made, version = for_name(known, name, OWN)
                return replace(curated_view(made), notes=(version,) if version else ())
            raise _missing(name, [*self._names(), *(one.title for one in CURATED)])
        return self._view(self.catalog.resource(KIND, name, version))

    def delete(self, name: str, version: str) -> None:
        """Forgets a version; jobs that have it go on. Raises NotFoundError."""
        if not version:
            raise NotFoundError("name a version", fix=f"See them: drumbeat environment show {name}")
        _require_a_name(name, version)
        self.catalog.remove_resource(KIND, name, version)

    def _names(self) -> list[str]:
        return sorted({one.name for one in self.catalog.resources(KIND)})

    def _view(self, one: Resource) -> EnvironmentView:
        python, image, notes, problem = None, "", (), ""
        try:
            made = core.definition_of(_registered(one), OWN)
            python, image, notes = made.environment(f"{one.name}:{one.version}"), made.image, made.notes
        except Exception as error:  # noqa: BLE001 (what an older drumbeat took in mustn't keep the others from being listed)
            problem = str(error)
        about = core.about(one.document)
        jobs = tuple(dict.fromkeys(job for job, _ in self.catalog.users(KIND, one.name, one.version)))
        return EnvironmentView(
            one.name, one.version, python, image, one.created_at, curated=False, about=about, means=(), notes=notes,
            jobs=jobs, document=one.document, problem=problem,
        )  # fmt: skip


def curated_views(name: str | None = None) -> list[EnvironmentView]:
    """Every curated one, or that which a name means."""
    return [curated_view(one) for one in CURATED if name is None or one is curated(name)]


def curated_view(one: Curated) -> EnvironmentView:
    """As a person sees it."""
    made = core.curated_definition(one).environment(one.title)
    document = core.document_of({}, EnvironmentFiles(one.source, {one.source: one.requirements}))
    return EnvironmentView(
        one.title, "", made, "", None, curated=True, about=one.about, means=one.patterns, notes=(), jobs=(),
        document=document, problem="",
    )  # fmt: skip


def uses_of(asset: tuple[str, str] | None) -> tuple[Use, ...]:
    """What a job names, for its lineage."""
    return (Use(KIND, *asset, role="environment"),) if asset else ()


def check_texts(texts: EnvironmentFiles) -> None:
    """Raises SpecError for more text than files of an environment have."""
    if len(texts.files) > MAX_FILES or sum(len(one) for one in texts.files.values()) > MAX_BYTES:
        raise SpecError(f"the files of an environment are at most {MAX_FILES}, and together 1 MiB", where=texts.main)


def _require_a_name(name: str, version: str) -> None:
    """Raises NotFoundError for what none can be called: not every database takes any text."""
    if not NAME.fullmatch(name) or (version and not VERSION.fullmatch(version)):
        raise _missing(f"{name}:{version}" if version else name, ())


def _missing(title: str, names: Iterable[str]) -> NotFoundError:
    fix = nearest(title, names) or "See those that there are: drumbeat environment list"
    return NotFoundError(f"there is no environment {title}", fix=fix)


def _titled(written: Environment, source: str) -> tuple[str, str]:
    """Name and version, "" = the next one."""
    if not written.name:
        raise SpecError("the environment needs the key `name`", where=source)
    for key, text, rule in (("name", written.name, NAME), ("version", written.version or "1", VERSION)):
        if not rule.fullmatch(text):
            fix = f"Letters, digits, `-`, `_` and `.`, at most {255 if key == 'name' else 64}; a letter or digit first."
            raise SpecError(f"`{key}`: {shown(text)} isn't allowed here", where=source, fix=fix)
    return written.name, written.version or ""


def _registered(one: Resource) -> Registered:
    return Registered(one.name, one.version, one.document)

"""Environments: create, list, show, delete, and look up for jobs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from drumbeat.core.planning import environments as core
from drumbeat.core.planning.environments import EnvironmentCatalog, Registered
from drumbeat.jobfile.environments.curated import CURATED, Curated, curated, for_name
from drumbeat.jobfile.environments.definition import define
from drumbeat.jobfile.environments.environment_keys import Environment, environment_from
from drumbeat.jobfile.environments.included_files import MAX_BYTES
from drumbeat.jobfile.environments.references import NAME, VERSION
from drumbeat.jobfile.reading.error_messages import nearest, shown
from drumbeat.jobfile.reading.writer import to_dict
from drumbeat.model.api.environments import EnvironmentView
from drumbeat.model.api.requests import MAX_FILES, EnvironmentFiles
from drumbeat.model.errors import NotFoundError, RefusedError, SpecError
from drumbeat.ports.clock import Clock
from drumbeat.resources.environment import ENVIRONMENT
from drumbeat.server.database import SqlStore
from drumbeat.server.resources.records import Resource, Use
from drumbeat.server.resources.versions import VersionService

KIND = ENVIRONMENT.name
OWN = (sys.version_info.major, sys.version_info.minor)
"""The server's Python version, which is used if an environment allows several."""


class Environments(VersionService[EnvironmentView]):
    """Manages the environments of users, and the curated ones."""

    def __init__(self, catalog: SqlStore, clock: Clock, has_snapshot: Callable[[str], bool] = lambda _: True) -> None:
        super().__init__(ENVIRONMENT, catalog, clock)
        self._has_snapshot = has_snapshot

    # --- for a job ----------------------------------------------------------------------------------------------
    def catalog(self, written: Environment | str | None, aliases: Mapping[tuple[str, str], str]) -> EnvironmentCatalog:
        """Returns everything that a job's environment can refer to. Raises SpecError."""
        names = core.wanted_names(written, aliases)
        versions = {name: [_registered(one) for one in self._catalog.resources(KIND, name)] for name in names}
        return EnvironmentCatalog(
            versions, aliases, OWN, names=() if not names or any(versions.values()) else self._names()
        )

    def registered(self, written: str, aliases: Mapping[tuple[str, str], str]) -> Registered | None:
        """Returns the version that a name means, None = no user has made it. Raises SpecError, UnknownNameError."""
        name, version = core.resolve(written, EnvironmentFiles(), self.catalog(written, aliases)).asset or ("", "")
        rows = self._catalog.resources(KIND, name) if name else ()
        return next((_registered(one) for one in rows if one.version == version), None)

    # --- for users --------------------------------------------------------------------------------------------
    def create(
        self, document: Mapping[str, Any], source: str, *, texts: EnvironmentFiles | None = None
    ) -> tuple[EnvironmentView, bool]:
        """Creates an environment. Raises RefusedError if it can't be built here. texts: the files that it names."""
        texts = texts or EnvironmentFiles()
        check_texts(texts)
        written = environment_from(document, source)
        name, version = _titled(written, source)
        core.image_build(define(written, texts, OWN).build)
        if texts.context and not self._has_snapshot(texts.context):
            what = f"snapshot {texts.context} was not uploaded"
            raise NotFoundError(what, where="environment.build", fix="Upload it before the environment.")
        return self._keep(name, version, core.to_document(to_dict(written), texts))

    def check_alias(self, name: str, target: str, aliases: Mapping[tuple[str, str], str]) -> None:
        """Raises SpecError for a target that can't be an environment, and for a cycle of aliases."""
        core.wanted_names(name, {**aliases, (KIND, name): target})

    def show(self, name: str, version: str = "") -> EnvironmentView:
        """Returns one version, "" = the newest that isn't archived; else the curated environment, in any version.

        Raises NotFoundError.
        """
        if self._catalog.resources(KIND, name):
            return super().show(name, version)
        definition = curated(name)
        if definition is None:
            names = [*self._names(), *(one.title for one in CURATED)]
            fix = nearest(name, names) or "List the environments: drumbeat environment list"
            raise NotFoundError(f"there is no environment {name}", fix=fix)
        made, note = for_name(definition, name, OWN)
        return replace(curated_view(made), notes=(note,) if note else ())

    def set_archived(self, name: str, version: str = "", *, is_archived: bool) -> Sequence[EnvironmentView]:
        """Hides a version, or all of a name (""), from lists, or shows it again.

        Raises NotFoundError; RefusedError for a curated environment.
        """
        if curated(name) and not self._catalog.resources(KIND, name):
            what = f"environment {name} is drumbeat's own, and stays in the list of these"
            raise RefusedError(what, fix="What users make can be archived: drumbeat environment list")
        return super().set_archived(name, version, is_archived=is_archived)

    def _names(self) -> list[str]:
        return sorted({one.name for one in self._catalog.resources(KIND)})

    def _view(self, one: Resource) -> EnvironmentView:
        python, image, notes, problem = None, "", (), ""
        try:
            made = core.define_version(_registered(one), OWN)
            python, image, notes = made.environment(f"{one.name}:{one.version}"), made.image, made.notes
        except Exception as error:  # noqa: BLE001 (what an older drumbeat took in mustn't keep the others from being listed)
            problem = str(error)
        about = core.about(one.document)
        return EnvironmentView(
            one.name, one.version, python, image, one.created_at, curated=False, about=about, means=(), notes=notes,
            jobs=self._jobs(one), document=one.document, problem=problem, is_archived=one.is_archived,
        )  # fmt: skip


def curated_views(name: str | None = None) -> list[EnvironmentView]:
    """Returns all curated environments, or the one of a name."""
    return [curated_view(one) for one in CURATED if name is None or one is curated(name)]


def curated_view(one: Curated) -> EnvironmentView:
    """Returns a curated environment as the API shows it."""
    made = core.curated_definition(one).environment(one.title)
    document = core.to_document({}, EnvironmentFiles(one.source, {one.source: one.requirements}))
    return EnvironmentView(
        one.title, "", made, "", None, curated=True, about=one.about, means=one.patterns, notes=(), jobs=(),
        document=document, problem="",
    )  # fmt: skip


def environment_uses(asset: tuple[str, str] | None) -> tuple[Use, ...]:
    """Returns the use of an environment in a job, for its lineage."""
    return (Use(KIND, *asset, role="environment"),) if asset else ()


def check_texts(texts: EnvironmentFiles) -> None:
    """Raises SpecError if the files of an environment are too many or too large."""
    if len(texts.files) > MAX_FILES or sum(len(one) for one in texts.files.values()) > MAX_BYTES:
        raise SpecError(f"an environment has at most {MAX_FILES} files, of 1 MiB together", where=texts.main)


def _titled(written: Environment, source: str) -> tuple[str, str]:
    """Returns name and version of an environment; "" = the next version."""
    if not written.name:
        raise SpecError("the environment needs the key `name`", where=source)
    for key, text, rule in (("name", written.name, NAME), ("version", written.version or "1", VERSION)):
        if not rule.fullmatch(text):
            fix = f"Letters, digits, `-`, `_` and `.`, at most {255 if key == 'name' else 64}; a letter or digit first."
            raise SpecError(f"`{key}`: {shown(text)} isn't allowed here", where=source, fix=fix)
    return written.name, written.version or ""


def _registered(one: Resource) -> Registered:
    return Registered(one.name, one.version, one.document, one.is_archived)

"""Which environment a job means: an alias, one that a user made, a curated one, or what is written in the job."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from drumbeat.jobfile.environments.curated import CURATED, Curated, curated, folded, for_name, spellings
from drumbeat.jobfile.environments.definition import Build, Definition, define, define_curated
from drumbeat.jobfile.environments.environment_keys import Environment
from drumbeat.jobfile.environments.references import EnvironmentReference, parse_reference
from drumbeat.jobfile.reading.error_messages import nearest, no_version
from drumbeat.launchers import dockerfile_reader
from drumbeat.model.api.requests import EnvironmentFiles
from drumbeat.model.errors import SpecError, UnknownNameError
from drumbeat.model.plan import ImageBuild, PythonEnvironment
from drumbeat.model.versions import choose_version

CURRENT = "current"
"""The name of the current environment: the interpreter that the server runs on."""

_INSTALLS = re.compile(r"\b(?:uv pip|pip[\d.]*|conda|mamba|micromamba) install\b")

MAX_ALIASES = 8
"""The most aliases that may lead from one to the next."""


@dataclass(frozen=True)
class Registered:
    """A version of an environment that a user made. document: as it is kept (`to_document`)."""

    name: str
    version: str
    document: Mapping[str, Any]
    is_archived: bool = False


@dataclass(frozen=True)
class ResolvedEnvironment:
    """The environment that a job's ranks run in."""

    name: str = CURRENT
    python: PythonEnvironment | None = None
    """What nodes build for it, None = nothing."""
    notes: tuple[str, ...] = ()
    """How the name was resolved, a sentence each."""
    asset: tuple[str, str] | None = None
    """Name and version of what the job named, None where it named nothing."""
    image: str = ""
    """The image of the ranks' containers, "" = they run in none."""
    build: ImageBuild | None = None
    """How nodes build the image, None = they pull it."""


@dataclass(frozen=True)
class EnvironmentCatalog:
    """Where names are looked up. registered: versions by name, newest first. python: the server's own.

    has_containers: whether the job's nodes may be able to run containers. names: what users have made, if one that is
    wanted isn't there.
    """

    registered: Mapping[str, Sequence[Registered]] = field(default_factory=dict[str, Sequence[Registered]])
    aliases: Mapping[tuple[str, str], str] = field(default_factory=dict[tuple[str, str], str])
    python: tuple[int, int] = (3, 11)
    has_containers: bool = True
    names: Collection[str] = ()


def resolve(written: Environment | str, texts: EnvironmentFiles, catalog: EnvironmentCatalog) -> ResolvedEnvironment:
    """Returns the environment that a job asks for. Raises SpecError, RefusedError, UnknownNameError."""
    name = _reference(written, catalog.aliases)
    if name or not isinstance(written, Environment):
        return _named(name, catalog)
    made = define(written, texts, catalog.python, has_containers=catalog.has_containers)
    name = written.name or _title(made) or texts.main or "written in the job"
    return ResolvedEnvironment(
        name, made.environment(name), made.notes, image=made.image, build=image_build(made.build)
    )


def _title(made: Definition) -> str:
    return made.build.source if made.build else made.image


def image_build(build: Build | None) -> ImageBuild | None:
    """Returns the build as nodes get it. Raises SpecError for a Dockerfile without FROM."""
    if build is None:
        return None
    if not any(one.word == "FROM" for one in dockerfile_reader.instructions(build.text)):
        fix = "It begins with the image that yours is made from: FROM python:3.11-slim"
        raise SpecError("this Dockerfile has no FROM", where=build.source, fix=fix)
    return ImageBuild(build.key, build.context, build.dockerfile, build.source, dockerfile_reader.images(build.text))


def wanted_names(written: Environment | str | None, aliases: Mapping[tuple[str, str], str]) -> list[str]:
    """Returns the names whose versions `resolve` will look up. Raises SpecError."""
    text = _reference(written, aliases)
    if not text:
        return []
    target, _ = _through_aliases(text, aliases)
    if target == CURRENT:
        return []
    name = parse_reference(target).name
    return spellings(name) if curated(name) else [name]


def _reference(written: Environment | str | None, aliases: Mapping[tuple[str, str], str]) -> str:
    """Returns the name by which a job asks for an environment, or an image that has an alias; "" = there is none."""
    if not isinstance(written, Environment):
        return written or ""
    image = written.image or ""
    is_alone = written.conda_file is None and written.build is None
    return image if is_alone and ("environment", image) in aliases else ""


def _through_aliases(text: str, aliases: Mapping[tuple[str, str], str]) -> tuple[str, tuple[str, ...]]:
    """Returns the name at the end of a chain of aliases, and a note on each of them."""
    notes: list[str] = []
    for _ in range(MAX_ALIASES):
        target = _alias(text, aliases)
        if target is None:
            return text, tuple(notes)
        notes.append(f"environment {text} means {target} here (drumbeat alias list)")
        text = target
        if text == CURRENT:
            return text, tuple(notes)
    raise SpecError(
        f"the aliases of environment {text} are nested too deep",
        where="environment",
        fix="See where they lead: drumbeat alias list",
    )


def _alias(text: str, aliases: Mapping[tuple[str, str], str]) -> str | None:
    try:
        asked = parse_reference(text)
    except SpecError:
        names = [text, text.removeprefix("azureml:")]
        return next((aliases["environment", one] for one in names if ("environment", one) in aliases), None)
    names = asked.alias_names
    exact = next((aliases["environment", one] for one in names if ("environment", one) in aliases), None)
    if exact is not None or curated(asked.name) is None:
        return exact
    alike = {folded(name): target for (kind, name), target in aliases.items() if kind == "environment"}
    target = next((alike[one] for one in map(folded, names) if one in alike), None)
    return None if target is None or folded(target) == folded(text) else target


def _named(text: str, catalog: EnvironmentCatalog) -> ResolvedEnvironment:
    target, notes = _through_aliases(text, catalog.aliases)
    if target == CURRENT:
        return ResolvedEnvironment(notes=notes)
    asked = parse_reference(target)
    own = curated(asked.name)
    names = spellings(asked.name) if own else [asked.name]
    versions = next((some for one in names if (some := catalog.registered.get(one, ()))), ())
    if versions:
        resolved = _find_version(asked, versions, catalog, is_curated=own is not None)
    elif own is not None:
        resolved = _find_curated(asked, own, catalog.python)
    else:
        raise _unknown(asked, catalog)
    return replace(resolved, notes=(*notes, *resolved.notes))


def _find_version(
    asked: EnvironmentReference, registered: Sequence[Registered], catalog: EnvironmentCatalog, *, is_curated: bool
) -> ResolvedEnvironment:
    """Returns the version that is named, else the newest that isn't archived."""
    if asked.label not in ("", "latest") and not is_curated:
        what = f"environment {asked.name} has no label {asked.label!r}; there is `latest`"
        raise UnknownNameError(what, where="environment", fix=f"Name it {asked.name}@latest, or a version.")
    notes: tuple[str, ...] = ()
    chosen = choose_version(registered, asked.version) if asked.version else None
    if chosen is None and asked.version and not is_curated:
        what, fix = no_version("environment", asked.name, asked.version, [one.version for one in registered])
        see = f"See them: drumbeat environment list --name {asked.name}"
        raise UnknownNameError(what, where="environment", fix=fix or see)
    if chosen is None:
        chosen = choose_version(registered) or registered[0]
        is_silent = asked.label == "latest"
        notes = () if is_silent else (f"environment {asked.text}: version {chosen.version} is taken, the newest here",)
    made = define_version(chosen, catalog.python, has_containers=catalog.has_containers)
    name, asset = f"{chosen.name}:{chosen.version}", (chosen.name, chosen.version)
    notes = (*notes, *made.notes)
    return ResolvedEnvironment(name, made.environment(name), notes, asset, made.image, image_build(made.build))


def _find_curated(asked: EnvironmentReference, own: Curated, python: tuple[int, int]) -> ResolvedEnvironment:
    definition, version = for_name(own, asked.name, python)
    made = curated_definition(definition)
    title = f"{asked.name} (curated: {own.title})" if asked.name != own.title else own.title
    note = f"environment {asked.text} is drumbeat's own {own.title!r} (drumbeat environment show {own.title})"
    return ResolvedEnvironment(
        title, made.environment(title), (f"{note}; {version}" if version else note,), (asked.name, "curated")
    )


def curated_definition(curated_name: Curated) -> Definition:
    """Returns what nodes build for a curated name."""
    return define_curated(curated_name)


def _unknown(asked: EnvironmentReference, catalog: EnvironmentCatalog) -> UnknownNameError:
    made = [name for name, versions in catalog.registered.items() if versions]
    close = nearest(asked.name, [*made, *catalog.names, *(one.title for one in CURATED)])
    what = f"no environment named {asked.text.removeprefix('azureml:')!r}"
    make = f"Make it: drumbeat environment create {asked.name} --conda FILE (or --requirements FILE)"
    here = f"or say what it means here: drumbeat alias set environment {asked.name} {CURRENT}"
    return UnknownNameError(what, where="environment", fix=f"{close} {make}; {here}".strip())


def current_notes(environment: ResolvedEnvironment, *commands: str) -> Iterator[str]:
    """Yields notes on commands that install packages into the current environment."""
    match = next((match for each in commands if (match := _INSTALLS.search(each))), None)
    if match and environment.python is None and not environment.image:
        yield (
            f"`{match[0]}` changes the Python that every job without an environment runs in; what a job installs is "
            "its own where it names an environment (environment: {conda_file: requirements.txt})"
        )


# --- how one is kept --------------------------------------------------------------------------------------------
def to_document(written: Mapping[str, Any], texts: EnvironmentFiles) -> dict[str, object]:
    """What is kept of an environment: as a user wrote it, with the texts of its files."""
    built = {"context": texts.context, "dockerfile": texts.dockerfile} if texts.dockerfile else {}
    return {
        **built,
        "environment": {key: value for key, value in written.items() if key not in ("name", "version")},
        "main": texts.main,
        "files": dict(texts.files),
        "lines": [*texts.lines],
    }


def stored_files(document: Mapping[str, Any]) -> EnvironmentFiles:
    """The files that are kept with an environment."""
    return EnvironmentFiles(
        str(document.get("main", "")),
        dict(document.get("files") or {}),
        tuple(document.get("lines") or ()),
        str(document.get("context", "")),
        str(document.get("dockerfile", "")),
    )


def about(document: Mapping[str, Any]) -> str:
    """What a user says that it is for, "" = nothing."""
    written: Mapping[str, Any] = document.get("environment") or {}
    return str(written.get("description") or "")


def define_version(one: Registered, python: tuple[int, int], *, has_containers: bool = True) -> Definition:
    """What nodes make for a version that a user made."""
    written = Environment.made(one.document["environment"])
    return define(written, stored_files(one.document), python, has_containers=has_containers)

"""The definition of an environment: a Python with its packages, and its key; or an image, pulled or built.

The keys that a user writes are in `environment_keys.py`.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from drumbeat.jobfile.environments import conda, requirements, sources
from drumbeat.jobfile.environments.curated import Curated, curated_image, for_name
from drumbeat.jobfile.environments.environment_keys import BuildContext, Environment
from drumbeat.jobfile.environments.included_files import is_requirements
from drumbeat.jobfile.environments.requirements import RequirementLine
from drumbeat.jobfile.reading.error_messages import short
from drumbeat.model.api.requests import EnvironmentFiles
from drumbeat.model.errors import RefusedError, SpecError
from drumbeat.model.plan import BUILT, PythonEnvironment, SourceBuild
from drumbeat.model.wire import to_wire


@dataclass(frozen=True)
class Build:
    """A Dockerfile and the folder around it. context: SHA-256 of the folder's snapshot. text: the Dockerfile.

    dockerfile: its path in the folder; source: as messages call it.
    """

    context: str
    dockerfile: str
    source: str
    text: str

    @property
    def key(self) -> str:
        """SHA-256 of the content: the same for two folders that a node would build alike."""
        return hashlib.sha256(json.dumps([self.context, self.dockerfile]).encode()).hexdigest()


@dataclass(frozen=True)
class Definition:
    """What a node builds. source: the file that it was read from. notes: deviations from the file.

    image: what it runs containers of; then it makes no Python environment. build: how it makes that image, None = it is
    pulled. builds: of the packages that are built from source.
    """

    python: str = ""
    lines: tuple[RequirementLine, ...] = ()
    packages: tuple[str, ...] = ()
    channels: tuple[str, ...] = ()
    source: str = ""
    notes: tuple[str, ...] = field(default=())
    image: str = ""
    build: Build | None = None
    builds: tuple[SourceBuild, ...] = ()

    def environment(self, name: str) -> PythonEnvironment | None:
        """Returns the environment in the form that nodes get."""
        if self.image:
            return None
        return PythonEnvironment(
            key=environment_key(self),
            name=name,
            python=self.python,
            requirements=tuple(line.text for line in self.lines),
            conda=self.packages,
            channels=self.channels,
            source=self.source,
            lines=tuple(line.of for line in self.lines),
            builds=self.builds,
        )


def environment_key(made: Definition) -> str:
    """SHA-256 of the content: the same for two definitions that a node would make alike.

    The order of requirements and packages doesn't matter, nor how they are spelt; that of pip's options and of channels
    does. Names of environments and files aren't in it.
    """
    options = [line.text for line in made.lines if requirements.is_option(line.text)]
    wanted = {requirements.normal(line) for line in made.lines if not requirements.is_option(line.text)}
    packages = {re.sub(r"\s+", "", one).lower() for one in made.packages}
    content: list[object] = [made.python, options, sorted(wanted), sorted(packages), [*made.channels]]
    content += [to_wire(one) for one in made.builds]
    return hashlib.sha256(json.dumps(content, separators=(",", ":")).encode()).hexdigest()


def define(
    written: Environment, texts: EnvironmentFiles, own: tuple[int, int], *, has_containers: bool = True
) -> Definition:
    """What a node makes of an environment: of its packages where it names some, else of its image.

    own: the server's Python. has_containers: whether a node may be able to run containers; where none is, packages that
    stand beside a Dockerfile are taken in its place. Raises SpecError, at a line where there is one.
    """
    if written.os_type == "windows":
        raise RefusedError("environments for Windows aren't supported", where="environment.os_type")
    if written.build and texts.dockerfile and (has_containers or not texts.main):
        made = _built(written.build, texts)
    else:
        made = _made(written, texts, own)
    if written.drumbeat.from_source:
        made = replace(made, builds=sources.builds(written.drumbeat.from_source, made.lines))
    return replace(made, notes=(*made.notes, *_notes(written, texts, is_built=made.build is not None)))


def _built(build: BuildContext, texts: EnvironmentFiles) -> Definition:
    """An image that the nodes build."""
    if not texts.context or texts.dockerfile not in texts.files:
        what = f"the folder {short(build.path)} didn't come with the request"
        raise SpecError(what, where="environment.build", fix="A client packs it and sends it first.")
    made = Build(texts.context, build.dockerfile_path, texts.dockerfile, texts.files[texts.dockerfile])
    return Definition(image=f"{BUILT}:{made.key[:32]}", build=made)


def _made(written: Environment, texts: EnvironmentFiles, own: tuple[int, int]) -> Definition:
    if isinstance(written.conda_file, Mapping):
        return _from_conda(conda.read_table(texts, written.conda_file, own), texts.main or "conda_file")
    if texts.main:
        _check_texts(texts)
        return define_file(texts, texts.main, own)
    if written.conda_file is not None:
        what = f"the file {short(written.conda_file)} didn't come with the request"
        raise SpecError(what, where="environment.conda_file", fix="A client reads it and sends its text.")
    return _without_file(written, own)


def _without_file(written: Environment, own: tuple[int, int]) -> Definition:
    if written.image:
        named = curated_image(written.image)
        if named is not None:
            name, curated = named
            definition, version = for_name(curated, name, own)
            note = f"the image {written.image} isn't used: its packages are those of drumbeat's {curated.title!r}"
            return replace(define_curated(definition), notes=(f"{note}; {version}" if version else note,))
        return Definition(image=written.image)
    where = f"{written.build.path}/{written.build.dockerfile_path}" if written.build else "environment"
    what = f"there is no Dockerfile at {short(where)}, or it didn't come with the request"
    fix = "`build.path` names the folder, `build.dockerfile_path` the file in it."
    raise SpecError(what, where="environment.build", fix=fix)


def _notes(written: Environment, texts: EnvironmentFiles, *, is_built: bool) -> tuple[str, ...]:
    notes: list[str] = []
    if written.image and written.conda_file is not None:
        notes.append(f"the image {written.image} isn't used: the nodes make the Python environment of its conda file")
    if written.build and not is_built:
        why = "there is no Podman and no Docker here" if texts.dockerfile else "the folder has none"
        notes.append(f"no Dockerfile is used, for {why}: the nodes make the Python environment of {texts.main}")
    if written.inference_config is not None:
        notes.append("environment.inference_config counts in deployments of endpoints, and changes nothing in jobs")
    if written.datastore is not None:
        notes.append("environment.datastore is for build folders in a cloud and changes nothing here")
    return tuple(notes)


def _check_texts(texts: EnvironmentFiles) -> None:
    if texts.main not in texts.files:
        raise SpecError(f"the file {short(texts.main)} didn't come with the request", where="environment")


def define_file(texts: EnvironmentFiles, name: str, own: tuple[int, int]) -> Definition:
    """What a requirements file or a conda file says, by its name."""
    if is_requirements(name):
        return Definition(lines=tuple(requirements.read(texts, name)), source=name)
    return _from_conda(conda.read(texts, name, own), name)


def _from_conda(read: conda.Conda, source: str) -> Definition:
    return Definition(read.python, read.lines, read.packages, read.channels, source, read.notes)


def define_curated(curated: Curated) -> Definition:
    """What nodes make for a curated name."""
    return replace(define_requirements(curated.requirements, curated.source), builds=curated.builds)


def define_requirements(text: str, source: str) -> Definition:
    """What a text of requirements says."""
    return Definition(lines=tuple(requirements.read(EnvironmentFiles(source, {source: text}), source)), source=source)

"""What an environment comes to: a Python and what is installed into it, and its key; or an image."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from drumbeat.protocol.errors import NotYetError, RefusedError, SpecError
from drumbeat.protocol.plan import PythonEnvironment, SourceBuild
from drumbeat.protocol.wire import to_wire
from drumbeat.spec.environment import Environment
from drumbeat.spec.environments import conda, requirements, sources
from drumbeat.spec.environments.curated import Curated, curated_image
from drumbeat.spec.environments.requirements import Line
from drumbeat.spec.environments.texts import Texts, is_requirements
from drumbeat.spec.problems import short

CURRENT_INSTEAD = (
    "or say what it means here: drumbeat alias set environment NAME current; "
    "or run in the interpreter that is there: `drumbeat: {environment: current}` in the job"
)


@dataclass(frozen=True)
class Definition:
    """What a node makes. source: the file that it was read from. notes: what is done otherwise than written.

    image: what it runs containers of; then it makes nothing. builds: of the packages that are built from source.
    """

    python: str = ""
    lines: tuple[Line, ...] = ()
    packages: tuple[str, ...] = ()
    channels: tuple[str, ...] = ()
    source: str = ""
    notes: tuple[str, ...] = field(default=())
    image: str = ""
    builds: tuple[SourceBuild, ...] = ()

    def environment(self, name: str) -> PythonEnvironment | None:
        """The same as nodes get it."""
        if self.image:
            return None
        return PythonEnvironment(
            key=key_of(self),
            name=name,
            python=self.python,
            requirements=tuple(line.text for line in self.lines),
            conda=self.packages,
            channels=self.channels,
            source=self.source,
            lines=tuple(line.of for line in self.lines),
            builds=self.builds,
        )


def key_of(made: Definition) -> str:
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


def define(written: Environment, texts: Texts, own: tuple[int, int]) -> Definition:
    """What a node makes of an environment: of its packages where it names some, else of its image.

    own: the server's Python. Raises SpecError at a line; NotYetError, with what to do, for an image to build.
    """
    if written.os_type == "windows":
        raise RefusedError("environments for Windows can't be made here", where="environment.os_type")
    made = _made(written, texts, own)
    if written.drumbeat.from_source:
        made = replace(made, builds=sources.builds(written.drumbeat.from_source, made.lines))
    return replace(made, notes=(*made.notes, *_notes(written)))


def _made(written: Environment, texts: Texts, own: tuple[int, int]) -> Definition:
    if isinstance(written.conda_file, Mapping):
        return _of_conda(conda.read_table(texts, written.conda_file, own), texts.main or "conda_file")
    if texts.main:
        _check_texts(texts)
        return define_file(texts, texts.main, own)
    if written.conda_file is not None:
        what = f"the file {short(written.conda_file)} didn't come with the request"
        raise SpecError(what, where="environment.conda_file", fix="A client reads it and sends its text.")
    return _without_file(written)


def _without_file(written: Environment) -> Definition:
    if written.image:
        known = curated_image(written.image)
        if known is not None:
            note = f"the image {written.image} isn't used: its packages are those of drumbeat's {known.title!r}"
            return replace(of_curated(known), notes=(note,))
        return Definition(image=written.image)
    what = "this version doesn't build images"
    fix = "Put a requirements.txt or a conda file beside the Dockerfile, or take `conda_file` instead of `build`"
    raise NotYetError(what, where="environment.build", fix=f"{fix}; {CURRENT_INSTEAD}.")


def _notes(written: Environment) -> tuple[str, ...]:
    notes: list[str] = []
    if written.image and written.conda_file is not None:
        notes.append(f"the image {written.image} isn't used: the nodes make the Python environment of its conda file")
    if written.build:
        notes.append("the Dockerfile isn't used: the nodes make the Python environment of the file beside it")
    if written.inference_config is not None:
        notes.append("environment.inference_config is for serving and changes nothing here")
    if written.datastore is not None:
        notes.append("environment.datastore is for build folders in a cloud and changes nothing here")
    return tuple(notes)


def _check_texts(texts: Texts) -> None:
    if texts.main not in texts.files:
        raise SpecError(f"the file {short(texts.main)} didn't come with the request", where="environment")


def define_file(texts: Texts, name: str, own: tuple[int, int]) -> Definition:
    """What a requirements file or a conda file says, by its name."""
    if is_requirements(name):
        return Definition(lines=tuple(requirements.read(texts, name)), source=name)
    return _of_conda(conda.read(texts, name, own), name)


def _of_conda(read: conda.Conda, source: str) -> Definition:
    return Definition(read.python, read.lines, read.packages, read.channels, source, read.notes)


def of_curated(known: Curated) -> Definition:
    """What nodes make for a curated name."""
    return replace(of_text(known.requirements, known.source), builds=known.builds)


def of_text(text: str, source: str) -> Definition:
    """What a text of requirements says."""
    return Definition(lines=tuple(requirements.read(Texts(source, {source: text}), source)), source=source)


def describe(made: PythonEnvironment) -> str:
    """`3 packages with pip, 1 with conda, Python 3.11; key 0123456789ab`."""
    pip = [one for one in made.requirements if not requirements.is_option(one)]
    parts = [f"{len(pip)} {'package' if len(pip) == 1 else 'packages'} with pip"]
    parts += [f"{len(made.conda)} with conda"] if made.conda else []
    parts += [f"{', '.join(one.package for one in made.builds)} from source"] if made.builds else []
    parts.append(f"Python {made.python}" if made.python else "any Python")
    return f"{', '.join(parts)}; key {made.key[:12]}"

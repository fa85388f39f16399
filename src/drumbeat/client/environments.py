"""The files that an environment names, read here and sent with it."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from drumbeat.protocol.errors import SpecError
from drumbeat.spec.environments.texts import MOST_FILES, Texts, beside, included
from drumbeat.spec.loader import read_text

if TYPE_CHECKING:
    from drumbeat.spec.shape import Model

    GivenEnvironment = str | Path | Mapping[str, Any] | Model

BESIDE = (
    "environment.yml", "environment.yaml", "conda.yml", "conda.yaml", "conda_dependencies.yml",
    "conda_dependencies.yaml", "requirements.txt",
)  # fmt: skip
"""What a build folder may have beside its Dockerfile, the first one first."""


@dataclass(frozen=True)
class Around:
    """Where an environment is written. base: what its paths count from. source, text: the file, "" = none.

    keys: what leads to it in there.
    """

    base: Path
    source: str = ""
    text: str = ""
    keys: tuple[str, ...] = ()


def texts_of(written: Mapping[str, Any], around: Around) -> Texts:
    """The files of an environment that is written out. Raises SpecError."""
    conda_file, build, base = written.get("conda_file"), written.get("build"), around.base
    if isinstance(conda_file, str):
        return _with_included(_plain(conda_file), base)
    if isinstance(conda_file, Mapping):
        return _written_out(cast("Mapping[str, Any]", conda_file), around)
    folder = cast("Mapping[str, Any]", build).get("path") if isinstance(build, Mapping) else None
    if isinstance(folder, str):
        there = next((one for one in BESIDE if (base / folder / one).is_file()), None)
        return _with_included(posixpath.join(_plain(folder), there), base) if there else Texts()
    return Texts()


def given(environment: GivenEnvironment, sets: Sequence[str]) -> dict[str, Any]:
    """The request that makes an environment: what a file, a mapping or an object describes. Raises SpecError."""
    from drumbeat.spec.environment import environment_from, load_environment
    from drumbeat.spec.writer import to_dict

    if isinstance(environment, str | Path):
        path = Path(environment)
        document = to_dict(load_environment(path, sets))
        around = Around(path.absolute().parent, str(environment), read_text(path))
        return _request(document, str(environment), around)
    if sets:
        raise SpecError("values are set in a file; this environment was made in Python", fix="Set them on the object.")
    made = environment_from(environment) if isinstance(environment, Mapping) else environment
    return _request(to_dict(made), "environment", Around(Path.cwd()))


def _request(document: dict[str, Any], source: str, around: Around) -> dict[str, Any]:
    return {"document": document, "source": source, "texts": body_of(texts_of(document, around))}


def body_of(texts: Texts) -> dict[str, Any]:
    """As a request carries it."""
    return {"main": texts.main, "files": texts.files, "lines": [*texts.lines]}


def _plain(path: str) -> str:
    if "://" in path and not path.startswith("file://"):
        raise SpecError(
            f"the file at {path} isn't fetched", where="conda_file", fix="Keep it beside, and name its path."
        )
    return posixpath.normpath(path.removeprefix("file://"))


def _with_included(main: str, base: Path) -> Texts:
    files: dict[str, str] = {}
    _take_in(main, base, files)
    return Texts(main, files)


def _take_in(name: str, base: Path, files: dict[str, str]) -> None:
    """A file and what it takes in. One that it can't is left out: the server says so, at the line that names it."""
    files[name] = read_text(base / Path(name).expanduser())
    _take_in_all(name, files[name], base, files)


def _take_in_all(name: str, text: str, base: Path, files: dict[str, str]) -> None:
    for other in included(text):
        path = beside(name, other)
        if path not in files and len(files) < MOST_FILES and (base / path).is_file():
            _take_in(path, base, files)


def _written_out(table: Mapping[str, Any], around: Around) -> Texts:
    from drumbeat.spec.environments.written_out import lines_of, requirements_in

    files: dict[str, str] = {}
    _take_in_all("", "\n".join(requirements_in(table)), around.base, files)
    lines = lines_of(around.text, (*around.keys, "conda_file"), table) if around.text else ()
    return Texts(Path(around.source).name, files, lines)

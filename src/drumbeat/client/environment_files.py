"""Reads the files that an environment names, and packs the folder that an image is built from."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from drumbeat.jobfile.data.paths import local_path
from drumbeat.jobfile.environments import conda
from drumbeat.jobfile.environments.included_files import beside, is_requirements
from drumbeat.jobfile.environments.requirements import included, included_by, refuse_secrets
from drumbeat.jobfile.reading.loader import read_text
from drumbeat.model import wire
from drumbeat.model.api.requests import MAX_FILES, EnvironmentFiles
from drumbeat.model.errors import SpecError

if TYPE_CHECKING:
    from drumbeat.jobfile.reading.model import Model

    GivenEnvironment = str | Path | Mapping[str, Any] | Model

Keep = Callable[[Path, str], str]
"""Packs and sends a folder; returns its digest. The text: the key that names it, for messages."""

_FILE = "file:"
BESIDE = (
    "environment.yml", "environment.yaml", "conda.yml", "conda.yaml", "conda_dependencies.yml",
    "conda_dependencies.yaml", "requirements.txt",
)  # fmt: skip
"""Files of packages beside a Dockerfile, the preferred one first."""


@dataclass(frozen=True)
class EnvironmentOrigin:
    """Where an environment is written. base: the folder that paths count from. source, text: the file, "" = none.

    keys: lead to it in the file.
    """

    base: Path
    source: str = ""
    text: str = ""
    keys: tuple[str, ...] = ()


def collect_files(written: Mapping[str, Any], around: EnvironmentOrigin, keep: Keep) -> EnvironmentFiles:
    """The files of an environment that is written out. Raises SpecError, also for credentials in them."""
    files = _collect_files(written, around, keep)
    refuse_secrets(files)
    return files


def _collect_files(written: Mapping[str, Any], around: EnvironmentOrigin, keep: Keep) -> EnvironmentFiles:
    conda_file, build, base = written.get("conda_file"), written.get("build"), around.base
    if isinstance(conda_file, str):
        return _with_included(_plain(conda_file, "conda_file"), base)
    if isinstance(conda_file, Mapping):
        return _written_out(cast("Mapping[str, Any]", conda_file), around)
    if isinstance(build, Mapping) and isinstance(cast("Mapping[str, Any]", build).get("path"), str):
        return _with_dockerfile(cast("Mapping[str, Any]", build), base, keep)
    return EnvironmentFiles()


def _with_dockerfile(build: Mapping[str, Any], base: Path, keep: Keep) -> EnvironmentFiles:
    """What may be built from a folder; and the packages that stand beside the Dockerfile."""
    folder = _plain(build["path"], "build.path")
    place = base / Path(folder).expanduser()
    packages = next((one for one in BESIDE if (place / one).is_file()), None)
    described = _with_included(posixpath.join(folder, packages), base) if packages else EnvironmentFiles()
    dockerfile = str(build.get("dockerfile_path") or "Dockerfile")
    if not (place / dockerfile).is_file():
        if packages:
            return described
        if not place.is_dir():
            raise SpecError(f"there is no folder {folder}", where="environment.build", fix=f"Paths count from {base}.")
        fix = f"The folder is {place}; `dockerfile_path` names another file in it."
        raise SpecError(f"there is no {dockerfile} in {folder}", where="environment.build", fix=fix)
    title = posixpath.join(folder, dockerfile)
    files = {**described.files, title: read_text(place / dockerfile)}
    return replace(described, files=files, context=keep(place, "environment.build.path"), dockerfile=title)


def with_environments(table: Mapping[str, Any], base: Path) -> dict[str, Any]:
    """A job, component or pipeline in which each `environment: file:PATH` is what that file describes.

    base: the folder that its paths count from. Raises SpecError.
    """
    made = dict(table)
    written = made.get("environment")
    if isinstance(written, str) and written.startswith(_FILE) and not written.startswith(f"{_FILE}//"):
        made["environment"] = _read(base / Path(written.removeprefix(_FILE)).expanduser(), written)
    for key in ("trial", "component", "task"):
        if isinstance(made.get(key), dict):
            made[key] = with_environments(made[key], base)
    if isinstance(made.get("jobs"), dict):
        steps = cast("dict[str, Any]", made["jobs"])
        made["jobs"] = {
            name: with_environments(cast("dict[str, Any]", step), base) if isinstance(step, dict) else step
            for name, step in steps.items()
        }
    return made


def _read(path: Path, written: str) -> dict[str, Any]:
    from drumbeat.jobfile.environments.environment_keys import load_environment
    from drumbeat.jobfile.pipelines.absolute_paths import environment_with_absolute_paths
    from drumbeat.jobfile.reading.writer import to_dict

    if not path.is_file():
        raise SpecError(f"there is no file {path}", where=f"environment: {written}", fix="It describes an environment.")
    return environment_with_absolute_paths(to_dict(load_environment(path)), path.absolute().parent)


def given(environment: GivenEnvironment, sets: Sequence[str], keep: Keep) -> dict[str, Any]:
    """The request that makes an environment: what a file, a mapping or an object describes. Raises SpecError."""
    from drumbeat.jobfile.environments.environment_keys import environment_from, load_environment
    from drumbeat.jobfile.reading.writer import to_dict

    if isinstance(environment, str | Path):
        path = Path(environment)
        document = to_dict(load_environment(path, sets))
        around = EnvironmentOrigin(path.absolute().parent, str(environment), read_text(path))
        return _request(document, str(environment), around, keep)
    if sets:
        raise SpecError("values are set in a file; this environment was made in Python", fix="Set them on the object.")
    made = environment_from(environment) if isinstance(environment, Mapping) else environment
    return _request(to_dict(made), "environment", EnvironmentOrigin(Path.cwd()), keep)


def _request(document: dict[str, Any], source: str, around: EnvironmentOrigin, keep: Keep) -> dict[str, Any]:
    return {"document": document, "source": source, "texts": wire.to_wire(collect_files(document, around, keep))}


def _plain(path: str, key: str) -> str:
    local = local_path(path)
    if local is None and "://" in path:
        raise SpecError(f"what lies at {path} isn't fetched", where=key, fix="Keep it beside, and name its path.")
    return posixpath.normpath(path if local is None else local)


def _with_included(main: str, base: Path) -> EnvironmentFiles:
    text = read_text(base / Path(main).expanduser())
    files = {main: text}
    _take_in(main, included(text) if is_requirements(main) else conda.included(text), base, files)
    return EnvironmentFiles(main, files)


def _take_in(name: str, others: Sequence[str], base: Path, files: dict[str, str]) -> None:
    """The files that a file names. One that isn't there is left out: the server says so, at the line that names it."""
    for other in others:
        path = beside(name, other)
        if path not in files and len(files) < MAX_FILES and (base / path).is_file():
            files[path] = read_text(base / path)
            _take_in(path, included(files[path]), base, files)


def _written_out(table: Mapping[str, Any], around: EnvironmentOrigin) -> EnvironmentFiles:
    from drumbeat.jobfile.environments.inline_conda import requirement_lines, requirements_in

    files: dict[str, str] = {}
    _take_in("", included_by(requirements_in(table)), around.base, files)
    lines = requirement_lines(around.text, (*around.keys, "conda_file"), table) if around.text else ()
    return EnvironmentFiles(Path(around.source).name, files, lines)

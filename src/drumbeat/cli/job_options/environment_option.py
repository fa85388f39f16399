"""Translates `--env` to the keys of a job file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from drumbeat.jobfile.environments.included_files import is_requirements
from drumbeat.jobfile.reading.error_messages import nearest
from drumbeat.model.errors import SpecError

OPTION = "--env"
IMAGE = "image:"
FILE_SUFFIXES = (".txt", ".in", ".yml", ".yaml", ".json")
FORMS = (
    "An environment is requirements.txt, conda.yml, a folder with a Dockerfile, image:NAME for a container image, or a "
    "name: drumbeat environment list"
)


def parse_environment(text: str, folder: Path) -> str | dict[str, Any]:
    """Returns the environment of a job. folder: paths count from it. Raises SpecError."""
    if text.startswith(IMAGE):
        image = text.removeprefix(IMAGE).strip()
        if not image:
            raise SpecError("no image follows `image:`", where=OPTION, fix="For example: --env image:python:3.12")
        return {"image": image}
    if text.startswith("azureml:") or not _is_path(text):
        from drumbeat.jobfile.environments.references import parse_reference

        return _reference(parse_reference, text)
    place = folder / Path(text).expanduser()
    if place.is_dir():
        return _build(text, place)
    if not place.is_file():
        names = [entry.name for entry in place.parent.iterdir()] if place.parent.is_dir() else []
        raise SpecError(
            f"there is nothing at {text}", where=f"{OPTION} {text}", fix=f"{nearest(place.name, names)} {FORMS}".strip()
        )
    return _file(text, place)


def _is_path(text: str) -> bool:
    return "/" in text or text.startswith((".", "~")) or text.endswith(FILE_SUFFIXES)


def _reference(parse: Any, text: str) -> str:
    try:
        parse(text)
    except SpecError as error:
        raise SpecError(error.what, where=OPTION, fix=FORMS) from None
    return text


def _build(text: str, place: Path) -> dict[str, Any]:
    if not (place / "Dockerfile").is_file():
        raise SpecError("this folder has no Dockerfile", where=f"{OPTION} {text}", fix=FORMS)
    return {"build": {"path": text}}


def _file(text: str, place: Path) -> dict[str, Any]:
    """Returns the environment for a requirements or conda file."""
    if is_requirements(place.name):
        return {"conda_file": text}
    if not place.name.endswith(FILE_SUFFIXES):
        what = "the file's name says neither that it is a requirements file (.txt, .in) nor a conda file (.yml, .yaml)"
        raise SpecError(what, where=f"{OPTION} {text}", fix="Rename it, or pass another one.")
    keys = _keys(place)
    if "dependencies" not in keys:
        is_environment = keys & {"image", "conda_file", "build"}
        what = (
            "this file describes an environment"
            if is_environment
            else "this isn't a conda file: it has no `dependencies`"
        )
        create = f"Register it, then use its name: drumbeat environment create -f {text}"
        raise SpecError(what, where=f"{OPTION} {text}", fix=create if is_environment else FORMS)
    return {"conda_file": text}


def _keys(place: Path) -> set[str]:
    from drumbeat.jobfile.reading.loader import read_text
    from drumbeat.jobfile.reading.yaml_tree import parse

    root = parse(read_text(place), str(place), "`dependencies:`")
    return {*root.value} if isinstance(root.value, dict) else set()

"""Translates `--input` and `--output` to the keys of a job file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from drumbeat.jobfile.reading.error_messages import nearest, shown
from drumbeat.jobfile.reading.yaml_tree import plain_word, unquoted
from drumbeat.model.errors import SpecError

LOCAL_STARTS = ("./", "../", "/", "~/")
LOCAL_WORDS = (".", "..", "~")


def parse_inputs(options: Sequence[str], folder: Path) -> dict[str, Any]:
    """Returns the inputs, by name. folder: paths count from it. Raises SpecError."""
    return {name: _input(name, value, folder) for name, value in _pairs(options, "--input")}


def parse_outputs(options: Sequence[str]) -> dict[str, Any]:
    """Returns the outputs, by name: folders. Raises SpecError."""
    named = _pairs([one if "=" in one else f"{one}=" for one in options], "--output", is_empty_allowed=True)
    return {name: {"type": "uri_folder", **({"path": path} if path else {})} for name, path in named}


def literals_in(inputs: dict[str, Any]) -> dict[str, object]:
    """Returns the inputs that are plain values."""
    return {name: value for name, value in inputs.items() if not isinstance(value, dict)}


def _pairs(options: Sequence[str], option: str, *, is_empty_allowed: bool = False) -> Iterator[tuple[str, str]]:
    seen: set[str] = set()
    for typed in options:
        name, equals, value = (part.strip() for part in typed.partition("="))
        if not name or not equals or not (value or is_empty_allowed):
            what = f"{shown(typed)} isn't `NAME=VALUE`"
            raise SpecError(what, where=option, fix=f"For example: {option} data=./folder")
        if name in seen:
            raise SpecError(f"`{name}` is given twice", where=option, fix="Keep one of them, or rename one.")
        seen.add(name)
        yield name, value


def _input(name: str, value: str, folder: Path) -> object:
    """Returns a mapping for data, else the plain value."""
    where = f"--input {name}"
    inside = unquoted(value)
    if inside is not None:
        return inside
    if value.startswith("azureml:") or "://" in value:
        return _remote(value, where, folder)
    if value in LOCAL_WORDS or value.startswith(LOCAL_STARTS) or "/" in value:
        return _local(name, value, folder)
    if _exists(folder / value):
        what = f"`{value}` can be the text or what lies at this path"
        raise SpecError(
            what, where=where, fix=f"""Write {name}=./{value} for the data, or {name}='"{value}"' for the text."""
        )
    return plain_word(value, ("inputs", name))


def _remote(value: str, where: str, folder: Path) -> dict[str, Any]:
    """Returns the entry for data elsewhere. Data by name has the type that it was registered with."""
    from drumbeat.jobfile.data.paths import Address, AssetReference, Local, reference_to

    match reference_to(value, where):
        case Local(path):
            return _local(where.removeprefix("--input "), path, folder) | {"path": value}
        case AssetReference():
            return {"path": value}
        case Address(uri) if uri.startswith(("http://", "https://")):
            return {"type": "uri_folder" if uri.endswith("/") else "uri_file", "path": value}
        case _:
            is_file = bool(PurePosixPath(value).suffix) and not value.endswith("/")
            return {"type": "uri_file" if is_file else "uri_folder", "path": value}


def _local(name: str, value: str, folder: Path) -> dict[str, Any]:
    place = folder / Path(value).expanduser()
    if not _exists(place):
        names = [entry.name for entry in place.parent.iterdir()] if place.parent.is_dir() else []
        near = nearest(place.name, names) or f"Paths count from {folder}."
        raise SpecError(
            f"there is nothing at {value}",
            where=f"--input {name}",
            fix=f"""{near} In double quotes within single ones it is a text: --input {name}='"{value}"'""",
        )
    return {"type": "uri_folder" if place.is_dir() else "uri_file", "path": value}


def _exists(place: Path) -> bool:
    try:
        return place.exists()
    except (OSError, ValueError):  # Too long for a name, or with a NUL in it.
        return False

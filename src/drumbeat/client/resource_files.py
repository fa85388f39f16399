"""Named things: from what a user wrote to what the server takes.

A secret needn't stand in a file: `env:NAME` in its place is read from this machine's environment, `file:PATH` from a
file of its own.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from drumbeat.model.errors import SpecError
from drumbeat.resources.kind import CREDENTIALS as KEY
from drumbeat.resources.kind import Kind

if TYPE_CHECKING:
    from drumbeat.jobfile.reading.model import Model

    Given = str | Path | Mapping[str, Any] | Model

ENVIRONMENT, FILE = "env:", "file:"


def described(kind: Kind[Any], given: Given, sets: Sequence[str] = ()) -> tuple[dict[str, Any], str]:
    """A resource as a document, its secrets in the clear, and where it was written. Raises SpecError."""
    from drumbeat.jobfile.data.credentials import split

    model, base, source = _read(kind, given, sets)
    document, secrets = split(kind.anchored(model, base))
    return {**document, **({KEY: secrets} if secrets else {})}, source


def _read(kind: Kind[Any], given: Given, sets: Sequence[str]) -> tuple[Model, Path, str]:
    """The model, the folder that relative paths in it count from, and where it was written."""
    from drumbeat.jobfile.reading.loader import load_model

    if isinstance(given, str | Path):
        file = Path(given)
        return load_model(given, kind.model(), [*sets, *looked_up(file, sets)]), file.absolute().parent, str(given)
    if sets:
        fix = "Set them on the object."
        raise SpecError(f"values are set in a file; this {kind.noun} was made in Python", fix=fix)
    model = kind.read({**given, **resolved(given, Path.cwd())}) if isinstance(given, Mapping) else given
    return model, Path.cwd(), kind.name


def looked_up(file: Path, sets: Sequence[str]) -> list[str]:
    """What stands for a secret in a file, as further settings; a file that can't be read is refused by its reader."""
    from drumbeat.jobfile.reading.loader import read_text
    from drumbeat.jobfile.reading.overrides import apply
    from drumbeat.jobfile.reading.yaml_tree import parse, plain, quoted

    try:
        root = parse(read_text(file).removeprefix("\ufeff"), str(file))
    except SpecError:
        return []
    if not isinstance(root.value, dict):
        return []
    document: dict[str, Any] = plain(root, str(file))
    apply(document, sets)
    secrets = resolved(document, file.absolute().parent).get(KEY, {})
    return [f"{KEY}.{key}={quoted(value)}" for key, value in secrets.items() if value != document[KEY][key]]


def resolved(document: Mapping[str, Any], base: Path) -> dict[str, Any]:
    """The credentials with each reference replaced; {} where there are none to replace."""
    given = document.get(KEY)
    if not isinstance(given, Mapping):
        return {}
    table = cast("Mapping[str, Any]", given)
    return {KEY: {key: _value(key, value, base) for key, value in table.items()}}


def _value(key: str, value: Any, base: Path) -> Any:
    where = f"{KEY}.{key}"
    if not isinstance(value, str):
        return value
    if value.startswith(ENVIRONMENT):
        name = value.removeprefix(ENVIRONMENT).strip()
        if not os.environ.get(name):
            what = (
                f"the environment has no variable {name!r}" if name not in os.environ else f"variable {name} is empty"
            )
            raise SpecError(what, where=where, fix=f"Set it where you type this: export {name}=…")
        return os.environ[name]
    if value.startswith(FILE):
        place = base / Path(value.removeprefix(FILE).removeprefix("//")).expanduser()
        try:
            return place.read_text()
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "it isn't text"
            raise SpecError(f"{place} can't be read: {reason}", where=where) from None
    return value

"""Datastores: from what a person wrote to what the server takes.

A secret needn't stand in a file: `env:NAME` in its place is read from this machine's environment, `file:PATH` from a
file of its own.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from drumbeat.protocol.errors import SpecError

if TYPE_CHECKING:
    from drumbeat.dialect.data.datastores import Datastore
    from drumbeat.dialect.reading.frozen_model import Model

    GivenDatastore = str | Path | Mapping[str, Any] | Model

ENVIRONMENT, FILE = "env:", "file:"
KEY = "credentials"


def described(datastore: GivenDatastore, sets: Sequence[str] = ()) -> tuple[dict[str, Any], str]:
    """The datastore as a document, its secrets in the clear, and where it was written. Raises SpecError."""
    from drumbeat.dialect.data.datastores import anchored, datastore_from, load_datastore

    if isinstance(datastore, str | Path):
        loaded = load_datastore(datastore, [*sets, *looked_up(Path(datastore), sets)])
        return _whole(loaded), str(datastore)
    if sets:
        raise SpecError("values are set in a file; this datastore was made in Python", fix="Set them on the object.")
    if isinstance(datastore, Mapping):
        given = {**datastore, **resolved(datastore, Path.cwd())}
        datastore = datastore_from(given)
    return _whole(anchored(cast("Datastore", datastore), Path.cwd())), "datastore"


def _whole(datastore: Any) -> dict[str, Any]:
    from drumbeat.dialect.data.datastores import split

    document, secrets = split(datastore)
    return {**document, **({KEY: secrets} if secrets else {})}


def looked_up(file: Path, sets: Sequence[str]) -> list[str]:
    """What stands for a secret in a file, as further settings; a file that can't be read is refused by its reader."""
    from drumbeat.dialect.reading.loader import read_text
    from drumbeat.dialect.reading.overrides import apply
    from drumbeat.dialect.reading.yaml_tree import parse, plain, quoted

    try:
        root = parse(read_text(file).removeprefix("\ufeff"), str(file))
    except SpecError:
        return []
    if not isinstance(root.value, dict):
        return []
    document: dict[str, Any] = plain(root, str(file))
    apply(document, sets)
    found = resolved(document, file.absolute().parent).get(KEY, {})
    return [f"{KEY}.{key}={quoted(value)}" for key, value in found.items() if value != document[KEY][key]]


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

"""What `data create` and `model create` do alike: a version is registered from a file, from options, or from both."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from drumbeat.cli.commands.download import progress
from drumbeat.cli.terminal.untrusted_text import make_safe
from drumbeat.model.errors import SpecError

V = TypeVar("V")


def register(
    create: Callable[..., V],
    noun: str,
    file: Path | None,
    sets: Sequence[str] | None,
    options: Mapping[str, str | None],
) -> V:
    """Returns the version that `create` makes of a file, with the options instead of its keys, or of options alone.

    create: a method of the client. noun: `data` or `model`. options: by the keys of the file; None = not given. Raises
    SpecError.
    """
    given = {key: value for key, value in options.items() if value is not None}
    with progress() as advance:
        if file is not None:
            from drumbeat.jobfile.reading.yaml_tree import quoted

            added = [f"{key}={quoted(value)}" for key, value in given.items()]
            return create(file, sets=[*(sets or []), *added], on_bytes=advance, on_note=print_note)
        _require_complete(given, noun, has_sets=bool(sets))
        try:
            return create(given, on_bytes=advance, on_note=print_note)
        except SpecError as error:
            raise with_options(error) from None


def print_note(sentence: str) -> None:
    """Prints a remark of the client beside the command's output."""
    print(f"note: {make_safe(sentence)}", file=sys.stderr)


def _require_complete(options: Mapping[str, str], noun: str, *, has_sets: bool) -> None:
    if has_sets:
        raise SpecError("--set changes a value of a file, and none was named", where="--set", fix="Name it with -f.")
    if "name" not in options or "path" not in options:
        what = f"say what the {noun} is: name a file with -f, or give a name and a path"
        example = {"data": "./digits", "model": "./model"}[noun]
        raise SpecError(what, fix=f"For example: drumbeat {noun} create digits --path {example}")


def with_options(error: SpecError) -> SpecError:
    """Returns the error with advice that names options instead of keys of a file."""
    fix = re.sub(r"`(name|path|type|version|datastore): ([^`]+)`", r"`--\1 \2`", error.fix)
    return SpecError(error.what, where=error.where, fix=fix, fields=error.fields)

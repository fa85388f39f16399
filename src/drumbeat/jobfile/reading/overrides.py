"""`--set key.path=value`: one value of a job file, changed before the file is checked."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import cast

from drumbeat.jobfile.reading.error_messages import either, short, shown
from drumbeat.jobfile.reading.yaml_tree import is_name, parse, plain, plain_word, stays_text, unquoted
from drumbeat.model.errors import Problem, SpecError

DECLARED = ("inputs", "outputs", "search_space", "jobs")
"""Tables whose names the file gives: a new one from the command line would be a typing error."""

FLOW = ("{", "[")
"""The beginnings of a YAML mapping or list on the command line."""
TEXTS = ("command", "description", "display_name", "experiment_name", "name")
TABLES_OF_TEXTS = (["environment_variables"], ["tags"], ["properties"])

Table = dict[str, object]
Path = tuple[str | int, ...]


PARAMETER_TYPES = ("string", "number", "integer", "boolean")
"""Types of an input whose value is a `default` (`jobfile/data/inputs_outputs.py`); other types have a `path`."""


@dataclass(frozen=True)
class Override:
    """A value from outside of the file."""

    where: str
    """`--set key.path`, for messages."""
    value: str
    """The value as it was typed."""


def apply(document: Table, overrides: Sequence[str]) -> tuple[dict[Path, Override], list[Problem]]:
    """Changes `document`; gives the setting that each changed path came from, and what couldn't be set."""
    changed: dict[Path, Override] = {}
    problems: list[Problem] = []
    for override in overrides:
        key, equals, written = override.partition("=")
        words = key.strip().split(".")
        where = f"--set {short(key.strip(), 80)}"
        if not equals or not all(words):
            problems.append(Problem(f"{shown(override)} isn't `key=value`", "--set", "Write `--set inputs.epochs=3`."))
            continue
        try:
            changed[_set(document, words, written)] = Override(where, written.strip())
        except LookupError as error:
            what, fix = error.args
            problems.append(Problem(what, where, fix))
    return changed, problems


def _set(document: Table, words: list[str], written: str) -> Path:
    """Descends to the last mapping, creating missing ones, and sets the value."""
    owner: object = document
    path: list[str | int] = []
    for depth, word in enumerate(words[:-1]):
        key = _key(owner, word, words[:depth])
        inner = _get(owner, key)
        if inner is None:
            _declared(owner, words[: depth + 1])
            _put(owner, key, inner := Table())
        owner = inner
        path.append(key)
    last = _key(owner, words[-1], words[:-1])
    _declared(owner, words)
    _fill(owner, last, _value(words, written), is_input=_is_input(words))
    return (*path, last)


def _fill(owner: object, key: str | int, value: object, *, is_input: bool) -> None:
    """Sets the value; where a mapping describes the value, the part of it that holds it."""
    described = _get(owner, key)
    part = _part(cast("Table", described), is_input=is_input) if isinstance(described, dict) else ""
    if part and value is not None and not isinstance(value, dict):
        _put(cast("object", described), part, value)
    else:
        _put(owner, key, cast("object", value))


def _part(described: Table, *, is_input: bool) -> str:
    """The key that holds the value, "" = the mapping describes none."""
    for part in ("path", "default"):
        if part in described:
            return part
    if not is_input:
        return ""
    return "default" if str(described.get("type")).casefold() in PARAMETER_TYPES else "path"


def _is_input(words: list[str]) -> bool:
    """Whether the last word is the name of an input, of a job or of a step."""
    return words[-2:-1] == ["inputs"] and is_name(tuple(words))


def _get(owner: object, key: str | int) -> object:
    return cast("list[object]", owner)[key] if isinstance(key, int) else cast("Table", owner).get(key)


def _put(owner: object, key: str | int, value: object) -> None:
    if isinstance(key, int):
        cast("list[object]", owner)[key] = value
    else:
        cast("Table", owner)[key] = value


def _value(words: list[str], written: str) -> object:
    text = written.strip()
    inside = unquoted(text)
    if inside is not None:
        return inside
    path = tuple("" if part.isdigit() else part for part in words)
    if text[:1] in FLOW and not _wants_text(words):
        with suppress(SpecError):  # No YAML is a text: its place says whether it takes one.
            tree: object = plain(parse(text, "--set"), "--set", path)
            if not _is_input(words) or _describes(tree):
                return tree
    return text if not text and stays_text(path) else plain_word(text, path)


def _wants_text(words: list[str]) -> bool:
    """Whether the place takes a text only, in which brackets are letters."""
    return (words[-1] in TEXTS and not is_name(tuple(words))) or words[-2:-1] in TABLES_OF_TEXTS


def _describes(value: object) -> bool:
    """Whether a mapping describes an input: a literal one is a text in brackets."""
    return isinstance(value, dict) and not {"type", "path", "default"}.isdisjoint(cast("Table", value))


def _key(owner: object, word: str, above: list[str]) -> str | int:
    """The word as a key of `owner`; LookupError(what, fix) if `owner` has no keys, or not this one."""
    if isinstance(owner, dict):
        return word
    name = ".".join(above)[:80]
    if isinstance(owner, list):
        size = len(cast("list[object]", owner))
        if word.isascii() and word.isdigit() and len(word) < 9 and int(word) < size:
            return int(word)
        raise LookupError(f"`{name}` is a list of {size}; {shown(word)} is none of its places", "Places count from 0.")
    raise LookupError(f"`{name}` is {shown(owner)} and has no key {shown(word)}", f"Set `{name}` itself.")


def _declared(owner: object, words: list[str]) -> None:
    if len(words) == 2 and words[0] in DECLARED and words[1] not in (owner := cast("Table", owner)):
        what = f"the file has no {shown(words[1])} under `{words[0]}`"
        raise LookupError(what, either(words[1], owner, "It has") or "Add it to the file first.")

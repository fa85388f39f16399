"""Words refusals: pydantic's errors become `Problem`s with a sentence, a place and a fix.

Also here: showing a value briefly, listing words, and the nearest valid name. No model lives here.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, Protocol, cast

from drumbeat.model.errors import Problem
from drumbeat.model.plurals import list_first

if TYPE_CHECKING:
    from pydantic import ValidationError
    from pydantic_core import ErrorDetails


class KeyTable(Protocol):
    """The class of a model, as far as messages about its keys need it."""

    @property
    def noun(self) -> str:
        """What messages call the document."""
        ...

    @property
    def read_only(self) -> frozenset[str]:
        """Keys that only a service writes."""
        ...

    def key_names(self) -> list[str]:
        """The valid keys."""
        ...


Seen = dict[int, KeyTable]
"""Which model read the mapping with this id(); valid while the document is alive."""

Place = Callable[[tuple[str | int, ...], str, str], str]
"""Gives the `where` of a key path: at its "key", at its "value", or, for "missing", at the mapping that lacks a key.

The third argument is a text to look for inside of the value, or "".
"""

Quoting = Callable[[tuple[str | int, ...], str], str]
"""Gives the advice to write the value of a key path as a text, which is given as Python prints it.

"" = the value is a secret, or may be one, and the advice doesn't show it.
"""

IN_QUOTES = "Put it in quotes."
"""The advice for a value of a file that has to be a text and isn't to be shown; a value of `--set` gets another."""

TAGS = ("[key]", "[value]", "[mapping]", "[function]", "[list]")
"""What pydantic and our unions put into a key path that isn't in the file."""

MAX_PROBLEMS = 50
MAX_SHORT_LIST = 12
MAX_LISTED = 30
MAX_VERSIONS = 5
MAX_COMPARED = 1000

EXPECTED = {
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_parsing_size": "a whole number of less than 4,300 digits",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "finite_number": "a finite number",
    "string_type": "a text",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "dict_type": "a mapping",
    "list_type": "a list",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
}


def fold(word: str) -> str:
    """The form in which two spellings of one word are equal."""
    return word.casefold().replace("_", "").replace("-", "").replace(" ", "")


def shown(value: object) -> str:
    """Formats a value for a sentence: short, and with its kind."""
    match value:
        case None:
            return "nothing"
        case bool():
            return "true" if value else "false"
        case str():
            return f"`{short(value)}`" if value else "an empty text"
        case int() | float():
            return f"the number {short(_digits(value))}"
        case Mapping():
            return "a mapping"
        case list() | tuple():
            return "a list"
        case _:
            return f"a Python {type(value).__name__}"


def _digits(value: float) -> str:
    try:
        return str(value)
    except ValueError:  # Python refuses to print ints of more than 4,300 digits
        return hex(int(value))


def short(text: str, most: int = 60) -> str:
    """A text as one printable line of bounded length: what it leaves out is in its middle."""
    line = text.encode("unicode_escape", "backslashreplace").decode("ascii") if not text.isprintable() else text
    return line if len(line) <= most else f"{line[: most - 20]}…{line[-16:]}"


def words(names: Iterable[str], last: str = "and") -> str:
    """`a`, `b` or `c`."""
    quoted = [f"`{name}`" for name in names]
    if len(quoted) < 2:
        return "".join(quoted)
    return f"{', '.join(quoted[:-1])} {last} {quoted[-1]}"


MEANINGS = {
    "instances": "instance_count",
    "nodes": "instance_count",
    "nodecount": "instance_count",
    "cmd": "command",
    "script": "command",
    "sourcedirectory": "code",
    "computetarget": "compute",
    "processcount": "process_count_per_instance",
    "processcountpernode": "process_count_per_instance",
    "envvars": "environment_variables",
    "maxtotalruns": "max_total_trials",
    "maxconcurrentruns": "max_concurrent_trials",
}
"""Keys of other versions and tools, folded, and the key of the dialect that has their meaning."""


def nearest(name: object, valid: Iterable[str]) -> str:
    """`Did you mean `x`?`, or nothing when no other valid name is close."""
    close = nearest_name(name, valid)
    return f"Did you mean `{close}`?" if close else ""


def nearest_name(name: object, valid: Iterable[str]) -> str:
    """The other valid name that is closest, "" = none is."""
    folded = {fold(word): word for word in islice(valid, MAX_COMPARED) if word != name}
    asked = fold(str(name)[:100])
    if (meant := MEANINGS.get(asked)) in folded.values():
        return str(meant)
    # One letter of two is half the word.
    close = difflib.get_close_matches(asked, folded, n=1, cutoff=0.5 if len(asked) < 4 else 0.6)
    return folded[close[0]] if close else ""


def either(name: object, valid: Iterable[str], what: str = "Valid") -> str:
    """The nearest name and, if they are few or none is near, all the valid ones."""
    names = list(valid)
    close = nearest(name, names)
    if not names or (close and len(names) > MAX_SHORT_LIST):
        return close
    return f"{close} {what}: {list_first([short(name) for name in names], MAX_LISTED)}.".strip()


def no_version(what: str, name: str, version: str, versions: Sequence[str]) -> tuple[str, str]:
    """A sentence that a version doesn't exist, with the newest ones, and what to write. versions: the newest first."""
    newest = ", ".join(versions[:MAX_VERSIONS]) + (", …" if len(versions) > MAX_VERSIONS else "")
    fix = f"Write {name}@latest for the newest." if version == "latest" else nearest(version, versions)
    return f"{what} {name} has no version {short(version)}; there is {newest}", fix


def in_quotes(_loc: tuple[str | int, ...], text: str) -> str:
    """The advice for a value in YAML, where quotes make a text of it."""
    return f"Put it in quotes: '{text}'." if text else IN_QUOTES


def collect_problems(
    error: ValidationError, document: object, seen: Seen, place: Place, quoting: Quoting = in_quotes
) -> list[Problem]:
    """Every error as a sentence at its place, in the order of the document's models."""
    details = _without_mistyped(error.errors(include_url=False), document, seen)
    problems = [_problem(detail, document, seen, place, quoting) for detail in details[:MAX_PROBLEMS]]
    if len(details) > MAX_PROBLEMS:
        problems.append(Problem("and more of them"))
    return list(dict.fromkeys(problems))


def _without_mistyped(details: list[ErrorDetails], document: object, seen: Seen) -> list[ErrorDetails]:
    """Leaves out missing keys that are only mistyped, since the unknown key is reported."""
    mistyped: set[tuple[str | int, ...]] = set()
    for detail in details:
        if detail["type"] == "extra_forbidden":
            loc = _path(detail)
            model = seen.get(id(_at(document, loc[:-1])))
            if model is not None and (close := nearest_name(loc[-1], model.key_names())):
                mistyped.add((*loc[:-1], close))
    return [detail for detail in details if detail["type"] != "missing" or _path(detail) not in mistyped]


def _path(detail: ErrorDetails) -> tuple[str | int, ...]:
    return tuple(part for part in detail["loc"] if part not in TAGS)


def _problem(detail: ErrorDetails, document: object, seen: Seen, place: Place, quoting: Quoting) -> Problem:
    loc = _path(detail)
    kind = detail["type"]
    if kind == "extra_forbidden":
        return _unknown_key(loc, document, seen, place)
    if kind == "missing":
        owner = _owner(loc[:-1], seen.get(id(document)))
        return Problem(f"{owner} needs the key `{loc[-1]}`", place(loc[:-1], "missing", ""))
    context: dict[str, Any] = detail.get("ctx", {})
    if kind == "said":
        at = "key" if "[key]" in detail["loc"] else "value"
        fix = str(context.get("fix", ""))
        return Problem(
            _prefixed(loc, str(context["what"])),
            place(loc, at, str(context.get("near", ""))),
            quoting(loc, "") if fix == IN_QUOTES else fix,
        )
    given = detail["input"]
    what, fix = _sentence(kind, context, detail["msg"], given), ""
    if kind == "string_type" and isinstance(given, bool | int | float):
        fix = quoting(loc, shown(given) if isinstance(given, bool) else short(_digits(given)))
    return Problem(_prefixed(loc, what), place(loc, "value", ""), fix)


def _prefixed(loc: Sequence[str | int], what: str) -> str:
    return f"`{'.'.join(short(str(part)) for part in loc)}`: {what}" if loc else what


def _owner(loc: Sequence[str | int], model: KeyTable | None) -> str:
    if loc:
        return f"`{'.'.join(short(str(part)) for part in loc)}`"
    return model.noun if model else "the job"


def _sentence(kind: str, context: Mapping[str, Any], message: str, given: object) -> str:
    if kind in EXPECTED:
        return f"expected {EXPECTED[kind]}, got {shown(given)}"
    bounds = {"greater_than": ("gt", "more than"), "greater_than_equal": ("ge", "at least")}
    bounds |= {"less_than": ("lt", "less than"), "less_than_equal": ("le", "at most")}
    if kind in bounds:
        name, phrase = bounds[kind]
        return f"must be {phrase} {context[name]:g}, got {shown(given)}"
    if kind in ("string_too_long", "too_long") and isinstance(given, str):
        return f"at most {context['max_length']} characters, got {len(given)}"
    if kind in ("too_short", "too_long"):
        least = context.get("min_length")
        return f"needs at least {least} entries" if least else f"at most {context['max_length']} entries"
    return f"{message} (got {shown(given)})"


def _unknown_key(loc: tuple[str | int, ...], document: object, seen: Seen, place: Place) -> Problem:
    parent = _at(document, loc[:-1])
    model = seen.get(id(parent))
    key = str(loc[-1])
    where = place(loc, "key", "")
    if model is None:
        return Problem(f"unknown key `{short(key)}`", where)
    owner = f" in `{'.'.join(short(str(part)) for part in loc[:-1])}`" if len(loc) > 1 else ""
    if key in model.read_only:
        return Problem(f"`{key}` is written by the service, not in a file", where, "Take the line out.")
    return Problem(f"unknown key `{short(key)}`{owner}", where, either(key, model.key_names()))


def _at(document: object, loc: Sequence[str | int]) -> object:
    value = document
    for part in loc:
        if isinstance(value, Mapping):
            value = cast("Mapping[str | int, object]", value).get(part)
        elif isinstance(value, list) and isinstance(part, int):
            value = cast("list[object]", value)[part]
        else:
            return None
    return value

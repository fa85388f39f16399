"""The types of the fields of a job file: texts, names, counts, seconds, and how invalid values are refused."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable
from typing import Annotated, Any, cast

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Discriminator,
    Field,
    StrictBool,
    StrictFloat,
    StrictInt,
    StrictStr,
    Tag,
    ValidationError,
)
from pydantic_core import InitErrorDetails, PydanticCustomError

from drumbeat.jobfile.reading.error_messages import shown

MAX_NUMBER = 10**400
MAX_WHOLE = 2**63 - 1
MAX_FLOAT = sys.float_info.max
MAX_DEPTH = 64
NOUNS: dict[type, str] = {list: "a list", dict: "a mapping", int: "a number", float: "a number"}


def complaint(what: str, fix: str = "", near: str = "") -> PydanticCustomError:
    """A refusal in our own words, to raise from a field's validator."""
    # The text goes in as a value: as the template itself, its braces would be read as placeholders.
    return PydanticCustomError("said", "{what}", {"what": what, "fix": fix, "near": near})


def _printable(value: str) -> str:
    if "\0" in value:
        raise complaint("a text can't hold a NUL character")
    if not value.isascii() and any("\ud800" <= character <= "\udfff" for character in value):
        raise complaint("a text can't hold half a character (a lone surrogate)")
    return value


def filled(value: str) -> str:
    """Returns a printable text that isn't empty."""
    _printable(value)
    if not value.strip():
        raise complaint("this text is empty")
    return value


def no_label(value: str) -> str:
    """A version that can't be taken for a label: `name@latest` is the newest one, whatever it is called."""
    if value.casefold() == "latest":
        raise complaint(
            f"a version can't be called {shown(value)}: `@latest` is the newest one",
            "Leave it out: it gets the next number.",
        )
    return value


def _no_bool(value: object) -> object:
    if isinstance(value, bool):
        raise complaint(f"expected a number, got {shown(value)}")
    return value


def _whole(value: object) -> object:
    if isinstance(value, int) and abs(value) > MAX_WHOLE:
        raise complaint(f"expected a whole number of at most {MAX_WHOLE:,}")
    return _no_bool(value)


def _finite(value: object) -> object:
    try:
        is_finite = not isinstance(value, int | float) or math.isfinite(value)
    except OverflowError:
        is_finite = False
    if not is_finite:
        raise complaint(f"expected a number between {-MAX_FLOAT:.1e} and {MAX_FLOAT:.1e}")
    return _no_bool(value)


_TIME_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_TIME = re.compile(r"(\d+(?:\.\d+)?)\s*([smhd])\s*")


def _duration(value: object) -> object:
    if not isinstance(value, str):
        return value
    if not value.strip() or _TIME.sub("", value.strip()):
        raise complaint(f"expected a time, got {shown(value)}", "Write seconds, or a time like 30m, 1h30m or 2d.")
    return sum(float(count) * _TIME_UNITS[unit] for count, unit in _TIME.findall(value))


def _as_text(value: object) -> object:
    return str(value) if isinstance(value, int | float) else value


def _inner(value: str) -> str:
    if value.startswith(("/", "~")) or "\\" in value or ".." in value.split("/") or re.match(r"[A-Za-z]:", value):
        raise complaint(f"{shown(value)} leaves the job's folder", "Give a path inside it, without `..`.")
    return value


def literal(value: object) -> object:
    """A plain value, not a list, a mapping or an object; numbers are finite."""
    if not isinstance(value, bool | int | float | str):
        raise complaint(f"expected a plain value, got {shown(value)}")
    if isinstance(value, str):
        return _printable(value)
    if isinstance(value, float) and not math.isfinite(value):
        raise complaint(f"expected a finite number, got {value}")
    if abs(value) >= MAX_NUMBER:
        raise complaint("expected a number of at most 400 digits")
    return value


def _figure(value: object) -> object:
    if isinstance(value, bool | str):
        raise complaint(f"expected a number, got {shown(value)}")
    return literal(value)


def _plain(value: object) -> object:
    """What JSON can hold, to any depth that a file can have."""
    open_ones: list[tuple[object, tuple[str | int, ...]]] = [(value, ())]
    while open_ones:
        each, path = open_ones.pop()
        try:
            if len(path) > MAX_DEPTH:
                raise complaint(f"nested more than {MAX_DEPTH} levels deep")
            if isinstance(each, dict):
                table = cast("dict[object, object]", each)
                open_ones += [(inner, (*path, str(_named(key)))) for key, inner in table.items()]
            elif isinstance(each, list):
                open_ones += [(inner, (*path, place)) for place, inner in enumerate(cast("list[object]", each))]
            elif each is not None:
                literal(each)
        except PydanticCustomError as error:
            details = InitErrorDetails(type=error, loc=path[:8], input=None)
            raise ValidationError.from_exception_data("value", [details]) from None
    return value


def _named(key: object) -> str:
    if not isinstance(key, str):
        raise complaint(f"a key must be a text, not {shown(key)}")
    return _printable(key)


def text_or(*others: type) -> BeforeValidator:
    """Refuses, in one sentence, what is neither a text nor one of `others`."""
    kinds = " or ".join(["a text", *(NOUNS[each] for each in others)])

    def read(value: object) -> object:
        if not isinstance(value, (str, *others)):
            raise complaint(f"expected {kinds}, got {shown(value)}")
        return value

    return BeforeValidator(read)


def _tag(value: object) -> str:
    return "[value]" if isinstance(value, str) else "[list]" if isinstance(value, list) else "[mapping]"


PLACEHOLDER = re.compile(r"<[^<>]*>")


def named(noun: str, fix: str, *, is_one_word: bool = True) -> BeforeValidator:
    """Refuses a text that an example left for the reader to fill in, like `< your compute name >`.

    noun: what the text names, for messages. is_one_word: no space can be in it, unless it is an expression.
    """

    def read(value: object) -> object:
        if not isinstance(value, str) or "${{" in value:
            return value
        if mark := PLACEHOLDER.search(value):
            raise complaint(f"{shown(value)} is a placeholder where the name of {noun} belongs", fix, mark[0])
        if is_one_word and len(value.split()) > 1:
            raise complaint(f"{shown(value)} can't be the name of {noun}: it has spaces", fix)
        return value

    return BeforeValidator(read)


def pattern(regex: str, rule: str) -> AfterValidator:
    """A text must match `regex` whole; `rule` says in words what that means."""
    compiled = re.compile(regex)

    def read(value: str) -> str:
        if not compiled.fullmatch(value):
            raise complaint(f"{shown(value)} isn't allowed here: {rule}")
        return value

    return AfterValidator(read)


def _key(check: Callable[[str], bool], rule: str) -> AfterValidator:
    def read(value: str) -> str:
        if not check(value):
            raise complaint(f"{shown(value)} can't be a name here: {rule}")
        return value

    return AfterValidator(read)


Text = Annotated[str, AfterValidator(_printable)]
Scalar = Annotated[StrictBool | StrictInt | StrictFloat | StrictStr, BeforeValidator(literal)]
Figure = Annotated[StrictInt | StrictFloat, BeforeValidator(_figure)]
Filled = Annotated[Text, AfterValidator(filled)]
AsText = Annotated[Text, BeforeValidator(_as_text)]
OneLine = Annotated[Filled, pattern(r"[^\r\n]{1,4096}", "one line")]
HOST = pattern(r"[A-Za-z0-9_:][A-Za-z0-9_.:%-]{0,254}", "a host's name or its IP address")
Host = Annotated[str, HOST]
User = Annotated[str, pattern(r"[A-Za-z0-9_][A-Za-z0-9_.@\\-]{0,254}", "the name of a user")]
Name = Annotated[
    str, pattern(r"[A-Za-z0-9][A-Za-z0-9_-]{0,254}", "letters, digits, `-` and `_`, at most 255, no `-` or `_` first")
]
Identifier = Annotated[
    str, pattern(r"[A-Za-z_][A-Za-z0-9_]{0,254}", "letters, digits and `_`, at most 255, no digit first")
]
Variable = Annotated[
    str, _key(lambda n: bool(n) and "=" not in n and "\0" not in n, "a variable's name isn't empty and has no `=`")
]
InnerPath = Annotated[Filled, AfterValidator(_inner)]
Whole = Annotated[int, BeforeValidator(_whole)]
Number = Annotated[float, BeforeValidator(_finite)]
Count = Annotated[Whole, Field(ge=1, le=1_000_000)]
Tally = Annotated[Whole, Field(ge=0, le=1_000_000_000)]
Port = Annotated[Whole, Field(ge=1, le=65_535)]
Seconds = Annotated[Number, Field(gt=0, le=1e9)]
Wait = Annotated[Number, Field(ge=0, le=1e9)]
Duration = Annotated[Seconds, BeforeValidator(_duration)]
"""Seconds, or a text like `1h30m`."""
Json = Annotated[Any, BeforeValidator(_plain)]
Table = dict[Text, Json]
Version = Annotated[AsText, AfterValidator(filled), AfterValidator(no_label)]
TextOrTable = Annotated[
    Annotated[Filled, Tag("[value]")] | Annotated[Table, Tag("[mapping]")], Discriminator(_tag), text_or(dict)
]
TextOrList = Annotated[
    Annotated[Text, Tag("[value]")] | Annotated[list[Text], Tag("[list]")], Discriminator(_tag), text_or(list)
]

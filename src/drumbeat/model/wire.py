"""Converts dataclasses to JSON and back, with the standard library alone.

What writes and reads the values of a type is made once, when the first one is met: a server reads and writes jobs and
statuses all day.
"""

from __future__ import annotations

import dataclasses
import json
import types
import typing
from collections.abc import Callable
from datetime import datetime
from enum import Enum
from functools import cache
from typing import Any, TypeVar

T = TypeVar("T")

KEY = "key"
"""In the metadata of a field: its key on the wire, where that isn't the field's name."""

IS_OPTIONAL = "is_optional"
"""In the metadata of a field that receivers of an earlier version refuse: its default isn't written."""


def is_utf8(text: str) -> bool:
    """Whether a message can carry the text: names on disks may hold bytes that aren't UTF-8, which none can."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def dumps(value: object) -> str:
    """Returns a dataclass as compact JSON."""
    return json.dumps(to_wire(value), separators=(",", ":"))


def loads(cls: type[T], text: str | bytes) -> T:
    """Returns the dataclass in the JSON. Raises ValueError, with the path of the value that doesn't fit."""
    return from_wire(cls, json.loads(text))


_PLAIN = frozenset({str, int, float, bool, type(None)})

Write = Callable[[Any], Any]
"""Writes a value of one type as plain lists, dicts and scalars."""

Read = Callable[[Any], Any]
"""Reads a plain value as one of a type. Raises MisfitError, or the ValueError of an enumeration."""


def to_wire(value: Any) -> Any:
    """Returns the value as plain lists, dicts and scalars."""
    return value if type(value) in _PLAIN else _writer(value.__class__)(value)


def from_wire(cls: Any, value: Any, at: str = "", *, has_new_words: bool = False) -> Any:
    """Returns a value of type `cls`; unknown keys are ignored, so that a newer sender can be understood.

    at: what the value is called in errors. has_new_words: a word that an enumeration doesn't have stays a text, for
    readers that only show it. Raises ValueError, with the path of the value that doesn't fit.
    """
    try:
        return _reader(cls, has_new_words)(value)
    except MisfitError as error:
        raise ValueError(f"{at + error.path or error.name}: {error.problem}") from None


class MisfitError(ValueError):
    """A value doesn't fit its type. name: how it is called where it has no path."""

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(problem)
        self.name, self.problem = name, problem
        self.path = ""
        """From the value that is being read to this one."""

    def below(self, step: str) -> MisfitError:
        """Returns the error as the value that has this one at `step` tells it."""
        self.path = step + self.path
        return self


def _key(field: dataclasses.Field[Any]) -> str:
    return field.metadata.get(KEY, field.name)


# --- writing ---
@cache
def _writer(cls: type) -> Write:
    if dataclasses.is_dataclass(cls):
        return _dataclass_writer(cls)
    if issubclass(cls, datetime):
        return datetime.isoformat
    if issubclass(cls, Enum):
        return _written_word
    if issubclass(cls, dict):
        return _written_dict
    if issubclass(cls, tuple | list):
        return _written_list
    return _as_it_is


def _dataclass_writer(cls: type) -> Write:
    fields: tuple[dataclasses.Field[Any], ...] = dataclasses.fields(cls)  # type: ignore[arg-type]
    keys = tuple((f.name, _key(f)) for f in fields)
    optional = {f.name: f.default for f in fields if f.metadata.get(IS_OPTIONAL)}

    def write(value: Any) -> dict[str, Any]:
        written: dict[str, Any] = {}
        for name, key in keys:
            item = getattr(value, name)
            if name in optional and item == optional[name]:
                continue
            written[key] = item if type(item) in _PLAIN else _writer(item.__class__)(item)
        return written

    return write


def _written_word(value: Enum) -> Any:
    return value.value


def _written_dict(value: dict[Any, Any]) -> dict[str, Any]:
    return {str(key): to_wire(item) for key, item in value.items()}


def _written_list(value: list[Any]) -> list[Any]:
    return [item if type(item) in _PLAIN else _writer(item.__class__)(item) for item in value]


def _as_it_is(value: Any) -> Any:
    return value


# --- reading ---
@cache
def _reader(cls: Any, has_new_words: bool) -> Read:  # noqa: FBT001 - a cache's key
    if dataclasses.is_dataclass(cls):
        return _dataclass_reader(cls, has_new_words)
    origin, options = typing.get_origin(cls), typing.get_args(cls)
    if origin in (typing.Union, types.UnionType):
        return _union_reader(cls, options, has_new_words)
    if origin is tuple:
        return _tuple_reader(cls, options[0], has_new_words)
    if origin is dict:
        return _dict_reader(cls, options[1], has_new_words)
    if origin is typing.Literal:
        return _literal_reader(cls, options, has_new_words)
    if isinstance(cls, type) and issubclass(cls, Enum):
        return _enum_reader(cls, has_new_words)
    return _scalar_reader(cls)


def _dataclass_reader(cls: Any, has_new_words: bool) -> Read:  # noqa: FBT001 - as in _reader
    @cache  # When the first value is read: a class may have fields of its own type.
    def fields() -> tuple[tuple[str, str, Read], ...]:
        hints = typing.get_type_hints(cls)
        read = [f for f in dataclasses.fields(cls) if f.init]
        return tuple((f.name, _key(f), _reader(hints[f.name], has_new_words)) for f in read)

    def read(value: Any) -> Any:
        if not isinstance(value, dict):
            raise _misfit(cls, value)
        table = typing.cast("dict[str, Any]", value)
        given: dict[str, Any] = {}
        for name, key, read_field in fields():
            if key in table:
                try:
                    given[name] = read_field(table[key])
                except MisfitError as error:
                    raise error.below(f".{key}") from None
        try:
            return cls(**given)
        except TypeError as error:
            raise MisfitError(cls.__name__, str(error)) from None

    return read


def _union_reader(cls: Any, options: tuple[Any, ...], has_new_words: bool) -> Read:  # noqa: FBT001 - as in _reader
    dataclass_options = [option for option in options if dataclasses.is_dataclass(option)]
    if len(dataclass_options) > 1:
        read_options = [_tagged_reader(dataclass_options, has_new_words)]
    else:
        read_options = [_reader(option, has_new_words) for option in options if option is not type(None)]

    def read(value: Any) -> Any:
        if value is None and type(None) in options:
            return None
        if len(dataclass_options) > 1:
            return read_options[0](value)
        for read_option in read_options:
            try:
                return read_option(value)
            except ValueError:
                continue
        raise _misfit(cls, value)

    return read


def _tagged_reader(options: list[Any], has_new_words: bool) -> Read:  # noqa: FBT001 - as in _reader
    """Reads one of several dataclasses, chosen by `kind`, a field that each has with its own default."""
    by_kind = {
        f.default: _reader(option, has_new_words)
        for option in options
        for f in dataclasses.fields(option)
        if f.name == "kind"
    }

    def read(value: Any) -> Any:
        kind = typing.cast("dict[str, Any]", value).get("kind") if isinstance(value, dict) else None
        if not isinstance(kind, str) or kind not in by_kind:
            raise MisfitError("", f"no variant of kind {kind!r}")
        return by_kind[kind](value)

    return read


def _tuple_reader(cls: Any, item: Any, has_new_words: bool) -> Read:  # noqa: FBT001 - as in _reader
    read_item = _reader(item, has_new_words)

    def read(value: Any) -> Any:
        if not isinstance(value, list | tuple):
            raise _misfit(cls, value)
        items: list[Any] = []
        for each in typing.cast("list[Any]", value):
            try:
                items.append(read_item(each))
            except MisfitError as error:
                raise error.below(f"[{len(items)}]") from None
        return tuple(items)

    return read


def _dict_reader(cls: Any, item: Any, has_new_words: bool) -> Read:  # noqa: FBT001 - as in _reader
    read_item = _reader(item, has_new_words)

    def read(value: Any) -> Any:
        if not isinstance(value, dict):
            raise _misfit(cls, value)
        items: dict[str, Any] = {}
        for key, each in typing.cast("dict[Any, Any]", value).items():
            try:
                items[str(key)] = read_item(each)
            except MisfitError as error:
                raise error.below(f".{key}") from None
        return items

    return read


def _literal_reader(cls: Any, words: tuple[str, ...], has_new_words: bool) -> Read:  # noqa: FBT001 - as in _reader
    def read(value: Any) -> Any:
        if not isinstance(value, str):
            raise _misfit(cls, value)
        if value in words or has_new_words:
            return value
        raise MisfitError("value", f"{value!r} is not one of {', '.join(words)}")

    return read


def _enum_reader(cls: type[Enum], has_new_words: bool) -> Read:  # noqa: FBT001 - as in _reader
    def read(value: Any) -> Any:
        if not isinstance(value, str):
            raise _misfit(cls, value)
        try:
            return cls(value)
        except ValueError:
            if has_new_words:
                return value
            raise

    return read


def _scalar_reader(cls: Any) -> Read:
    def read(value: Any) -> Any:
        if type(value) is cls or cls is Any:
            return value
        if cls is datetime and isinstance(value, str):
            return datetime.fromisoformat(value)
        if cls is float and isinstance(value, int) and not isinstance(value, bool):
            return float(value)
        if not isinstance(value, cls) or (isinstance(value, bool) and cls is not bool):
            raise _misfit(cls, value)
        return typing.cast("Any", value)

    return read


def _misfit(cls: Any, value: Any) -> MisfitError:
    return MisfitError("value", f"expected {getattr(cls, '__name__', str(cls))}, got {type(value).__name__}")

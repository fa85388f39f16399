"""Dataclasses to JSON and back, for processes that have nothing but the standard library."""

from __future__ import annotations

import dataclasses
import json
import types
import typing
from datetime import datetime
from enum import Enum
from functools import cache
from typing import Any, TypeVar

T = TypeVar("T")

KEY = "key"
"""In the metadata of a field: its key on the wire, where that isn't the field's name."""


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


def to_wire(value: Any) -> Any:
    """Returns the value as plain lists, dicts and scalars."""
    if type(value) in _PLAIN:
        return value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {key: to_wire(getattr(value, name)) for name, key in _keys(type(value))}
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, dict):
        return {str(k): to_wire(v) for k, v in typing.cast("dict[Any, Any]", value).items()}
    if isinstance(value, tuple | list):
        return [to_wire(v) for v in typing.cast("list[Any]", value)]
    return value


def from_wire(cls: Any, value: Any, at: str = "", *, has_new_words: bool = False) -> Any:
    """Returns a value of type `cls`; unknown keys are ignored, so that a newer sender can be understood.

    at: what the value is called in errors. has_new_words: a word that an enumeration doesn't have stays a text, for
    readers that only show it. Raises ValueError, with the path of the value that doesn't fit.
    """
    return _Reader(has_new_words).read(cls, value, at)


def _key(field: dataclasses.Field[Any]) -> str:
    return field.metadata.get(KEY, field.name)


@cache
def _keys(cls: Any) -> tuple[tuple[str, str], ...]:
    """The name of each field with its key on the wire."""
    return tuple((f.name, _key(f)) for f in dataclasses.fields(cls))


@cache
def _hints(cls: Any) -> dict[str, Any]:
    return typing.get_type_hints(cls)


@dataclasses.dataclass(frozen=True)
class _Reader:
    """Reads plain values as typed ones. `at`: the path of the value, for errors."""

    has_new_words: bool

    def read(self, cls: Any, value: Any, at: str) -> Any:
        if dataclasses.is_dataclass(cls):
            return self._dataclass(cls, value, at)
        origin = typing.get_origin(cls)
        if origin in (typing.Union, types.UnionType):
            return self._union(cls, value, at)
        if origin is tuple:
            return self._tuple(cls, value, at)
        if origin is dict:
            return self._dict(cls, value, at)
        if origin is typing.Literal or (isinstance(cls, type) and issubclass(cls, Enum)):
            return self._word(cls, value, at)
        return _scalar(cls, value, at)

    def _dataclass(self, cls: Any, value: Any, at: str) -> Any:
        if not isinstance(value, dict):
            raise _misfit(cls, value, at)
        table = typing.cast("dict[str, Any]", value)
        hints = _hints(cls)
        given = {
            f.name: self.read(hints[f.name], table[_key(f)], f"{at}.{_key(f)}")
            for f in dataclasses.fields(cls)
            if f.init and _key(f) in table
        }
        try:
            return cls(**given)
        except TypeError as error:
            raise ValueError(f"{at or cls.__name__}: {error}") from None

    def _union(self, cls: Any, value: Any, at: str) -> Any:
        options = typing.get_args(cls)
        if value is None and type(None) in options:
            return None
        dataclass_options = [o for o in options if dataclasses.is_dataclass(o)]
        if len(dataclass_options) > 1:
            return self._tagged(dataclass_options, value, at)
        for option in options:
            try:
                return self.read(option, value, at)
            except ValueError:
                continue
        raise _misfit(cls, value, at)

    def _tagged(self, options: list[Any], value: Any, at: str) -> Any:
        """Reads one of several dataclasses, chosen by `kind`, a field that each has with its own default."""
        kind = typing.cast("dict[str, Any]", value).get("kind") if isinstance(value, dict) else None
        for option in options:
            if any(f.name == "kind" and f.default == kind for f in dataclasses.fields(option)):
                return self.read(option, value, at)
        raise ValueError(f"{at}: no variant of kind {kind!r}")

    def _tuple(self, cls: Any, value: Any, at: str) -> Any:
        if not isinstance(value, list | tuple):
            raise _misfit(cls, value, at)
        (item, *_) = typing.get_args(cls)
        return tuple(self.read(item, v, f"{at}[{i}]") for i, v in enumerate(typing.cast("list[Any]", value)))

    def _dict(self, cls: Any, value: Any, at: str) -> Any:
        if not isinstance(value, dict):
            raise _misfit(cls, value, at)
        _, item = typing.get_args(cls)
        return {str(k): self.read(item, v, f"{at}.{k}") for k, v in typing.cast("dict[Any, Any]", value).items()}

    def _word(self, cls: Any, value: Any, at: str) -> Any:
        if not isinstance(value, str):
            raise _misfit(cls, value, at)
        if typing.get_origin(cls) is typing.Literal:
            if value in typing.get_args(cls) or self.has_new_words:
                return value
            raise ValueError(f"{at or 'value'}: {value!r} is not one of {', '.join(typing.get_args(cls))}")
        try:
            return cls(value)
        except ValueError:
            if self.has_new_words:
                return value
            raise


def _scalar(cls: Any, value: Any, at: str) -> Any:
    if cls is Any:
        return value
    if cls is datetime and isinstance(value, str):
        return datetime.fromisoformat(value)
    if cls is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if cls is type(None) and value is None:
        return None
    if not isinstance(value, cls) or (isinstance(value, bool) and cls is not bool):
        raise _misfit(cls, value, at)
    return value


def _misfit(cls: Any, value: Any, at: str) -> ValueError:
    name = getattr(cls, "__name__", str(cls))
    return ValueError(f"{at or 'value'}: expected {name}, got {type(value).__name__}")

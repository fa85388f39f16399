"""Reads the server's responses as values of the API."""

from __future__ import annotations

import json
from typing import Any, TypeVar

from drumbeat.model import wire

T = TypeVar("T")


def view(kind: type[T], answer: Any) -> T:
    """One value. Keys and words that only a newer server has are tolerated: keys are dropped, words stay texts."""
    return wire.from_wire(kind, answer, has_new_words=True)


def views(kind: type[T], answer: Any) -> list[T]:
    """A list of values."""
    return [view(kind, one) for one in answer]


def view_in(kind: type[T], text: str) -> T:
    """The value in a JSON text."""
    return view(kind, json.loads(text))

"""What the server says of data and of where it lies: the API's own keys, as values."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class DatastoreView:
    """A datastore without its credentials. credentials: their kind, in words. is_default: what names none goes there.

    is_builtin: a folder of the server's own, which is always there.
    """

    name: str
    type: str
    document: dict[str, Any] = field(default_factory=dict[str, Any])
    credentials: str = "none"
    is_default: bool = False
    is_builtin: bool = False


@dataclass(frozen=True)
class EntryView:
    """What lies directly in a folder of a store. size: bytes, of a file."""

    path: str
    size: int = 0
    is_folder: bool = False


@dataclass(frozen=True)
class ListedView:
    """A file below an address. key: names its content. sha256: in hex, "" = the store doesn't tell it."""

    path: str
    size: int
    key: str
    sha256: str = ""
    tag: str = ""
    alone: bool = False


@dataclass(frozen=True)
class ListingView:
    """Every file below an address. uri: the exact address that was meant. key: names the content of the whole."""

    uri: str
    key: str
    size: int
    files: tuple[ListedView, ...]


@dataclass(frozen=True)
class Moved:
    """What `upload` and `download` have done. moved: files that went over the line; the others were there already."""

    uri: str
    files: int
    size: int
    moved: int

"""The listings of folders in stores: which places a store can have, and which of them a node's disk can hold."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable

from drumbeat.model.errors import ForbiddenError, RefusedError, TooBigError
from drumbeat.model.input_listing import ListedFile, Listing
from drumbeat.model.input_listing import listing as in_order
from drumbeat.server.data.stores.backend_contract import MAX_FILES, StoreEntry, shown
from drumbeat.server.home_folder.paths import parts_of


def place_of(text: str) -> str:
    """The place that a path of a URI means. Raises ForbiddenError for what leaves the store."""
    trimmed = text.strip("/")
    return "/".join(parts_of(trimmed)) if trimmed else ""


def below(place: str, path: str) -> str:
    """The place of a path below another. Raises ForbiddenError."""
    inner = "/".join(parts_of(path))
    return f"{place}/{inner}" if place else inner


def listing_of(address: str, place: str, files: Iterable[StoreEntry], title: str) -> Listing:
    """The listing of a folder. Raises RefusedError for names that can't be on a disk, TooBigError for too many."""
    found: dict[str, ListedFile] = {}
    for file in files:
        path = file.place.removeprefix(f"{place}/") if place else file.place
        _require_possible(path, title)
        if len(found) == MAX_FILES:
            raise TooBigError(f"more than {MAX_FILES:,} files", where=title, fix="Pack them into fewer, larger ones.")
        found[path] = listed(address, file, path)
    _require_no_file_above(found, title)
    return in_order(list(found.values()))


def listed(address: str, file: StoreEntry, path: str, *, alone: bool = False) -> ListedFile:
    """A file as nodes are told of it."""
    key = file.sha256 or _key(address, file)
    return ListedFile(path, file.size, key, file.sha256, file.tag, alone)


def _key(address: str, file: StoreEntry) -> str:
    told = json.dumps([address, file.place, file.tag, file.size], ensure_ascii=False)
    return hashlib.sha256(told.encode("utf-8", "surrogatepass")).hexdigest()


def _require_possible(path: str, title: str) -> None:
    try:
        parts_of(path)
    except ForbiddenError as error:
        what = f"`{shown(path)}` can't be the name of a file on a node: {error.what}"
        raise RefusedError(what, where=title, fix="Rename it in the store.") from None


def _require_no_file_above(found: dict[str, ListedFile], title: str) -> None:
    """An object store may hold both `a` and `a/b`; a disk can't."""
    for path in found:
        above = path.rpartition("/")[0]
        while above:
            if above in found:
                what = f"`{shown(above)}` is a file, and there are files below it"
                raise RefusedError(what, where=title, fix="Rename one of the two in the store.")
            above = above.rpartition("/")[0]

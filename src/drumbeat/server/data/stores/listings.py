"""Listings of folders in stores, and the validity of their names in stores and on a node's disk."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable

from drumbeat.model.errors import ForbiddenError, RefusedError, TooBigError
from drumbeat.model.input_listing import ListedFile, Listing
from drumbeat.model.input_listing import listing as in_order
from drumbeat.server.data.stores.backend_contract import MAX_FILES, StoreEntry, shown
from drumbeat.server.home_folder.paths import split_path


def normalized_place(text: str) -> str:
    """Normalizes the path of a URI to a place. Raises ForbiddenError if it leaves the store."""
    trimmed = text.strip("/")
    return "/".join(split_path(trimmed)) if trimmed else ""


def below(place: str, path: str) -> str:
    """Returns the place of a path below another place. Raises ForbiddenError."""
    inner = "/".join(split_path(path))
    return f"{place}/{inner}" if place else inner


def make_listing(address: str, place: str, files: Iterable[StoreEntry], title: str) -> Listing:
    """Returns the listing of a folder. Raises RefusedError for names that a disk can't have, TooBigError."""
    files_by_path: dict[str, ListedFile] = {}
    for file in files:
        path = file.place.removeprefix(f"{place}/") if place else file.place
        _require_possible(path, title)
        if len(files_by_path) == MAX_FILES:
            raise TooBigError(f"more than {MAX_FILES:,} files", where=title, fix="Pack them into fewer, larger ones.")
        files_by_path[path] = listed(address, file, path)
    _require_no_file_above(files_by_path, title)
    return in_order(list(files_by_path.values()))


def listed(address: str, file: StoreEntry, path: str, *, alone: bool = False) -> ListedFile:
    """Returns a file for the listing that nodes get."""
    key = file.sha256 or _key(address, file)
    return ListedFile(path, file.size, key, file.sha256, file.tag, alone)


def _key(address: str, file: StoreEntry) -> str:
    identity = json.dumps([address, file.place, file.tag, file.size], ensure_ascii=False)
    return hashlib.sha256(identity.encode("utf-8", "surrogatepass")).hexdigest()


def _require_possible(path: str, title: str) -> None:
    try:
        split_path(path)
    except ForbiddenError as error:
        what = f"`{shown(path)}` can't be the name of a file on a node: {error.what}"
        raise RefusedError(what, where=title, fix="Rename it in the store.") from None


def _require_no_file_above(files_by_path: dict[str, ListedFile], title: str) -> None:
    """Raises RefusedError if both `a` and `a/b` are files, which is possible in an object store but not on a disk."""
    for path in files_by_path:
        above = path.rpartition("/")[0]
        while above:
            if above in files_by_path:
                what = f"`{shown(above)}` is a file, and there are files below it"
                raise RefusedError(what, where=title, fix="Rename one of the two in the store.")
            above = above.rpartition("/")[0]

"""Whether a folder is an MLTable whose paths can be read. The table itself is the reader's matter."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Any, cast

from drumbeat.ports import DataAccess
from drumbeat.protocol.errors import DrumbeatError, SpecError
from drumbeat.protocol.listing import Listing
from drumbeat.spec.data_paths import Local, reference_to
from drumbeat.spec.yaml_tree import parse, plain

FILE = "MLTable"
KINDS = ("file", "folder", "pattern")
MOST_BYTES = 1 << 20


def check(data: DataAccess, uri: str, listed: Listing) -> None:
    """Raises SpecError that names the path which isn't there."""
    file = next((one for one in listed.files if one.path == FILE), None)
    if file is None or file.size > MOST_BYTES:
        what = f"there is no file {FILE} in it" if file is None else f"its file {FILE} is larger than 1 MiB"
        raise SpecError(f"this is no MLTable: {what}", where=uri, fix="Use type uri_folder for a plain folder.")
    for kind, path in _paths(b"".join(data.read(uri, file)), uri):
        _require(data, uri, listed, (kind, path))


def _paths(content: bytes, uri: str) -> Iterator[tuple[str, str]]:
    where = f"{uri}/{FILE}"
    try:
        table: Any = plain(parse(content.decode(), where), where)
    except UnicodeDecodeError:
        raise SpecError("the file isn't UTF-8 text", where=where) from None
    paths = cast("dict[str, Any]", table).get("paths") if isinstance(table, dict) else None
    if not isinstance(paths, list) or not paths:
        raise SpecError("it has no list `paths`", where=where, fix="Write `paths: [{file: ./data.csv}]`.")
    for one in cast("list[Any]", paths):
        entry = cast("dict[str, Any]", one) if isinstance(one, dict) else {}
        found = [(kind, entry[kind]) for kind in KINDS if isinstance(entry.get(kind), str)]
        if len(found) != 1:
            raise SpecError("each of `paths` has one of `file`, `folder` and `pattern`", where=where)
        yield found[0]


def _require(data: DataAccess, uri: str, listed: Listing, wanted: tuple[str, str]) -> None:
    kind, path = wanted
    where = f"{uri}/{FILE}"
    try:
        place = reference_to(path, where)
        is_there = _is_inside(listed, kind, path) if isinstance(place, Local) else _is_at(data, kind, path)
    except SpecError:
        raise
    except DrumbeatError as error:
        raise SpecError(f"{kind} {path} can't be read: {error.what}", where=where, fix=error.fix) from error
    if not is_there:
        raise SpecError(f"{kind} {path} isn't there", where=where, fix=f"Paths count from the folder of {FILE}.")


def _is_inside(listed: Listing, kind: str, path: str) -> bool:
    inner = path.removeprefix("file://").removeprefix("./").strip("/")
    match kind:
        case "file":
            return any(one.path == inner for one in listed.files)
        case "folder":
            return inner in ("", ".") or any(one.path.startswith(f"{inner}/") for one in listed.files)
        case _:
            return any(fnmatchcase(one.path, inner) for one in listed.files)


def _is_at(data: DataAccess, kind: str, path: str) -> bool:
    if kind != "pattern":
        return bool(data.listing(path, is_file=kind == "file").files)
    fixed = path[: min(path.index(mark) for mark in "*?[" if mark in path)] if any(m in path for m in "*?[") else path
    folder = fixed.rsplit("/", 1)[0]
    rest = path[len(folder) + 1 :]
    return any(fnmatchcase(one.path, rest) for one in data.listing(folder, is_file=False).files)

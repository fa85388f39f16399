"""MLTables: whether the paths of one can be read, and which files they name. The rows are the reader's matter."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any, cast
from urllib.parse import unquote, urlsplit

from drumbeat.jobfile.data.paths import InStore, Local, OfJob, reference_to
from drumbeat.jobfile.reading.yaml_tree import YamlNode, parse, plain
from drumbeat.model.errors import DrumbeatError, RefusedError, SpecError
from drumbeat.model.input_listing import ListedFile, Listing, Origin, listing
from drumbeat.ports.data import DataAccess

FILE = "MLTable"
KINDS = ("file", "folder", "pattern")
MAX_BYTES = 1 << 20
CHOOSING = ("take", "skip", "take_random_sample", "filter", "random_split", "sample")
"""Transformations that, before anything has read the files, leave some of them out."""


@dataclass(frozen=True)
class Table:
    """What stands in the file. where: the file, for messages."""

    where: str
    tree: YamlNode
    told: dict[str, Any]

    def at(self, *keys: str | int) -> str:
        """The file with the line and column of what is at these keys."""
        node = self.tree
        for key in keys:
            found = node.child(key)
            if found is None:
                break
            node = found[1]
        return f"{self.where}:{node.line + 1}:{node.column + 1}"


@dataclass(frozen=True)
class Named:
    """One of `paths`. where: its line."""

    kind: str
    path: str
    where: str


def check(data: DataAccess, uri: str, listed: Listing) -> None:
    """Raises SpecError that names the path which isn't there."""
    for named in _paths(_table(data, uri, listed)):
        _require(data, listed, named)


def evaluate(data: DataAccess, uri: str, listed: Listing) -> Listing:
    """The files that the table's paths name: those beside it where they are, those elsewhere below the name of their
    store. Raises SpecError; RefusedError for a table that leaves out some of them.
    """
    table = _table(data, uri, listed)
    _require_all(table)
    files: dict[str, ListedFile] = {}
    origins: dict[str, Origin] = {}
    for named in _paths(table):
        kind, path = named.kind, named.path
        _require(data, listed, named)
        if isinstance(reference_to(path), Local):
            files |= {one.path: one for one in listed.files if _is_named(one, kind, path)}
            continue
        for shown, file, origin in _elsewhere(data, kind, path):
            if shown in files and files[shown].key != file.key:
                what = f"two of its files would be shown as {shown}"
                raise RefusedError(what, where=named.where, fix="Put them into folders of different names.")
            files[shown], origins[shown] = replace(file, path=shown, alone=False), origin
    return replace(listing(list(files.values())), origins=origins)


def _require_all(table: Table) -> None:
    """Nothing chooses among the files before they are read."""
    steps: object = table.told.get("transformations") or []
    for number, step in enumerate(cast("list[Any]", steps) if isinstance(steps, list) else []):
        name = str(next(iter(cast("dict[str, Any]", step)), "")) if isinstance(step, dict) else str(step)
        if name.startswith("read_"):
            return
        if name in CHOOSING:
            what = f"its transformation `{name}` chooses among files, which only Azure's own reader evaluates"
            fix = "Use mode download, and read it with `mltable.load`."
            raise RefusedError(what, where=table.at("transformations", number), fix=fix)


def _elsewhere(data: DataAccess, kind: str, path: str) -> Iterator[tuple[str, ListedFile, Origin]]:
    """The files of a path in some store: the place where each is shown, the file, where it lies."""
    if kind == "file":
        file = data.listing(path, is_file=True).files[0]
        yield _shown(path, ""), file, Origin(path, file.path, alone=True)
        return
    folder, rest = _split(path) if kind == "pattern" else (path, "**")
    for file in data.listing(folder, is_file=False).files:
        if _matches(file.path, rest):
            yield _shown(folder, file.path), file, Origin(folder, file.path)


def _shown(uri: str, path: str) -> str:
    """Store, then path: `blobs/images/1.jpg`; of an Azure address `account/container/…`."""
    match reference_to(uri):
        case InStore(name, place):
            parts = [name, place]
        case OfJob(job, output, place):
            parts = [job, output, place]
        case _:
            found = urlsplit(uri)
            container, _, host = found.netloc.rpartition("@")
            is_web = found.scheme in ("http", "https")
            parts = [host.partition(".")[0] if container else host, container]
            parts.append(unquote(found.path) if is_web else found.path)
    return "/".join(part.strip("/") for part in (*parts, path) if part.strip("/"))


def _table(data: DataAccess, uri: str, listed: Listing) -> Table:
    where = f"{uri}/{FILE}"
    file = next((one for one in listed.files if one.path == FILE), None)
    if file is None or file.size > MAX_BYTES:
        what = f"there is no file {FILE} in it" if file is None else f"its file {FILE} is larger than 1 MiB"
        raise SpecError(f"this is no MLTable: {what}", where=uri, fix="Use type uri_folder for a plain folder.")
    try:
        tree = parse(b"".join(data.read(uri, file)).decode(), where, "`paths: [{file: ./data.csv}]`")
    except UnicodeDecodeError:
        raise SpecError("the file isn't UTF-8 text", where=where) from None
    told: Any = plain(tree, where)
    return Table(where, tree, cast("dict[str, Any]", told) if isinstance(told, dict) else {})


def _paths(table: Table) -> Iterator[Named]:
    paths: object = table.told.get("paths")
    if not isinstance(paths, list) or not paths:
        raise SpecError("it has no list `paths`", where=table.where, fix="Write `paths: [{file: ./data.csv}]`.")
    for number, one in enumerate(cast("list[Any]", paths)):
        entry = cast("dict[str, Any]", one) if isinstance(one, dict) else {}
        found = [(kind, entry[kind]) for kind in KINDS if isinstance(entry.get(kind), str)]
        if len(found) != 1:
            fix = "Write `paths: [{file: ./data.csv}]`."
            where = table.at("paths", number)
            raise SpecError("each of `paths` has one of `file`, `folder` and `pattern`", where=where, fix=fix)
        yield Named(*found[0], table.at("paths", number))


def _require(data: DataAccess, listed: Listing, named: Named) -> None:
    kind, path, where = named.kind, named.path, named.where
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
    return any(_is_named(one, kind, path) for one in listed.files)


def _is_named(one: ListedFile, kind: str, path: str) -> bool:
    """Whether a path beside the table names this file; never the table itself."""
    inner = path.removeprefix("file://").removeprefix("./").strip("/")
    if one.path == FILE:
        return False
    match kind:
        case "file":
            return one.path == inner
        case "folder":
            return inner in ("", ".") or one.path.startswith(f"{inner}/")
        case _:
            return _matches(one.path, inner)


def _matches(path: str, pattern: str) -> bool:
    """Whether a pattern names a file: `*` and `?` stay within a part of its path, `**` is any folders, or none."""
    parts = path.split("/")
    covered = {0}
    """How many of the path's parts the beginning of the pattern may stand for."""
    for wanted in pattern.split("/"):
        if wanted == "**":
            covered = set(range(min(covered, default=len(parts) + 1), len(parts) + 1))
        else:
            covered = {count + 1 for count in covered if count < len(parts) and fnmatchcase(parts[count], wanted)}
    return len(parts) in covered


def _is_at(data: DataAccess, kind: str, path: str) -> bool:
    if kind != "pattern":
        return bool(data.listing(path, is_file=kind == "file").files)
    folder, rest = _split(path)
    return any(_matches(one.path, rest) for one in data.listing(folder, is_file=False).files)


def _split(pattern: str) -> tuple[str, str]:
    """The folder that a pattern is in, and the pattern there."""
    marks = [pattern.index(mark) for mark in "*?[" if mark in pattern]
    folder = pattern[: min(marks, default=len(pattern))].rsplit("/", 1)[0]
    return folder, pattern[len(folder) + 1 :]

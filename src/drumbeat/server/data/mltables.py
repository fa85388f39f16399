"""MLTables: checks that the paths of a table can be read, and lists its files. Rows are left to the reader."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, cast
from urllib.parse import unquote, urlsplit

from drumbeat.jobfile.data.paths import JobOutputReference, Local, StoreReference, reference_to
from drumbeat.jobfile.reading.yaml_tree import YamlNode, parse, plain
from drumbeat.model.errors import DrumbeatError, RefusedError, SpecError
from drumbeat.model.input_listing import ListedFile, Listing, Origin, listing
from drumbeat.model.path_patterns import is_match
from drumbeat.ports.data import DataAccess

FILE = "MLTable"
KINDS = ("file", "folder", "pattern")
MAX_BYTES = 1 << 20
CHOOSING = ("take", "skip", "take_random_sample", "filter", "random_split", "sample")
"""Transformations that leave out files before any of them is read."""


@dataclass(frozen=True)
class Table:
    """The content of a table's file. where: the file's URI, for messages."""

    where: str
    tree: YamlNode
    document: dict[str, Any]

    def at(self, *keys: str | int) -> str:
        """Returns the file with line and column of the value at these keys."""
        node = self.tree
        for key in keys:
            child = node.child(key)
            if child is None:
                break
            node = child[1]
        return f"{self.where}:{node.line + 1}:{node.column + 1}"


@dataclass(frozen=True)
class Named:
    """An entry of `paths`. where: its line."""

    kind: str
    path: str
    where: str


def check(data: DataAccess, uri: str, listed: Listing) -> None:
    """Raises SpecError with the first path that doesn't exist."""
    for named in _paths(_table(data, uri, listed)):
        _require(data, listed, named)


def evaluate(data: DataAccess, uri: str, listed: Listing) -> Listing:
    """Returns the files of the table's paths: files beside it at their paths, files elsewhere below the name of their
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
    """Raises RefusedError for a transformation that selects files before they are read."""
    steps: object = table.document.get("transformations") or []
    for number, step in enumerate(cast("list[Any]", steps) if isinstance(steps, list) else []):
        name = str(next(iter(cast("dict[str, Any]", step)), "")) if isinstance(step, dict) else str(step)
        if name.startswith("read_"):
            return
        if name in CHOOSING:
            what = f"its transformation `{name}` selects files, which only Azure's own reader can evaluate"
            fix = "Use mode download, and read it with `mltable.load`."
            raise RefusedError(what, where=table.at("transformations", number), fix=fix)


def _elsewhere(data: DataAccess, kind: str, path: str) -> Iterator[tuple[str, ListedFile, Origin]]:
    """Yields the files of a path in another store: where each is shown, the file, its origin."""
    if kind == "file":
        file = data.listing(path, is_file=True).files[0]
        yield _shown(path, ""), file, Origin(path, file.path, alone=True)
        return
    folder, rest = _split(path) if kind == "pattern" else (path, "**")
    for file in data.listing(folder, is_file=False).files:
        if is_match(file.path, rest):
            yield _shown(folder, file.path), file, Origin(folder, file.path)


def _shown(uri: str, path: str) -> str:
    """Returns store and path, such as `blobs/images/1.jpg`; for an Azure URI `account/container/…`."""
    match reference_to(uri):
        case StoreReference(name, place):
            parts = [name, place]
        case JobOutputReference(job, output, place):
            parts = [job, output, place]
        case _:
            url = urlsplit(uri)
            container, _, host = url.netloc.rpartition("@")
            is_web = url.scheme in ("http", "https")
            parts = [host.partition(".")[0] if container else host, container]
            parts.append(unquote(url.path) if is_web else url.path)
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
    document: Any = plain(tree, where)
    return Table(where, tree, cast("dict[str, Any]", document) if isinstance(document, dict) else {})


def _paths(table: Table) -> Iterator[Named]:
    paths: object = table.document.get("paths")
    if not isinstance(paths, list) or not paths:
        raise SpecError("it has no list `paths`", where=table.where, fix="Write `paths: [{file: ./data.csv}]`.")
    for number, one in enumerate(cast("list[Any]", paths)):
        entry = cast("dict[str, Any]", one) if isinstance(one, dict) else {}
        sources = [(kind, entry[kind]) for kind in KINDS if isinstance(entry.get(kind), str)]
        if len(sources) != 1:
            fix = "Write `paths: [{file: ./data.csv}]`."
            where = table.at("paths", number)
            raise SpecError("each of `paths` has one of `file`, `folder` and `pattern`", where=where, fix=fix)
        yield Named(*sources[0], table.at("paths", number))


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
        raise SpecError(f"{kind} {path} doesn't exist", where=where, fix=f"Paths are relative to the folder of {FILE}.")


def _is_inside(listed: Listing, kind: str, path: str) -> bool:
    return any(_is_named(one, kind, path) for one in listed.files)


def _is_named(one: ListedFile, kind: str, path: str) -> bool:
    """Whether a relative path names this file, which is never the table itself."""
    inner = path.removeprefix("file://").removeprefix("./").strip("/")
    if one.path == FILE:
        return False
    match kind:
        case "file":
            return one.path == inner
        case "folder":
            return inner in ("", ".") or one.path.startswith(f"{inner}/")
        case _:
            return is_match(one.path, inner)


def _is_at(data: DataAccess, kind: str, path: str) -> bool:
    if kind != "pattern":
        return bool(data.listing(path, is_file=kind == "file").files)
    folder, rest = _split(path)
    return any(is_match(one.path, rest) for one in data.listing(folder, is_file=False).files)


def _split(pattern: str) -> tuple[str, str]:
    """Splits a pattern into its fixed folder and the rest."""
    marks = [pattern.index(mark) for mark in "*?[" if mark in pattern]
    folder = pattern[: min(marks, default=len(pattern))].rsplit("/", 1)[0]
    return folder, pattern[len(folder) + 1 :]

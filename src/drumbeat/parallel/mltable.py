"""The file `MLTable` of an input: which files its rows are in, how they are read, and what is done with them.

The meaning of each key is that of Azure's own package `mltable`, with which a test compares it. A key or a
transformation that isn't known here is refused by its name.
"""

from __future__ import annotations

import functools
import hashlib
import importlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from drumbeat.model.path_patterns import is_match
from drumbeat.parallel.row_filter import RowFilter
from drumbeat.parallel.settings import RunnerError

FILE = "MLTable"
STEPS = ("filter", "take", "skip", "take_random_sample", "keep_columns", "drop_columns", "convert_column_types")
POSITIONAL = ("take", "skip")
"""Transformations that count rows of the whole table."""
ENCODINGS = {
    "utf8": "utf-8", "utf-8": "utf-8", "utf8 bom": "utf-8-sig", "utf8bom": "utf-8-sig", "iso88591": "latin-1",
    "iso-8859-1": "latin-1", "latin1": "latin-1", "latin-1": "latin-1", "ascii": "ascii", "windows1252": "cp1252",
    "windows-1252": "cp1252",
}  # fmt: skip
HEADERS = ("all_files_same_headers", "all_files_different_headers", "from_first_file", "no_header")
_ENDINGS = {".csv": "delimited", ".tsv": "delimited", ".jsonl": "json_lines", ".ndjson": "json_lines",
            ".parquet": "parquet", ".pqt": "parquet"}  # fmt: skip
SUFFIXES = (*_ENDINGS,)
"""Names' ends of tables without a description."""
_COLUMN_TYPES = ("string", "int", "float", "boolean")


@dataclass(frozen=True)
class RowReader:
    """How the rows of a file are read."""

    kind: str
    """`delimited`, `json_lines` or `parquet`."""
    delimiter: str = ","
    header: str = "all_files_different_headers"
    encoding: str = "utf-8"
    has_line_breaks: bool = False
    """Whether line breaks between quotes belong to a value."""
    is_empty_text: bool = False
    """Whether an empty value is an empty text rather than missing."""
    infers_types: bool = True
    drops_invalid: bool = False
    has_path: bool = False
    """Whether the first column, `Path`, is the path of the file."""
    is_described: bool = False
    """Whether a table says so, rather than the file's name."""


@dataclass(frozen=True)
class TableDescription:
    """What `MLTable` says. files: below the input, in the table's order."""

    files: tuple[str, ...]
    reader: RowReader | None
    """None = by the name of each file."""
    steps: tuple[tuple[str, Any], ...] = ()
    digest: str = ""
    """Of the description: rows that were divided by another one aren't the same."""

    def reader_of(self, file: str) -> RowReader:
        """The reader of a file's rows. Raises RunnerError."""
        return self.reader or reader_by_name(file)


def reader_by_name(file: str) -> RowReader:
    """The reader of a file without a description. Raises RunnerError."""
    suffix = os.path.splitext(file)[1].lower()
    if suffix not in _ENDINGS:
        raise RunnerError(
            f"{os.path.basename(file)} can't be divided by bytes: its rows aren't known, as those of "
            f"{', '.join(SUFFIXES)} are"
        )
    return RowReader(_ENDINGS[suffix], delimiter="\t" if suffix == ".tsv" else ",")


@functools.lru_cache(maxsize=4)
def read_table(root: str) -> TableDescription | None:
    """Returns the description in the folder of an input, None = there is none. Raises RunnerError."""
    try:
        with open(os.path.join(root, FILE), encoding="utf-8") as file:
            text = file.read()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise RunnerError(f"{FILE} can't be read: {error}") from error
    document = _parsed(text)
    unknown = sorted(set(document) - {"$schema", "type", "paths", "transformations", "traits", "metadata"})
    if unknown:
        raise RunnerError(f"{FILE}: the key {unknown[0]} isn't known")
    reader, steps = _transformations(document.get("transformations") or [])
    files = _files(root, document.get("paths") or [])
    return TableDescription(files, reader, steps, hashlib.sha256(text.encode()).hexdigest()[:16])


def _parsed(text: str) -> dict[str, Any]:
    """The document of a YAML text. The runner has no parser of its own."""
    try:
        document: Any = json.loads(text)
    except ValueError:
        document = _yaml(text)
    if not isinstance(document, dict):
        raise RunnerError(f"{FILE} isn't a mapping with `paths`")
    return cast("dict[str, Any]", document)


def _yaml(text: str) -> Any:
    try:
        yaml: Any = importlib.import_module("yaml")
    except ImportError:
        raise RunnerError(
            f"{FILE} can't be read without the package pyyaml: add it to the environment of the step"
        ) from None
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise RunnerError(f"{FILE} isn't YAML: {error}") from error


def _files(root: str, paths: Any) -> tuple[str, ...]:
    """The files that a table names, each once."""
    paths_below: list[str] = []
    for folder, _, names in os.walk(root):
        paths_below += [os.path.relpath(os.path.join(folder, name), root) for name in names]
    listed = sorted(one for one in paths_below if one != FILE)
    named_files: dict[str, None] = {}
    entries = cast("list[Any]", paths) if isinstance(paths, list) else []
    for entry in entries:
        named = cast("dict[str, Any]", entry) if isinstance(entry, dict) else {}
        kind, place = next(iter(named.items()), ("", ""))
        if len(named) != 1 or kind not in ("file", "folder", "pattern") or not isinstance(place, str):
            raise RunnerError(f"{FILE}: each of `paths` has one of `file`, `folder` and `pattern`")
        if "://" in place or place.startswith("/"):
            raise RunnerError(
                f"{FILE}: the path {place} isn't beside the table, and only those are divided by rows: copy it there, "
                "or give the files as an input of type uri_folder"
            )
        inner = place.removeprefix("./").strip("/")
        matching = [one for one in listed if _is_named(one, kind, inner)]
        if not matching:
            raise RunnerError(f"{FILE}: {kind} {place} doesn't exist beside the table")
        named_files |= dict.fromkeys(matching)
    if not named_files:
        raise RunnerError(f"{FILE} has no list `paths`")
    return (*named_files,)


def _is_named(file: str, kind: str, place: str) -> bool:
    match kind:
        case "file":
            return file == place
        case "folder":
            return place in ("", ".") or file.startswith(f"{place}/")
        case _:
            return is_match(file, place)


# --- transformations ------------------------------------------------------------------------------------------------
def _transformations(written: Any) -> tuple[RowReader | None, tuple[tuple[str, Any], ...]]:
    """The reader of a table, and what follows it. Raises RunnerError."""
    reader: RowReader | None = None
    steps: list[tuple[str, Any]] = []
    for entry in cast("list[Any]", written) if isinstance(written, list) else [written]:
        empty: dict[str, Any] = {}
        given = cast("dict[str, Any]", entry) if isinstance(entry, dict) else {str(entry): empty}
        name, value = next(iter(given.items()), ("", None))
        if name in ("read_delimited", "read_parquet", "read_json_lines"):
            if reader is not None or steps:
                raise RunnerError(f"{FILE}: {name} isn't the first of its transformations")
            reader = _reader(name, value or {})
        elif name in STEPS:
            steps.append((name, _checked(name, value)))
        else:
            supported = ", ".join(("read_delimited", "read_parquet", "read_json_lines", *STEPS))
            raise RunnerError(f"{FILE}: the transformation {name} isn't supported here; supported are {supported}")
    return reader, (*steps,)


_OPTIONS = {
    "read_delimited": (
        "delimiter", "header", "support_multi_line", "empty_as_string", "encoding", "include_path_column",
        "infer_column_types",
    ),
    "read_json_lines": ("invalid_lines", "encoding", "include_path_column"),
    "read_parquet": ("include_path_column",),
}  # fmt: skip


def _reader(name: str, options: Mapping[str, Any]) -> RowReader:
    if unknown := sorted(set(options) - set(_OPTIONS[name])):
        raise RunnerError(f"{FILE}: the option {unknown[0]} of {name} isn't supported here")
    made = RowReader(
        name.removeprefix("read_"), has_path=_flag(name, options, "include_path_column"), is_described=True
    )
    if name == "read_parquet":
        return made
    encoding = str(options.get("encoding", "utf8")).lower()
    if encoding not in ENCODINGS:
        raise RunnerError(f"{FILE}: rows of the encoding {encoding} can't be divided by bytes: save the files as utf8")
    made = replace(made, encoding=ENCODINGS[encoding])
    if name == "read_json_lines":
        return replace(made, drops_invalid=_one_of(name, options, "invalid_lines", ("error", "drop")) == "drop")
    delimiter = str(options.get("delimiter", ","))
    if len(delimiter) != 1:
        raise RunnerError(f"{FILE}: the delimiter {delimiter!r} of {name} isn't supported here: it has one character")
    return replace(
        made,
        delimiter=delimiter,
        header=_one_of(name, options, "header", HEADERS),
        has_line_breaks=_flag(name, options, "support_multi_line"),
        is_empty_text=_flag(name, options, "empty_as_string"),
        infers_types=_flag(name, options, "infer_column_types", default=True),
    )


def _flag(name: str, options: Mapping[str, Any], key: str, *, default: bool = False) -> bool:
    value = options.get(key, default)
    if not isinstance(value, bool):
        raise RunnerError(f"{FILE}: {key} of {name} is true or false here")
    return value


def _one_of(name: str, options: Mapping[str, Any], key: str, values: Sequence[str]) -> str:
    value = str(options.get(key, values[0]))
    if value not in values:
        raise RunnerError(f"{FILE}: {key} of {name} is one of {', '.join(values)}, not {value}")
    return value


def _checked(name: str, value: Any) -> Any:
    """The value of a transformation, checked. Raises RunnerError."""
    if name in POSITIONAL:
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise RunnerError(f"{FILE}: {name} has a number of rows, not {value}")
        return value
    if name == "filter":
        return RowFilter(str(value))
    if name in ("keep_columns", "drop_columns"):
        return _columns(name, value)
    if name == "take_random_sample":
        return _sample(value)
    entries = cast("Sequence[Any]", value) if isinstance(value, list) else [value]
    return [_conversion(one) for one in entries]


def _columns(name: str, value: Any) -> list[str]:
    columns = [value] if isinstance(value, str) else value
    if not isinstance(columns, list) or not all(isinstance(one, str) for one in cast("list[object]", columns)):
        raise RunnerError(f"{FILE}: {name} has a name of a column or a list of names; a pattern isn't supported here")
    return cast("list[str]", columns)


def _sample(value: Any) -> tuple[float, int]:
    given = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
    probability, seed = given.get("probability"), given.get("seed") or 0
    if not isinstance(probability, int | float) or not 0 <= probability <= 1 or not isinstance(seed, int):
        raise RunnerError(f"{FILE}: take_random_sample has a probability from 0 to 1, and a seed if need be")
    return float(probability), seed


def _conversion(entry: Any) -> tuple[list[str], str, dict[str, Any]]:
    """Columns, their type, and its options."""
    given = cast("dict[str, Any]", entry) if isinstance(entry, dict) else {}
    columns, type_ = _columns("convert_column_types", given.get("columns")), given.get("column_type")
    if type_ in _COLUMN_TYPES:
        return columns, str(type_), {}
    table = cast("dict[str, dict[str, Any]]", type_) if isinstance(type_, dict) else {}
    if len(table) == 1:
        [(name, options)] = table.items()
        allowed = {"boolean": {"true_values", "false_values", "mismatch_as"}, "datetime": {"formats"}}.get(name, set())
        if isinstance(options, dict) and options and not set(options) - allowed:
            return columns, name, options
    text, supported = json.dumps(cast("object", type_)), ", ".join(_COLUMN_TYPES)
    raise RunnerError(
        f"{FILE}: the column type {text} isn't supported here; supported are {supported}, boolean with true_values, "
        "false_values and mismatch_as, and datetime with formats"
    )

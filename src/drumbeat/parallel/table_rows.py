"""Rows of tables: where mini-batches of so many bytes end in a file, and the DataFrame of one.

Without an `MLTable` a row of a text file is a line: values with line breaks in them aren't divided rightly, as in Azure
unless a table says otherwise.
"""

from __future__ import annotations

import csv
import functools
import importlib
import io
import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from drumbeat.parallel.mltable import RowReader
from drumbeat.parallel.settings import RunnerError

_SAMPLE_LINES = 200
"""Lines from which the types of columns are inferred."""


@dataclass(frozen=True)
class Rows:
    """Rows of a file that follow each other."""

    start: int
    """The first byte; of a Parquet file, the first row."""
    end: int
    """The first byte or row behind them."""
    count: int
    """How many `run()` gets, before the table filters them."""
    cuts: tuple[tuple[int, int], ...] = ()
    """For each `take` and `skip` of the table: the first of the rows that it leaves, and the first behind them."""
    table: str = ""
    """The digest of the table that says how they are read; "" = their file's name does."""


def divide_rows(path: str, size: int, reader: RowReader, *, is_first: bool = True) -> Iterator[Rows]:
    """Gives the rows of a file in parts of about so many bytes, each of whole rows. is_first: of its table.

    Raises OSError, RunnerError.
    """
    if reader.kind == "parquet":
        yield from _divide_parquet(path, size)
        return
    with open(path, "rb") as table:
        if has_head(reader, is_first=is_first):
            next(_records(table, reader), b"")
        start, count = table.tell(), 0
        end = start
        for record in _records(table, reader):
            end += len(record)
            count += bool(record.strip())
            if end - start >= size:
                if count:
                    yield Rows(start, end, count)
                start, count = end, 0
        if count:
            yield Rows(start, end, count)


def has_head(reader: RowReader, *, is_first: bool) -> bool:
    """Whether the first line of a file names columns."""
    if reader.kind != "delimited" or reader.header == "no_header":
        return False
    return is_first or reader.header != "from_first_file"


def _records(table: Any, reader: RowReader) -> Iterator[bytes]:
    """The rows as they are in the file. `readline` rather than iteration: the position in the file counts."""
    record = b""
    while line := table.readline():
        record += line
        if not reader.has_line_breaks or record.count(b'"') % 2 == 0:
            yield record
            record = b""
    if record:
        yield record


def read_rows(path: str, rows: Rows, reader: RowReader, first: str) -> Any:
    """Returns rows as a pandas DataFrame. first: the path of the table's first file.

    Raises OSError, ImportError without pandas, and what pandas raises.
    """
    if reader.kind == "parquet":
        frame = _read_parquet(path, rows)
    else:
        with open(path, "rb") as table:
            head = table.readline() if has_head(reader, is_first=True) and not reader.is_described else b""
            table.seek(rows.start)
            content = table.read(rows.end - rows.start)
        frame = _read_text(head + content, path, reader, first)
    if reader.has_path:
        frame.insert(0, "Path", path)
    return frame


def _read_text(content: bytes, path: str, reader: RowReader, first: str) -> Any:
    pandas: Any = importlib.import_module("pandas")
    if reader.kind == "json_lines":
        if reader.drops_invalid:
            content = b"".join(line for line in content.splitlines(keepends=True) if _is_json(line))
            if not content:
                return pandas.DataFrame()
        return pandas.read_json(io.BytesIO(content), lines=True, encoding=reader.encoding, convert_dates=False)
    if not reader.is_described:
        return pandas.read_csv(io.BytesIO(content), sep=reader.delimiter)
    source = path if reader.header == "all_files_different_headers" else first
    names, types = column_types(source, reader)
    return _read_delimited(content.decode(reader.encoding), names, types, reader)


def _is_json(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except ValueError:
        return False


@functools.lru_cache(maxsize=64)
def column_types(path: str, reader: RowReader) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The columns of a file, and those whose values are text, by its first lines. Raises OSError."""
    pandas: Any = importlib.import_module("pandas")
    with open(path, "rb") as table:
        records = _records(table, reader)
        head = next(records, b"").decode(reader.encoding) if has_head(reader, is_first=True) else ""
        sample = b"".join(record for record, _ in zip(records, range(_SAMPLE_LINES), strict=False))
    text = sample.decode(reader.encoding)
    names: list[str] = next(_cells([head], reader), list[str]()) if head else []
    width = max((len(one) for one in _cells(_lines(text, reader), reader)), default=len(names))
    names += [f"Column{number}" for number in range(len(names) + 1, width + 1)]
    if not reader.infers_types:
        return (*names,), (*names,)
    frame = _read_delimited(text, tuple(names), (), reader)
    is_value = pandas.api.types.is_numeric_dtype
    return (*names,), tuple(one for one in names if not is_value(frame[one]) and not _is_truth(frame[one], pandas))


def _is_truth(column: Any, pandas: Any) -> bool:
    return pandas.api.types.infer_dtype(column, skipna=True) == "boolean"


def _read_delimited(text: str, names: tuple[str, ...], texts: tuple[str, ...], reader: RowReader) -> Any:
    """Reads rows by way of csv's own form, as pandas would join lines whose quotes aren't closed."""
    pandas: Any = importlib.import_module("pandas")
    plain = io.StringIO()
    writer = csv.writer(plain)
    for cells in _cells(_lines(text, reader), reader):
        if cells:
            writer.writerow((cells + [""] * len(names))[: len(names)])
    plain.seek(0)
    return pandas.read_csv(
        plain, names=list(names), header=None, dtype=dict.fromkeys(texts, str), keep_default_na=False,
        na_values=[] if reader.is_empty_text else [""], skip_blank_lines=False,
    )  # fmt: skip


def _lines(text: str, reader: RowReader) -> Iterable[str]:
    return [text] if reader.has_line_breaks else text.splitlines()


def _cells(texts: Iterable[str], reader: RowReader) -> Iterator[list[str]]:
    """The values of each row. A line with a quote that isn't closed has quotes as letters."""
    for text in texts:
        is_whole = text.count('"') % 2 == 0
        quoting = csv.QUOTE_MINIMAL if is_whole else csv.QUOTE_NONE
        yield from csv.reader(io.StringIO(text, newline=""), delimiter=reader.delimiter, quoting=quoting)


# --- Parquet --------------------------------------------------------------------------------------------------------
def _parquet(path: str) -> Any:
    try:
        parquet: Any = importlib.import_module("pyarrow.parquet")
    except ImportError:
        raise RunnerError(
            f"{os.path.basename(path)} can't be read without the package pyarrow: add it to the environment of the step"
        ) from None
    try:
        return parquet.ParquetFile(path)
    except ValueError as error:  # pyarrow.ArrowInvalid
        raise RunnerError(f"{os.path.basename(path)} isn't a Parquet file: {error}") from error


def _divide_parquet(path: str, size: int) -> Iterator[Rows]:
    """Divides by the bytes that a row takes on average before compression."""
    with _parquet(path) as file:
        count = file.metadata.num_rows
        groups = [file.metadata.row_group(number).total_byte_size for number in range(file.metadata.num_row_groups)]
    if not count:
        return
    step = max(1, round(size * count / max(1, sum(groups))))
    for start in range(0, count, step):
        end = min(count, start + step)
        yield Rows(start, end, end - start)


def _read_parquet(path: str, rows: Rows) -> Any:
    """Reads the row groups that have these rows, and no others."""
    arrow: Any = importlib.import_module("pyarrow")
    parts: list[Any] = []
    with _parquet(path) as file:
        begin = 0
        for number in range(file.metadata.num_row_groups):
            end = begin + file.metadata.row_group(number).num_rows
            if begin < rows.end and rows.start < end:
                first, last = max(rows.start, begin) - begin, min(rows.end, end) - begin
                parts.append(file.read_row_group(number).slice(first, last - first))
            begin = end
    return arrow.concat_tables(parts).to_pandas()

"""Rows of text tables: where mini-batches of so many bytes end in a file, and the DataFrame of one.

A row is a line: values with line breaks in them aren't divided rightly, as in Azure unless a table says otherwise.
"""

from __future__ import annotations

import importlib
import io
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

SEPARATORS = {".csv": ",", ".tsv": "\t"}
"""Tables whose first line names their columns."""
LINES = (".jsonl", ".ndjson")
"""Tables of a JSON object in each line."""
SUFFIXES = (*SEPARATORS, *LINES)
TABLE_FILE = "MLTable"
"""The description that may stand beside the files of a table."""


@dataclass(frozen=True)
class Rows:
    """Rows of a file that follow each other."""

    start: int
    """The first byte."""
    end: int
    """The first byte behind them."""
    count: int


def has_rows(file: str) -> bool:
    """Whether a file is a table that can be divided."""
    return os.path.splitext(file)[1].lower() in SUFFIXES


def divide_rows(path: str, size: int) -> Iterator[Rows]:
    """Gives the rows of a file in parts of about so many bytes, each of whole rows. Raises OSError."""
    with open(path, "rb") as table:
        if _names_columns(path):
            table.readline()
        start, count = table.tell(), 0
        end = start
        for line in table:
            end += len(line)
            count += bool(line.strip())
            if end - start >= size:
                if count:
                    yield Rows(start, end, count)
                start, count = end, 0
        if count:
            yield Rows(start, end, count)


def read_rows(path: str, start: int, end: int) -> Any:
    """Returns rows as a pandas DataFrame. Raises OSError, ImportError without pandas, and what pandas raises."""
    pandas: Any = importlib.import_module("pandas")
    with open(path, "rb") as table:
        head = table.readline() if _names_columns(path) else b""
        table.seek(start)
        content = io.BytesIO(head + table.read(end - start))
    suffix = os.path.splitext(path)[1].lower()
    if suffix in LINES:
        return pandas.read_json(content, lines=True)
    return pandas.read_csv(content, sep=SEPARATORS[suffix])


def _names_columns(path: str) -> bool:
    return os.path.splitext(path)[1].lower() in SEPARATORS

"""The division of an input into mini-batches: so many files, or bytes of rows, or one for each key."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from drumbeat.parallel.mltable import POSITIONAL, TableDescription, read_table
from drumbeat.parallel.settings import ParallelSettings, RunnerError
from drumbeat.parallel.table_rows import Rows, divide_rows, read_rows
from drumbeat.parallel.table_steps import apply_step


@dataclass(frozen=True)
class MiniBatch:
    """One call of `run()`."""

    files: tuple[str, ...]
    """Paths below the input, "" = the input itself, where it is a file."""
    key: tuple[tuple[str, str], ...] = ()
    """The values of the partition keys."""
    rows: Rows | None = None
    """Of the only file, these rows; None = whole files."""

    @property
    def items(self) -> int:
        """How many elements `run()` returns for it."""
        return self.rows.count if self.rows else len(self.files)


def divide(settings: ParallelSettings) -> list[MiniBatch]:
    """Returns the mini-batches of the input, in its order. Raises RunnerError."""
    files = input_files(settings.input)
    if settings.mini_batch_bytes:
        table = read_table(settings.input) or TableDescription((*files,), None)
        return _by_rows(settings.input, table, settings.mini_batch_bytes)
    if settings.partition_keys:
        return _by_keys(files, settings.partition_keys)
    size = settings.mini_batch_size
    groups = [files[at : at + size] for at in range(0, len(files), size)]
    return [MiniBatch(tuple(group)) for group in groups]


def input_files(root: str) -> list[str]:
    """Returns the files of the input by their paths below it, sorted. Raises RunnerError where there is none."""
    if os.path.isfile(root):
        return [""]
    files: list[str] = []
    for folder, _, names in os.walk(root, onerror=_refuse):
        files += [os.path.relpath(os.path.join(folder, name), root) for name in names]
    if not files:
        raise RunnerError(f"input_data has no files: {root} is empty")
    return sorted(files)


def _refuse(error: OSError) -> None:
    raise RunnerError(f"input_data can't be read: {error.filename}: {error.strerror}") from error


def _by_keys(files: Sequence[str], keys: Sequence[str]) -> list[MiniBatch]:
    """Groups files by the values in the names of their folders, as in `year=2024/shop=7/a.csv`."""
    groups: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for file in files:
        values = dict(part.split("=", 1) for part in file.split("/")[:-1] if "=" in part)
        if missing := [key for key in keys if key not in values]:
            raise RunnerError(
                f"partition_keys: {file} is in no folder named {missing[0]}=VALUE, by which files are partitioned"
            )
        groups.setdefault(tuple((key, values[key]) for key in keys), []).append(file)
    return [MiniBatch(tuple(group), key) for key, group in groups.items()]


def _by_rows(root: str, table: TableDescription, size: int) -> list[MiniBatch]:
    """Divides the rows of each file of a table."""
    parts: list[MiniBatch] = []
    for number, file in enumerate(table.files):
        path = os.path.join(root, file) if file else root
        rows = divide_rows(path, size, table.reader_of(path), is_first=number == 0)
        parts += [MiniBatch((file,), rows=replace(one, table=table.digest)) for one in rows]
    batches = [*_cut(root, table, parts)] if any(name in POSITIONAL for name, _ in table.steps) else parts
    if not batches:
        raise RunnerError(f"input_data has no rows: {root}")
    return batches


def _cut(root: str, table: TableDescription, parts: Sequence[MiniBatch]) -> Iterator[MiniBatch]:
    """Leaves out the rows that `take` and `skip` leave out. Rows are read where filters come before these."""
    left = [int(value) for name, value in table.steps if name in POSITIONAL]
    last = max(number for number, (name, _) in enumerate(table.steps) if name in POSITIONAL)
    steps = table.steps[: last + 1]
    is_read = any(name in ("filter", "take_random_sample") for name, _ in steps) or bool(
        table.reader and table.reader.drops_invalid
    )
    for part in parts:
        frame = rows_of(root, part.files[0], part.rows) if is_read and part.rows else None
        count, cuts = part.items if frame is None else len(frame), list[tuple[int, int]]()
        for name, value in steps:
            if name in POSITIONAL:
                at, moved = len(cuts), min(left[len(cuts)], count)
                cuts.append((0, moved) if name == "take" else (moved, count))
                left[at] -= moved
                count = cuts[-1][1] - cuts[-1][0]
                frame = frame if frame is None else frame.iloc[slice(*cuts[-1])]
            elif frame is not None:
                frame = apply_step(frame, name, value, place_of(part.files[0], part.rows))
                count = len(frame)
        if count and part.rows:
            yield replace(part, rows=replace(part.rows, count=count, cuts=(*cuts,)))


def rows_of(root: str, file: str, rows: Rows | None) -> Any:
    """Returns rows of a file as a DataFrame, before the transformations of their table. Raises what reading raises."""
    assert rows is not None  # noqa: S101 - of a division by rows
    path, table = os.path.join(root, file) if file else root, read_table(root)
    if table is None:
        table = TableDescription((file,), None)
    first = os.path.join(root, table.files[0]) if table.files[0] else root
    return read_rows(path, rows, table.reader_of(path), first)


def place_of(file: str, rows: Rows | None) -> str:
    """The name of rows, from which a random sample begins."""
    return f"{file}/{rows.start if rows else 0}"


def fingerprint(batches: Sequence[MiniBatch]) -> str:
    """The SHA-256 of a division: a journal is worth something for the same division alone."""
    parts = [asdict(one) if one.rows else {"files": one.files, "key": one.key} for one in batches]
    text = json.dumps(parts)
    return hashlib.sha256(text.encode()).hexdigest()

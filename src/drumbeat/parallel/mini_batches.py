"""The division of an input into mini-batches: so many files, or bytes of rows, or one for each key."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from drumbeat.parallel.settings import ParallelSettings, RunnerError
from drumbeat.parallel.table_rows import SUFFIXES, TABLE_FILE, Rows, divide_rows, has_rows


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
        return _by_rows(settings.input, files, settings.mini_batch_bytes)
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


def _by_rows(root: str, files: Sequence[str], size: int) -> list[MiniBatch]:
    """Divides the rows of each table."""
    batches: list[MiniBatch] = []
    for file in files:
        path = os.path.join(root, file) if file else root
        if os.path.basename(path) == TABLE_FILE:
            continue
        if not has_rows(path):
            kinds = ", ".join(SUFFIXES)
            raise RunnerError(
                f"{os.path.basename(path)} can't be divided by bytes: its rows are no lines, as in {kinds}"
            )
        batches += [MiniBatch((file,), rows=rows) for rows in divide_rows(path, size)]
    if not batches:
        raise RunnerError(f"input_data has no rows: {root}")
    return batches


def fingerprint(batches: Sequence[MiniBatch]) -> str:
    """The SHA-256 of a division: a journal is worth something for the same division alone."""
    parts = [asdict(one) if one.rows else {"files": one.files, "key": one.key} for one in batches]
    text = json.dumps(parts)
    return hashlib.sha256(text.encode()).hexdigest()

"""The division of an input into mini-batches: so many files each, or one for each combination of partition keys."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from drumbeat.parallel.settings import ParallelSettings, RunnerError


@dataclass(frozen=True)
class MiniBatch:
    """One call of `run()`."""

    files: tuple[str, ...]
    """Paths below the input, "" = the input itself, where it is a file."""
    key: tuple[tuple[str, str], ...] = ()
    """The values of the partition keys."""


def divide(settings: ParallelSettings) -> list[MiniBatch]:
    """Returns the mini-batches of the input, in its order. Raises RunnerError."""
    files = input_files(settings.input)
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


def fingerprint(batches: Sequence[MiniBatch]) -> str:
    """The SHA-256 of a division: a journal is worth something for the same division alone."""
    text = json.dumps([asdict(one) for one in batches])
    return hashlib.sha256(text.encode()).hexdigest()

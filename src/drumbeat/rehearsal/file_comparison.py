"""Compares the files of two runs of one job: by bytes, or by values where the format allows it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from drumbeat.rehearsal.job_record import digest
from drumbeat.rehearsal.metric_comparison import measures_time

_TENSORS = (".pt", ".pth", ".ckpt", ".bin")


@dataclass(frozen=True)
class FileDifference:
    """A file that differs from the unbroken job's."""

    path: str
    why: str

    def __str__(self) -> str:
        """Returns a message about it."""
        return f"{self.path} {self.why}"


def compare_files(
    expected: Mapping[str, Path], actual: Mapping[str, Path], but: Iterable[str] = ()
) -> list[FileDifference]:
    """Returns the differences between the files of two jobs. but: paths that aren't compared.

    Names that begin with a dot are a library's own records, such as which start of the ranks wrote last.
    """
    paths = sorted({*expected, *actual} - {*but})
    judged = [path for path in paths if not any(part.startswith(".") for part in path.split("/"))]
    pairs = [(path, difference(expected.get(path), actual.get(path))) for path in judged]
    return [FileDifference(path, why) for path, why in pairs if why]


def difference(expected: Path | None, actual: Path | None) -> str:
    """Returns how a file differs, "" = not relevantly."""
    if actual is None or expected is None:
        return "is missing" if actual is None else "isn't among the files of the unbroken run"
    if digest(expected) == digest(actual):
        return ""
    if expected.suffix == ".json":
        return _compare_json(expected, actual)
    if expected.suffix in _TENSORS:
        return _compare_tensors(expected, actual)
    return "has other bytes"


def _compare_json(expected: Path, actual: Path) -> str:
    try:
        ours, theirs = (json.loads(path.read_bytes()) for path in (expected, actual))
    except ValueError:
        return "has other bytes"
    return "" if _without_times(ours) == _without_times(theirs) else "has other values"


def _without_times(value: Any) -> Any:
    if isinstance(value, dict):
        items = cast("dict[str, Any]", value)
        return {key: _without_times(one) for key, one in items.items() if not measures_time(key)}
    if isinstance(value, list):
        return [_without_times(one) for one in cast("list[Any]", value)]
    return repr(value)


def _compare_tensors(expected: Path, actual: Path) -> str:
    try:
        import torch
    except ImportError:
        return "has other bytes (its tensors are compared if torch is installed)"
    load: Any = torch.load
    try:
        ours, theirs = (load(path, map_location="cpu", weights_only=True) for path in (expected, actual))
    except Exception:  # noqa: BLE001 (files that torch can't read are compared by their bytes)
        return "has other bytes"
    place = _unequal(ours, theirs, "")
    return f"has other values at {place}" if place else ""


def _unequal(ours: Any, theirs: Any, place: str) -> str:
    """Returns where two values of a checkpoint first differ, "" = nowhere except in times."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        left, right = cast("dict[Any, Any]", ours), cast("dict[Any, Any]", theirs)
        if left.keys() != right.keys():
            return place or "its keys"
        pairs = [(left[key], right[key], f"{place}.{key}".strip(".")) for key in left if not measures_time(str(key))]
    elif isinstance(ours, list | tuple) and isinstance(theirs, list | tuple):
        mine, other = cast("list[Any]", ours), cast("list[Any]", theirs)
        if len(mine) != len(other):
            return place or "its length"
        pairs = [(a, b, f"{place}[{number}]") for number, (a, b) in enumerate(zip(mine, other, strict=True))]
    else:
        return "" if _is_same(ours, theirs) else place or "its top"
    return next(filter(None, (_unequal(a, b, where) for a, b, where in pairs)), "")


def _is_same(ours: Any, theirs: Any) -> bool:
    import torch

    if isinstance(ours, torch.Tensor) and isinstance(theirs, torch.Tensor):
        if ours.dtype != theirs.dtype or ours.shape != theirs.shape:
            return False
        return bool(torch.equal(_bits(ours), _bits(theirs)))
    return type(ours) is type(theirs) and repr(ours) == repr(theirs)


def _bits(tensor: Any) -> Any:
    import torch

    return tensor.contiguous().reshape(-1).view(torch.uint8)

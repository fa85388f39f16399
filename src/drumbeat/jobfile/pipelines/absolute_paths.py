"""Local paths of a component made absolute, so that it can be used away from its file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from drumbeat.jobfile.data.paths import local_path

Table = dict[str, Any]


def with_absolute_paths(component: Mapping[str, Any], base: Path) -> Table:
    """Returns a component's document with absolute paths. base: the folder that they count from."""
    table = dict(component)
    for key in ("code", "component", "trial"):
        if isinstance(table.get(key), str):
            table[key] = _absolute(table[key], base)
        elif isinstance(table.get(key), dict):
            table[key] = with_absolute_paths(table[key], base)
    if table.get("additional_includes"):
        table["additional_includes"] = [_absolute(path, base) for path in table["additional_includes"]]
    if isinstance(table.get("environment"), dict):
        table["environment"] = environment_with_absolute_paths(table["environment"], base)
    if isinstance(table.get("inputs"), dict):
        table["inputs"] = {name: _input(value, base) for name, value in table["inputs"].items()}
    if isinstance(table.get("jobs"), dict):
        jobs = cast("Table", table["jobs"])
        table["jobs"] = {name: with_absolute_paths(node, base) for name, node in jobs.items()}
    return table


def environment_with_absolute_paths(environment: Mapping[str, Any], base: Path) -> Table:
    """Returns an environment's document with absolute paths. base: the folder that they count from."""
    table = dict(environment)
    if isinstance(table.get("conda_file"), str):
        table["conda_file"] = _absolute(table["conda_file"], base)
    if isinstance(table.get("build"), dict):
        table["build"] = {**table["build"], "path": _absolute(table["build"]["path"], base)}
    return table


def _input(value: Any, base: Path) -> Any:
    if not isinstance(value, dict):
        return value
    table = cast("Table", value)
    if not isinstance(table.get("path"), str):
        return table
    return {**table, "path": _absolute(table["path"], base)}


def _absolute(path: str, base: Path) -> str:
    """Returns a local path as an absolute one; what has a scheme or an expression stays."""
    local = None if "${{" in path else local_path(path)
    return path if local is None else str((base / Path(local).expanduser()).resolve())

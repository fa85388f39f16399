"""Local paths of a component made absolute, so that it can be used away from its file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

from drumbeat.jobfile.data.paths import local_path

Table = dict[str, Any]


def with_absolute_paths(component: Mapping[str, Any], base: Path) -> Table:
    """Returns a component's document with absolute paths. base: the folder that they count from."""
    return with_changed_paths(component, lambda path: _absolute(path, base))


def environment_with_absolute_paths(environment: Mapping[str, Any], base: Path) -> Table:
    """Returns an environment's document with absolute paths. base: the folder that they count from."""
    return _environment(environment, lambda path: _absolute(path, base))


def with_changed_paths(component: Mapping[str, Any], change: Callable[[str], str]) -> Table:
    """Returns a document in which each text that may be a path is what `change` makes of it."""
    table = dict(component)
    for key in ("code", "component", "trial", "task"):
        if isinstance(table.get(key), str):
            table[key] = change(table[key])
        elif isinstance(table.get(key), dict):
            table[key] = with_changed_paths(table[key], change)
    if table.get("additional_includes"):
        table["additional_includes"] = [change(path) for path in table["additional_includes"]]
    if isinstance(table.get("environment"), dict):
        table["environment"] = _environment(table["environment"], change)
    if isinstance(table.get("inputs"), dict):
        table["inputs"] = {name: _input(value, change) for name, value in table["inputs"].items()}
    if isinstance(table.get("jobs"), dict):
        jobs = cast("Table", table["jobs"])
        table["jobs"] = {name: with_changed_paths(node, change) for name, node in jobs.items()}
    return table


def _environment(environment: Mapping[str, Any], change: Callable[[str], str]) -> Table:
    table = dict(environment)
    if isinstance(table.get("conda_file"), str):
        table["conda_file"] = change(table["conda_file"])
    if isinstance(table.get("build"), dict):
        table["build"] = {**table["build"], "path": change(table["build"]["path"])}
    return table


def _input(value: Any, change: Callable[[str], str]) -> Any:
    if not isinstance(value, dict):
        return value
    table = cast("Table", value)
    if not isinstance(table.get("path"), str):
        return table
    return {**table, "path": change(table["path"])}


def _absolute(path: str, base: Path) -> str:
    """Returns a local path as an absolute one; what has a scheme or an expression stays."""
    local = None if "${{" in path else local_path(path)
    return path if local is None else str((base / Path(local).expanduser()).resolve())

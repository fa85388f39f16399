"""Finds the lines of a conda file that is written inline in a job's or an environment's file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from drumbeat.jobfile.reading.yaml_tree import YamlNode, parse


def requirements_in(table: Mapping[str, Any]) -> list[str]:
    """The items of its pip part, in order."""
    dependencies = table.get("dependencies")
    requirements: list[str] = []
    for one in cast("list[object]", dependencies) if isinstance(dependencies, list) else []:
        pip = cast("dict[str, object]", one).get("pip") if isinstance(one, dict) else None
        requirements += [str(each) for each in cast("list[object]", pip)] if isinstance(pip, list) else []
    return requirements


def requirement_lines(text: str, keys: Sequence[str], table: Mapping[str, Any]) -> tuple[int, ...]:
    """The line of each item of the pip part, counted from 1; 0 where a setting from outside changed it.

    text: of the file, which could be read already. keys: lead to the table.
    """
    node: YamlNode | None = parse(text.removeprefix("\ufeff"), "file")
    for key in (*keys, "dependencies"):
        entry = node.child(key) if node else None
        node = entry[1] if entry else None
    items = [item for one in _list(node) if (entry := one.child("pip")) for item in _list(entry[1])]
    wanted = requirements_in(table)
    places = [(str(one.value), one.line + 1) for one in items] if len(items) == len(wanted) else [("", 0)] * len(wanted)
    return tuple(line if written == text else 0 for (written, line), text in zip(places, wanted, strict=True))


def _list(node: YamlNode | None) -> list[YamlNode]:
    return node.value if node and isinstance(node.value, list) else []

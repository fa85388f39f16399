"""Reads a conda file: the Python, the packages for pip and conda, and the channels, each with its line."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from drumbeat.jobfile.environments.included_files import at
from drumbeat.jobfile.environments.inline_conda import requirements_in
from drumbeat.jobfile.environments.requirements import RequirementLine, included_by, read_items
from drumbeat.jobfile.reading.error_messages import either, short, shown
from drumbeat.jobfile.reading.yaml_tree import YamlNode, parse, plain
from drumbeat.model.api.requests import EnvironmentFiles
from drumbeat.model.errors import SpecError

KEYS = ("name", "channels", "dependencies", "prefix")
PACKAGE = re.compile(r"(?:[\w./-]+::?)?([A-Za-z0-9_][\w.-]*)\s*(.*)", re.DOTALL)
EXACT = re.compile(r"={0,2}\s*(\d+(?:\.\d+){0,2})(?:\.\*|\*)?(?:=.*)?")
OLDEST, NEWEST = (3, 11), (3, 14)
"""Pythons that a node can have: the agent needs 3.11."""


@dataclass(frozen=True)
class Conda:
    """What a conda file asks for. python: `3.11`, "" = any. notes: what was read in another way than written."""

    python: str
    lines: tuple[RequirementLine, ...]
    packages: tuple[str, ...]
    channels: tuple[str, ...]
    notes: tuple[str, ...] = ()


def read(texts: EnvironmentFiles, name: str, own: tuple[int, int]) -> Conda:
    """The file of that name. own: the server's Python, taken where a range allows it. Raises SpecError at a line."""
    text = texts.files[name]
    if not text.strip():
        raise SpecError("the conda file is empty", where=name, fix="It needs `dependencies:`.")
    return _read(texts, name, parse(text.removeprefix("\ufeff"), name), own)


def read_table(texts: EnvironmentFiles, table: Mapping[str, Any], own: tuple[int, int]) -> Conda:
    """The same for one that is written out in a job."""
    return _read(texts, texts.main or "conda_file", _node(table), own)


def included(text: str) -> list[str]:
    """The files that the pip part of a conda file takes in by `-r` or `-c`. One that isn't YAML takes in none."""
    try:
        table = plain(parse(text.removeprefix("\ufeff"), "file"), "file")
    except SpecError:
        return []
    return included_by(requirements_in(cast("dict[str, Any]", table))) if isinstance(table, dict) else []


def _node(value: object) -> YamlNode:
    """A tree whose nodes have no lines."""
    if isinstance(value, Mapping):
        table = cast("Mapping[str, object]", value)
        return _placeless({key: (_placeless(key), _node(inner)) for key, inner in table.items()})
    if isinstance(value, list):
        return _placeless([_node(inner) for inner in cast("list[object]", value)])
    return _placeless("" if value is None else str(value))


def _placeless(value: str | list[YamlNode] | dict[str, tuple[YamlNode, YamlNode]]) -> YamlNode:
    return YamlNode(-1, 0, 0, 0, value)


def _read(texts: EnvironmentFiles, name: str, root: YamlNode, own: tuple[int, int]) -> Conda:
    if not isinstance(root.value, dict):
        raise at(name, root.line + 1, "a conda file is a mapping with `dependencies`, not a list or a text")
    for key, (node, _) in root.value.items():
        _check_key(name, key, node)
    items = _items(name, root, "dependencies")
    wanted = [one for one in items if isinstance(one.value, str)]
    pip = [inner for one in items if not isinstance(one.value, str) for inner in _pip(name, one)]
    numbered = [(str(one.value), number) for one, number in zip(pip, _numbers(texts, pip), strict=True)]
    python, notes = "", ()
    packages: list[str] = []
    for one in wanted:
        package, version = _package(name, one)
        if package == "python":
            python, notes = _python(name, one, version, own)
        elif package != "pip":
            packages.append(str(one.value).strip())
    channels = tuple(_text(name, one) for one in _items(name, root, "channels"))
    return Conda(python, tuple(read_items(texts, name, numbered)), tuple(packages), channels, notes)


def _check_key(name: str, key: str, node: YamlNode) -> None:
    if key == "variables":
        raise at(
            name, node.line + 1, "`variables` of a conda file aren't set", "Put them into `environment_variables`."
        )
    if key not in KEYS:
        raise at(name, node.line + 1, f"unknown key {shown(key)} in the conda file", either(key, KEYS))


def _items(name: str, root: YamlNode, key: str) -> list[YamlNode]:
    entry = root.child(key)
    if entry is None or entry[1].value == "":
        return []
    if not isinstance(entry[1].value, list):
        raise at(name, entry[0].line + 1, f"`{key}` is a list")
    return entry[1].value


def _pip(name: str, node: YamlNode) -> list[YamlNode]:
    """The items of `- pip: [...]`."""
    if not isinstance(node.value, dict) or [*node.value] != ["pip"]:
        raise at(name, node.line + 1, "a dependency is a text, or `pip:` with a list")
    items = _items(name, node, "pip")
    for one in items:
        _text(name, one)
    return items


def _numbers(texts: EnvironmentFiles, pip: Sequence[YamlNode]) -> list[int]:
    """Lines, counted from 1."""
    if not texts.lines:
        return [one.line + 1 for one in pip]
    if len(texts.lines) != len(pip):
        raise SpecError(f"expected {len(pip)} requirement lines, got {len(texts.lines)}", where=texts.main)
    return [*texts.lines]


def _text(name: str, node: YamlNode) -> str:
    if not isinstance(node.value, str) or not node.value.strip() or "\n" in node.value.strip():
        raise at(name, node.line + 1, "expected a text of one line")
    return node.value.strip()


def _package(name: str, node: YamlNode) -> tuple[str, str]:
    match = PACKAGE.fullmatch(_text(name, node))
    if not match:
        raise at(name, node.line + 1, f"{shown(node.value)} isn't a package of conda's", "One is `numpy=2.1`.")
    return match[1].lower(), match[2].strip()


def _python(name: str, node: YamlNode, version: str, own: tuple[int, int]) -> tuple[str, tuple[str, ...]]:
    """The Python that a node is to have, and what there is to say about it."""
    if not version:
        return "", ()
    exact = EXACT.fullmatch(version)
    if exact:
        parts = exact[1].split(".")
        if len(parts) == 1:
            return "", ()
        asked = ".".join(parts[:2])
        return asked, (f"python {exact[1]}: any Python {asked} is taken",) if len(parts) > 2 else ()
    return _python_for_range(name, node, version, own)


def _python_for_range(name: str, node: YamlNode, version: str, own: tuple[int, int]) -> tuple[str, tuple[str, ...]]:
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    try:
        allowed = SpecifierSet(re.sub(r"\s+", "", version))
    except InvalidSpecifier:
        fix = "Write one like `python=3.11`."
        raise at(name, node.line + 1, f"{short(str(node.value))} names no Python", fix) from None
    usable = [(3, minor) for minor in range(OLDEST[1], max(NEWEST[1], own[1]) + 1)]
    fit = [one for one in usable if allowed.contains(f"{one[0]}.{one[1]}.99") or allowed.contains(f"{one[0]}.{one[1]}")]
    if fit == usable:
        return "", ()
    if not fit:
        what = f"nodes have Python {OLDEST[0]}.{OLDEST[1]} or newer, and {short(str(node.value))} allows none of them"
        raise at(name, node.line + 1, what, "Widen the range.")
    taken = min(fit, key=lambda one: abs(one[1] - own[1]))
    return f"{taken[0]}.{taken[1]}", (f"{short(str(node.value))}: Python {taken[0]}.{taken[1]} is taken",)

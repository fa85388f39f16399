"""The Python files of a job's own script: the one that its command starts, and the ones that it imports."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

MAX_FILES = 50
MAX_BYTES = 1 << 20
_SCRIPT = re.compile(r"(?:^|[\s'\"=/])((?:[\w.-]+/)*[\w.-]+\.py)\b")
_MODULE = re.compile(r"\s-m\s+([A-Za-z_][\w.]*)")


@dataclass(frozen=True)
class ScriptFile:
    """A file of the script. path: relative to the code folder."""

    path: str
    tree: ast.Module


def read_script(code: Path, command: str) -> list[ScriptFile]:
    """Returns the files that a job's command runs, if they are in its code folder and can be parsed."""
    todo = [*_started(code, command)]
    files: dict[Path, ScriptFile] = {}
    while todo and len(files) < MAX_FILES:
        path = todo.pop(0)
        if path in files or (tree := _parsed(path)) is None:
            continue
        files[path] = ScriptFile(str(path.relative_to(code)), tree)
        todo += _imported(code, path, tree)
    return [*files.values()]


def _started(code: Path, command: str) -> Iterator[Path]:
    for word in _SCRIPT.findall(command):
        if (code / word).is_file():
            yield code / word
    for name in _MODULE.findall(command):
        yield from _module(code, name, main="__main__.py")


def _module(folder: Path, name: str, main: str = "__init__.py") -> Iterator[Path]:
    place = folder.joinpath(*name.split("."))
    yield from (path for path in (place.with_suffix(".py"), place / main) if path.is_file())


def _parsed(path: Path) -> ast.Module | None:
    try:
        if path.stat().st_size > MAX_BYTES:
            return None
        return ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return None


def _imported(code: Path, path: Path, tree: ast.Module) -> Iterator[Path]:
    """The job's own modules: beside the file, or relative to the code folder."""
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            names = [module, *(f"{module}.{alias.name}".strip(".") for alias in node.names)]
        for name in filter(None, names):
            for folder in (path.parent, code):
                yield from _module(folder, name)

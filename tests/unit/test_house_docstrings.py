"""A path or a module of drumbeat that src names in prose is there."""

import ast
import re
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "drumbeat"
PATHS = re.compile(r"(?<![\w./{}-])((?:[a-z]\w*/)+[a-z]\w*\.py)\b")
MODULES = re.compile(r"`([a-z][a-z_]*)`")
OTHERS = frozenset({"decide", "init", "mpirun", "plan", "protocol", "rank", "run"})
"""Words in backticks of a package's docstring that are no module beside it."""


def test_paths_in_prose_lead_to_files() -> None:
    files = [one for one in SOURCE.rglob("*.py") if one.parent.name != "incidents"]  # Those quote tracebacks of jobs.
    named = [(file, path) for file in files for path in PATHS.findall(file.read_text(encoding="utf-8"))]
    assert len(named) > 10
    lost = [
        f"{file.relative_to(SOURCE)}: {path}"
        for file, path in named
        if not any((above / path).exists() for above in file.parents)
    ]
    assert lost == []


def test_docstrings_of_packages_name_modules_that_they_have() -> None:
    lost = []
    for file in SOURCE.rglob("__init__.py"):
        words = MODULES.findall(ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or "")
        here = {one.stem for one in file.parent.iterdir()}
        lost += [f"{file.relative_to(SOURCE)}: {word}" for word in words if word not in here | OTHERS]
    assert lost == []

"""A public class name stands once in src: one word, one thing."""

import ast
from collections import defaultdict
from pathlib import Path

from drumbeat.client import Client

SOURCE = Path(__file__).parents[2] / "src" / "drumbeat"


def classes() -> dict[str, list[str]]:
    """Public class names to the modules that define them."""
    modules: dict[str, list[str]] = defaultdict(list)
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                modules[node.name].append(path.relative_to(SOURCE).as_posix())
    return modules


def test_public_class_name_stands_in_one_module() -> None:
    # Classes in `ml` have Azure's names, which their scripts and tracebacks show.
    own = {name: [one for one in modules if not one.startswith("ml/")] for name, modules in classes().items()}
    assert {name: modules for name, modules in own.items() if len(modules) > 1} == {}
    of_azure = {name: [one for one in modules if one.startswith("ml/")] for name, modules in classes().items()}
    assert {name: modules for name, modules in of_azure.items() if len(modules) > 1} == {}


def test_call_of_the_client_hides_no_other_call() -> None:
    # The parts of `Client` share its namespace: of two with one name, all callers get the first.
    parts: dict[str, list[str]] = defaultdict(list)
    for part in Client.__mro__[1:]:
        for name in vars(part) if part.__module__.startswith("drumbeat.") else ():
            if not name.startswith("_"):
                parts[name].append(part.__name__)
    assert {name: classes for name, classes in parts.items() if len(classes) > 1} == {}

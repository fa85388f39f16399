"""A public class name stands once in src: one word, one thing."""

import ast
from collections import defaultdict
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "drumbeat"

TWICE = frozenset({
    "Facts", "Found", "Inputs", "JobOutputs", "Kept", "Line", "Link", "Manifest", "Outputs", "Patience", "Piece",
    "Place", "Policy", "Reference", "SshHost", "Step", "Store", "Whole", "Work",
})  # fmt: skip
"""Names that still stand for more than one thing. A name that is unique now is removed; none is added."""


def classes() -> dict[str, list[str]]:
    """Public class names to the modules that define them."""
    modules: dict[str, list[str]] = defaultdict(list)
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                modules[node.name].append(path.relative_to(SOURCE).as_posix())
    return modules


def test_public_class_name_stands_in_one_module() -> None:
    repeated = {name: modules for name, modules in classes().items() if len(modules) > 1}
    assert {name: modules for name, modules in repeated.items() if name not in TWICE} == {}
    assert TWICE - repeated.keys() == set(), "these are unique now: remove them from the list"


def test_client_and_server_share_no_class_name_with_another_room() -> None:
    repeated = {name: modules for name, modules in classes().items() if len(modules) > 1}
    mine = {
        name for name, modules in repeated.items() if any(one.startswith(("client/", "server/")) for one in modules)
    }
    assert mine == set()

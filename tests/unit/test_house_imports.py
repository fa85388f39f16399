"""The walls between the rooms: the table's checker, and the rooms that run in other users's environments."""

import ast
import re
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import grimp
import pytest

from drumbeat.model.programs import PROGRAMS
from tools.import_rooms import find_breaches, find_circles, find_foreign, parse_rooms

SOURCE = Path(__file__).parents[2] / "src" / "drumbeat"
# These are shipped to nodes, where they meet whatever Python there is.
STANDARD_LIBRARY_ONLY = ("model", "launchers", "node", "parallel", "rank", "scoring", "train")
WITHIN_FUNCTIONS = {"train": {"torch"}}
"""What a room may import within its functions only, because its callers have it."""
FOR_ITS_CALLERS = {"train/fastai.py": {"fastai", "torch"}}
"""What a module may import at once, because only scripts import it that have these."""


def build_graph(*imports: tuple[str, str]) -> grimp.ImportGraph:
    graph = grimp.ImportGraph()
    for importer, imported in imports:
        graph.add_module(importer)
        graph.add_module(imported)
        graph.add_import(importer=importer, imported=imported, line_number=3, line_contents="import …")
    return graph


def test_an_import_on_the_rooms_line_is_allowed():
    graph = build_graph(("app.core.machine", "app.spec.job"), ("app.core.machine", "app.core.reasons"))
    assert find_breaches(graph, "app", parse_rooms(["spec ->", "core -> spec"])) == []


def test_an_import_off_the_rooms_line_is_named_with_its_line():
    graph = build_graph(("app.spec.job", "app.core"))
    assert find_breaches(graph, "app", parse_rooms(["spec ->", "core -> spec"])) == [
        "app.spec.job imports app.core (line 3): spec may not import core"
    ]


def test_a_room_without_a_line_is_named():
    graph = build_graph(("app.attic.old", "app.core"))
    assert find_breaches(graph, "app", parse_rooms(["core ->"])) == ["app.attic has no line in the table of rooms"]


def test_a_private_module_of_the_root_is_open_to_all():
    graph = build_graph(("app.core", "app._version"))
    assert find_breaches(graph, "app", parse_rooms(["core ->"])) == []


INNER = ["agent ->", "agent.ground ->", "agent.keeper -> ground"]


def test_import_on_the_line_of_an_inner_room_is_allowed():
    graph = build_graph(("app.agent.keeper.ranks", "app.agent.ground.locks"), ("app.agent.main", "app.agent.keeper"))
    assert find_breaches(graph, "app", parse_rooms(INNER)) == []


@pytest.mark.parametrize("imported", ["app.agent.keeper.ranks", "app.agent.main"])
def test_import_off_the_line_of_an_inner_room_is_named(imported: str):
    graph = build_graph(("app.agent.ground.locks", imported))
    room = ".".join(imported.split(".")[1:3])
    assert find_breaches(graph, "app", parse_rooms(INNER)) == [
        f"app.agent.ground.locks imports {imported} (line 3): agent.ground may not import {room}"
    ]


def test_inner_room_without_a_line_beside_one_with_a_line_is_named():
    graph = build_graph(("app.agent.attic.old", "app.agent.ground.locks"))
    assert find_breaches(graph, "app", parse_rooms(INNER)) == ["app.agent.attic has no line in the table of rooms"]


def test_module_that_a_line_names_needs_a_line():
    graph = build_graph(("app.agent.keeper.ranks", "app.agent.words"))
    table = [*INNER[:2], "agent.keeper -> ground words"]
    assert find_breaches(graph, "app", parse_rooms(table)) == ["app.agent.words has no line in the table of rooms"]


def test_modules_that_import_one_another_are_named_together():
    graph = build_graph(("app.a.x", "app.b.y"), ("app.b.y", "app.c.z"), ("app.c.z", "app.a.x"), ("app.c.z", "app.d"))
    assert find_circles(graph, "app", set()) == ["app.a.x and app.b.y and app.c.z import one another"]


def test_circle_within_rooms_that_are_known_to_have_some_is_left_out():
    graph = build_graph(("app.a.x", "app.a.y"), ("app.a.y", "app.a.x"))
    assert find_circles(graph, "app", {"a"}) == []
    assert find_circles(graph, "app", {"b"}) == ["app.a.x and app.a.y import one another"]


def test_routes_of_a_subject_are_for_itself_and_for_what_puts_them_together():
    own = [("app.jobs.views", "app.jobs.file_routes"), ("app.main", "app.jobs.file_routes")]
    tables = [("app.users.tables", "app.jobs.tables"), ("app.jobs.jobs", "app.routes")]
    foreign = ("app.users.service", "app.jobs.tables")
    graph = build_graph(*own, *tables, foreign)
    assert find_foreign(graph, "app", {"routes", "tables"}, {"main"}) == [
        "app.users.service imports app.jobs.tables, which is app.jobs's own"
    ]


def find_imports(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Every import in a module: the top name, and the line."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name.split(".")[0], node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield (node.module or "").split(".")[0], node.lineno
        elif not is_type_checking(node):
            yield from find_imports(node)


def late_lines(tree: ast.AST) -> set[int]:
    """The lines of imports within functions."""
    functions = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))
    return {line for function in functions for _, line in find_imports(function)}


def is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) in {"TYPE_CHECKING", "typing.TYPE_CHECKING"}


def list_modules(room: str) -> list[Path]:
    """A room's files, and the root package's own, which every import of a room runs first."""
    return [SOURCE / "__init__.py", *sorted((SOURCE / room).rglob("*.py")), *SOURCE.glob(f"{room}.py")]


@pytest.mark.parametrize("room", STANDARD_LIBRARY_ONLY)
def test_rooms_that_travel_import_the_standard_library_only(room: str):
    strangers = []
    for path in list_modules(room):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        late = WITHIN_FUNCTIONS.get(room, set())
        for name, line in find_imports(tree):
            if name in FOR_ITS_CALLERS.get(path.relative_to(SOURCE).as_posix(), ()):
                continue
            if name in late and line in late_lines(tree):
                continue
            if name not in sys.stdlib_module_names and name not in {"drumbeat", ""}:
                strangers.append(f"{path.relative_to(SOURCE)}:{line} imports {name}")
    assert strangers == []


@pytest.mark.parametrize("package", [SOURCE, SOURCE / "server" / "database"], ids=["drumbeat", "database"])
def test_package_imports_no_room_when_it_is_imported(package: Path):
    """The server's tables import the schema below `database`, whose store imports them: either may be the first."""
    tree = ast.parse((package / "__init__.py").read_text(encoding="utf-8"))
    eager = [ast.unparse(node) for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
    rooms = [line for line in eager if "drumbeat" in line and "drumbeat._version" not in line]
    assert rooms == []


@pytest.mark.parametrize("name", PROGRAMS)
def test_module_that_runs_as_a_program_can_be_imported(name: str):
    module = f"{name}.__main__" if (SOURCE.parent / name.replace(".", "/")).is_dir() else name
    assert callable(import_module(module).main)


SENT_AS_TEXT = {SOURCE / "engines" / "ray" / "gang_program.py"}
"""Programs that run where drumbeat isn't, and can import no table."""


def test_programs_are_named_in_the_table_only():
    named = [
        f"{path.relative_to(SOURCE)}:{node.lineno}"
        for path in sorted(SOURCE.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant)
        and node.value in PROGRAMS
        and path.name != "programs.py"
        and path not in SENT_AS_TEXT
        if "getLogger" not in path.read_text(encoding="utf-8").splitlines()[node.lineno - 1]
    ]
    assert named == []


def test_optuna_is_imported_in_its_own_program_only():
    program = SOURCE / "server" / "sweeps" / "samplers" / "optuna_program.py"
    importing = re.compile(r"^\s*(import|from) optuna\b|import_module\(.optuna", re.MULTILINE)
    files = [path for path in SOURCE.rglob("*.py") if importing.search(path.read_text(encoding="utf-8"))]
    assert files == [program]

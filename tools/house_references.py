"""References of docstrings and comments to modules, classes and functions of drumbeat that aren't there.

`python -m tools.house_references` lists each with its place; there is none (tests/unit/test_house_docstrings.py).
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "drumbeat"
IN_BACKTICKS = re.compile(r"`([A-Za-z_]\w*(?:\.\w+)+)(?:\([^`]*\))?`")
HASHED = re.compile(r"#.*")
IN_A_TABLE = re.compile(r"^(?:- ((?:\w+, )*\w+): |([a-z_]+) {2,}\w)", re.MULTILINE)
"""A line of a package's docstring that begins with one of its modules."""
FILES = frozenset({
    "distcp", "json", "jsonl", "lock", "log", "pkl", "proto", "pt", "pyz", "txt", "yaml", "yml",
})  # fmt: skip
"""Endings of files that jobs, nodes and clusters have."""
ELSEWHERE = frozenset({
    "str", "time", "torch", "typer",  # Python and its libraries
    "optimizer", "path", "sitecustomize.py", "t.py", "train.py",  # a script and its objects
    "SearchUtils", "Queue", "client.open_sftp",  # MLflow's, Python's, paramiko's
    "azure", "client", "job", "mlflow",  # Azure's packages, objects of a script, MLflow's
    "azureml", "status", "cgroup",  # keys of Azure ML, Kubernetes and the kernel
    "distribution", "inputs", "parent", "step", "jobs.s.outputs.y",  # keys of a job file
    "name", "table", "x", "A",  # whatever a user writes
    "loop.after_commit",  # a failpoint
})  # fmt: skip
"""Names that aren't of a module: whole, or by their first word."""


@dataclass
class Module:
    """One module: the names of its top level, and its classes with their members."""

    tree: ast.Module
    names: set[str] = field(default_factory=set[str])
    classes: dict[str, set[str]] = field(default_factory=dict[str, set[str]])
    bases: dict[str, set[str]] = field(default_factory=dict[str, set[str]])
    """Of each class: what its members are, too."""


class Catalog:
    """The modules below a folder, by their dotted names from there; a package has the name of its folder."""

    def __init__(self, source: Path) -> None:
        self.modules: dict[str, Module] = {}
        self.paths: dict[str, Path] = {}
        for path in sorted(source.rglob("*.py")):
            parts = path.relative_to(source).with_suffix("").parts
            name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            self.paths[name] = path
            self.modules[name] = _module(ast.parse(path.read_text()), path)
        self.members: dict[str, set[str]] = defaultdict(set)
        self.bases: dict[str, set[str]] = defaultdict(set)
        self.folders: dict[str, set[str]] = defaultdict(set)
        for name, module in self.modules.items():
            folder, _, last = name.rpartition(".")
            self.folders[last].add(folder)
            for one, members in module.classes.items():
                self.members[one] |= members
                self.bases[one] |= module.bases[one]

    def has(self, name: str, place: str) -> bool:
        """Whether the dotted `name`, written in the module `place`, leads to a module, class, function or value.

        A module may be called by its last words alone; a name that begins with `drumbeat` is whole.
        """
        words = name.split(".")
        if words[0] == "drumbeat":
            return self._leads(words[1:])
        above = place.split(".")
        folders = {".".join(above[:depth]) for depth in range(len(above) + 1)} | self.folders[words[0]]
        is_member = len(words) > 1 and self._has_member(words[0], words[1])
        return is_member or any(self._leads([*filter(None, folder.split(".")), *words]) for folder in folders)

    def _has_member(self, name: str, member: str) -> bool:
        bases = self.bases.get(name, set()) - {name}
        return member in self.members.get(name, ()) or any(self._has_member(base, member) for base in bases)

    def _leads(self, words: list[str]) -> bool:
        for length in range(len(words), -1, -1):
            module = self.modules.get(".".join(words[:length]))
            if module is not None:
                match words[length:]:
                    case []:
                        return True
                    case [one]:
                        return one in module.names
                    case [one, member]:
                        return one in module.classes and self._has_member(one, member)
                    case _:
                        return False
        return False


def _module(tree: ast.Module, path: Path) -> Module:
    module = Module(tree, {name for one in _statements(tree, in_definitions=False) for name in _names_of(one)})
    for node in _statements(tree):
        if isinstance(node, ast.ClassDef):
            module.classes[node.name] = {name for one in _statements(node) for name in _names_of(one)}
            module.bases[node.name] = {base.id for base in node.bases if isinstance(base, ast.Name)}
    if path.name == "__init__.py":  # A package may load its names when they are first asked for.
        module.names |= {str(one.value) for one in ast.walk(tree) if isinstance(one, ast.Constant)}
    return module


def _statements(node: ast.AST, *, in_definitions: bool = True) -> Iterator[ast.AST]:
    """The statements below a node."""
    for block in ("body", "orelse", "finalbody", "handlers", "cases"):
        held = getattr(node, block, ())
        for one in held if isinstance(held, list) else ():
            yield one
            if in_definitions or not isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                yield from _statements(one, in_definitions=in_definitions)


def _names_of(node: ast.AST) -> Iterator[str]:
    """The names that a statement gives, those of attributes included."""
    targets: list[ast.expr | None] = []
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.Import(names=names) | ast.ImportFrom(names=names):
            yield from (one.asname or one.name for one in names)
        case ast.Assign():
            targets += node.targets
        case ast.AnnAssign() | ast.AugAssign() | ast.For():
            targets.append(node.target)
        case ast.With():
            targets += [one.optional_vars for one in node.items]
        case _:
            pass
    for target in filter(None, targets):
        for one in ast.walk(target):
            if isinstance(one, ast.Name | ast.Attribute) and isinstance(one.ctx, ast.Store):
                yield one.id if isinstance(one, ast.Name) else one.attr


def _docstrings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in _statements(tree):
        match node:
            case ast.Expr(value=ast.Constant(value=str(words))):
                yield node.lineno, words
            case _:
                pass


def _comments(text: str) -> Iterator[tuple[int, str]]:
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def dead_references(source: Path = SOURCE) -> list[str]:
    """Each reference to what isn't below `source`, as `path:line: name`."""
    catalog = Catalog(source)
    rooms = "|".join(sorted({name.partition(".")[0] for name in catalog.modules if "." in name}))
    bare = re.compile(rf"(?<![\w./`:-])((?:drumbeat\.)?(?:{rooms})(?:\.[A-Za-z_]\w*)+)(?![\w/`(])")
    files = {path.name for path in catalog.paths.values()}
    dead = []
    for place, path in catalog.paths.items():
        text, tree, short = path.read_text(), catalog.modules[place].tree, path.relative_to(source)
        # Reading all tokens takes long, and few files have such a comment.
        has_comment = any(IN_BACKTICKS.search(line) or bare.search(line) for line in HASHED.findall(text))
        for line, words in [*_docstrings(tree), *(_comments(text) if has_comment else ())]:
            for name in [*IN_BACKTICKS.findall(words), *bare.findall(words)]:
                is_ours = not {name, name.partition(".")[0]} & ELSEWHERE and name.rpartition(".")[2] not in FILES
                if is_ours and not (name in files or catalog.has(name, place)):
                    dead.append(f"{short}:{line}: {name}")
        if path.name == "__init__.py":
            here = {one.stem for one in path.parent.iterdir()}
            rows = IN_A_TABLE.findall(ast.get_docstring(tree) or "")
            listed = [word for row in rows for word in "".join(row).split(", ")]
            dead += [f"{short}:1: {word}" for word in listed if word not in here]
    return dead


if __name__ == "__main__":
    print(*dead_references(), sep="\n")

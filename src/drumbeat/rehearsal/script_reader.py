"""Reads the calls of a script with their places and conditions, and follows its paths. The script isn't run."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from drumbeat.rehearsal.script_facts import AnyFunction, CallFact, ScriptFacts
from drumbeat.rehearsal.script_files import ScriptFile

_OF_RANK = re.compile(r"rank|is_(first|main|master|leader|chief|primary)|coordinator", re.IGNORECASE)
_PASSES = 4
"""Through how many assignments and calls a path of checkpoints is followed."""

_OF_PATHS = ("open", "Path", "pathlib.Path", "os.path.join", "str")
_METHODS_OF_PATHS = ("open", "joinpath", "absolute", "resolve", "expanduser", "with_suffix", "with_name")
_GIVES_PATHS = {*_OF_PATHS, *_METHODS_OF_PATHS, "join", "getenv", "get", "format", "int", "get_rank", "TemporaryFile"}
"""Calls whose value is derived from their arguments; the value of other calls isn't a path."""
_NO_NAMES = {"self", "cls", "_"}


def collect_facts(files: Sequence[ScriptFile]) -> ScriptFacts:
    """Reads all files of a script."""
    facts = ScriptFacts()
    names = [file.path.removesuffix(".py").replace("/", ".") for file in files]
    facts.modules = {*names, *(name.rpartition(".")[2] for name in names)}
    for file in files:
        _Reader(file, facts).visit(file.tree)
    defined = [node for file in files for node in ast.walk(file.tree) if isinstance(node, AnyFunction)]
    counts = Counter(node.name for node in defined)
    # With two functions of the same name, a call is ambiguous.
    functions = {node.name: node for node in defined if counts[node.name] == 1}
    facts.functions = {*counts}
    for _ in range(_PASSES):
        for file in files:
            _follow_assignments(facts, file.tree)
        _follow_arguments(facts, functions)
    return facts


class _Reader(ast.NodeVisitor):
    """Walks through one file, and records the surroundings of each call."""

    def __init__(self, file: ScriptFile, facts: ScriptFacts) -> None:
        self._file, self._facts = file, facts
        self._imports: dict[str, str] = {}
        self._function: AnyFunction | None = None
        self._loops = self._guards = 0

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            self._imports[alias.asname or alias.name.partition(".")[0]] = (
                alias.name if alias.asname else alias.name.partition(".")[0]
            )

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        for alias in node.names:
            self._imports[alias.asname or alias.name] = f"{node.module or ''}.{alias.name}".strip(".")

    def visit_FunctionDef(self, node: AnyFunction) -> None:
        outer = self._function, self._loops, self._guards
        self._function, self._loops, self._guards = node, 0, 0
        self._visit_body(node.body)
        self._function, self._loops, self._guards = outer

    visit_AsyncFunctionDef = visit_FunctionDef  # noqa: N815

    def visit_For(self, node: ast.For | ast.AsyncFor | ast.While) -> None:
        self._loops += 1
        for part in [node.test] if isinstance(node, ast.While) else [node.iter]:
            self.visit(part)
        outer = self._guards
        self._visit_body([*node.body, *node.orelse])
        self._guards = outer
        self._loops -= 1

    visit_AsyncFor = visit_For  # noqa: N815
    visit_While = visit_For  # noqa: N815

    def visit_If(self, node: ast.If) -> None:
        self.visit(node.test)
        is_guard = bool(_OF_RANK.search(ast.unparse(node.test)))
        self._guards += is_guard
        self._visit_body([*node.body, *node.orelse])
        self._guards -= is_guard

    def visit_IfExp(self, node: ast.IfExp) -> None:
        is_guard = bool(_OF_RANK.search(ast.unparse(node.test)))
        self._guards += is_guard
        self.generic_visit(node)
        self._guards -= is_guard

    def _visit_body(self, body: Iterable[ast.stmt]) -> None:
        """Visits statements in order: after `if rank != 0: return` all others are guarded, too."""
        for statement in body:
            self.visit(statement)
            if isinstance(statement, ast.If) and _leaves(statement) and _OF_RANK.search(ast.unparse(statement.test)):
                self._guards += 1

    def visit_Assign(self, node: ast.Assign) -> None:
        target = node.targets[0]
        if isinstance(node.value, ast.Call):
            self._facts.assigned[id(node.value)] = ast.unparse(target)
        path = _constant_path(node.value)
        if path and isinstance(target, ast.Name):
            self._facts.constants[target.id] = path
        self.generic_visit(node)

    def visit_With(self, node: ast.With | ast.AsyncWith) -> None:
        for item in node.items:
            if isinstance(item.optional_vars, ast.Name) and (path := _constant_path(item.context_expr)):
                self._facts.constants[item.optional_vars.id] = path
        self.generic_visit(node)

    visit_AsyncWith = visit_With  # noqa: N815

    def visit_Call(self, node: ast.Call) -> None:
        name = self._dotted(node.func)
        if name:
            fact = CallFact(self._file, node, name, self._function, self._guards > 0, self._loops > 0)
            self._facts.calls.append(fact)
        self.generic_visit(node)

    def _dotted(self, node: ast.expr) -> str:
        if isinstance(node, ast.Name):
            return self._imports.get(node.id, node.id)
        if isinstance(node, ast.Attribute):
            return f"{self._dotted(node.value)}.{node.attr}"
        return "()" if isinstance(node, ast.Call) else "[]"


def _leaves(statement: ast.If) -> bool:
    return isinstance(statement.body[-1], ast.Return | ast.Continue | ast.Break)


def _constant_path(node: ast.expr) -> str:
    """Returns the constant start of a path: of a string, or of an expression built from one; "" = it isn't constant."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr) and node.values:
        return _constant_path(node.values[0])
    if isinstance(node, ast.Call) and node.args and ast.unparse(node.func) in _OF_PATHS:
        return _constant_path(node.args[0])
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _METHODS_OF_PATHS:
        return _constant_path(node.func.value)
    if isinstance(node, ast.BinOp):
        return _constant_path(node.left)
    return ""


def constant_path(facts: ScriptFacts, node: ast.expr) -> str:
    """Returns the constant start of a path in the script, even through a variable; "" = it isn't constant."""
    begin = node
    while isinstance(begin, ast.BinOp):
        begin = begin.left
    if isinstance(begin, ast.Name):
        return facts.constants.get(begin.id, "")
    return _constant_path(node)


def _follow_assignments(facts: ScriptFacts, tree: ast.Module) -> None:
    for value, target in _assignments(tree):
        if not _is_path_like(value):
            continue
        if facts.leads_to_checkpoints(value):
            facts.checkpoint_names |= _last_names(target)
        if facts.depends_on_rank(value):
            facts.rank_names |= _last_names(target)


def _is_path_like(value: ast.expr) -> bool:
    """Whether a value may be a path, or contain the rank: no structure, and no call but those that build paths."""
    if isinstance(value, ast.Tuple | ast.List | ast.Dict | ast.Lambda | ast.ListComp | ast.DictComp):
        return False
    calls = (node.func for node in ast.walk(value) if isinstance(node, ast.Call))
    return all(ast.unparse(call).rpartition(".")[2] in _GIVES_PATHS for call in calls)


def _assignments(tree: ast.Module) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Yields each value with its target, of `=`, `:=`, `with … as` and `for … in`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            yield from ((node.value, target) for target in node.targets)
        elif isinstance(node, ast.AnnAssign | ast.NamedExpr) and node.value:
            yield node.value, node.target
        elif isinstance(node, ast.With | ast.AsyncWith):
            yield from ((item.context_expr, item.optional_vars) for item in node.items if item.optional_vars)
        elif isinstance(node, ast.For):
            yield node.iter, node.target


def _last_names(target: ast.expr) -> set[str]:
    if isinstance(target, ast.Attribute):
        return {target.attr}
    return {one.id for one in ast.walk(target) if isinstance(one, ast.Name)} - _NO_NAMES


def _follow_arguments(facts: ScriptFacts, functions: dict[str, AnyFunction]) -> None:
    for call in facts.calls:
        function = functions.get(call.last_name)
        if function is None or not facts.calls_own(call, function.name):
            continue
        parameters = [one.arg for one in (*function.args.posonlyargs, *function.args.args) if one.arg not in _NO_NAMES]
        pairs = [*zip(parameters, call.node.args, strict=False)]
        pairs += [(one.arg, one.value) for one in call.node.keywords if one.arg]
        pairs = [(name, value) for name, value in pairs if _is_path_like(value)]
        facts.checkpoint_names |= {name for name, value in pairs if facts.leads_to_checkpoints(value)}
        facts.rank_names |= {name for name, value in pairs if facts.depends_on_rank(value)}

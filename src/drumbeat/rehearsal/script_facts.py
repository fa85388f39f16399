"""Facts about a script from its syntax tree: its calls, and the names that lead to its checkpoints. Pure."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field

from drumbeat.rehearsal.script_files import ScriptFile

CHECKPOINT_VARIABLE = "DRUMBEAT_CHECKPOINT_DIR"
AnyFunction = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class CallFact:
    """A call in a script."""

    file: ScriptFile
    node: ast.Call
    name: str
    """The dotted name with imports resolved: `torch.save`, `optimizer.step`."""
    function: AnyFunction | None
    """The enclosing function."""
    is_guarded: bool
    """Whether a condition on the rank surrounds it, or precedes it in its function."""
    is_in_loop: bool

    @property
    def line(self) -> int:
        """The line number, from 1."""
        return self.node.lineno

    @property
    def last_name(self) -> str:
        """The name after the last dot."""
        return self.name.rpartition(".")[2]

    def keyword(self, name: str) -> ast.expr | None:
        """Returns the value of a keyword argument, None = missing."""
        return next((one.value for one in self.node.keywords if one.arg == name), None)

    def text(self) -> str:
        """Returns its normalized source."""
        return ast.unparse(self.node)


@dataclass
class ScriptFacts:
    """All calls of a script, and the names in it that lead to the checkpoint folder."""

    calls: list[CallFact] = field(default_factory=list[CallFact])
    checkpoint_names: set[str] = field(default_factory=set[str])
    """Variables and parameters whose value is derived from $DRUMBEAT_CHECKPOINT_DIR."""
    rank_names: set[str] = field(default_factory=set[str])
    """Variables and parameters whose value is derived from the rank."""
    constants: dict[str, str] = field(default_factory=dict[str, str])
    """Variables with a constant path, and the path."""
    modules: set[str] = field(default_factory=set[str])
    """The names by which the script's own files are imported."""
    functions: set[str] = field(default_factory=set[str])
    """The names of the script's own functions."""
    assigned: dict[int, str] = field(default_factory=dict[int, str])
    """The variable to which the value of a call is assigned, by the id of the call."""

    def named(self, *names: str) -> Iterator[CallFact]:
        """Yields calls with one of these full names, or names that end in one after a dot."""
        ends = tuple(f".{name}" for name in names)
        yield from (call for call in self.calls if call.name in names or call.name.endswith(ends))

    def leads_to_checkpoints(self, node: ast.AST) -> bool:
        """Whether an expression is derived from the checkpoint folder."""
        return CHECKPOINT_VARIABLE in ast.unparse(node) or bool(names_in(node) & self.checkpoint_names)

    def depends_on_rank(self, node: ast.AST) -> bool:
        """Whether an expression is derived from the rank."""
        return "rank" in ast.unparse(node).lower() or bool(names_in(node) & self.rank_names)

    def is_called_in_loop(self, call: CallFact) -> bool:
        """Whether a call is repeated: in a loop, or in a function that is called in one."""
        return call.is_in_loop or any(one.is_in_loop for one in self._callers(call))

    def is_called_guarded(self, call: CallFact) -> bool:
        """Whether a call is limited to some ranks, in its own place or wherever its function is called."""
        callers = self._callers(call)
        return call.is_guarded or (bool(callers) and all(one.is_guarded for one in callers))

    def _callers(self, call: CallFact) -> list[CallFact]:
        function = call.function
        return [] if function is None else [one for one in self.calls if self.calls_own(one, function.name)]

    def is_own(self, call: CallFact) -> bool:
        """Whether a call is one of the script's own functions."""
        return call.last_name in self.functions and self.calls_own(call, call.last_name)

    def calls_own(self, call: CallFact, function: str) -> bool:
        """Whether a call is of this function of the script, and not of a library's with the same name."""
        head, _, name = call.name.rpartition(".")
        return name == function and (not head or head in {"self", "cls", *self.modules})


def names_in(node: ast.AST) -> set[str]:
    """Returns the variables and attributes in an expression."""
    names = {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}
    return names | {one.attr for one in ast.walk(node) if isinstance(one, ast.Attribute)}

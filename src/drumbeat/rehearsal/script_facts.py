"""What is known of a script by its syntax tree: its calls, and the names that lead to its checkpoints. Pure."""

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
    """Dotted, with imports resolved: `torch.save`, `optimizer.step`."""
    function: AnyFunction | None
    """The function that it stands in."""
    is_guarded: bool
    """Whether a condition on the rank stands around it, or before it in its function."""
    is_in_loop: bool

    @property
    def line(self) -> int:
        """Its line, counted from 1."""
        return self.node.lineno

    @property
    def last_name(self) -> str:
        """The part behind the last dot."""
        return self.name.rpartition(".")[2]

    def keyword(self, name: str) -> ast.expr | None:
        """Returns the value of a keyword argument, None = it isn't given."""
        return next((one.value for one in self.node.keywords if one.arg == name), None)

    def text(self) -> str:
        """Returns its source as Python would write it."""
        return ast.unparse(self.node)


@dataclass
class ScriptFacts:
    """All calls of a script, and the names in it that lead to the checkpoint folder."""

    calls: list[CallFact] = field(default_factory=list[CallFact])
    checkpoint_names: set[str] = field(default_factory=set[str])
    """Variables and parameters whose value is made of $DRUMBEAT_CHECKPOINT_DIR."""
    rank_names: set[str] = field(default_factory=set[str])
    """Variables and parameters whose value is made of the rank."""
    constants: dict[str, str] = field(default_factory=dict[str, str])
    """Variables that are a path written into the script, with it."""
    modules: set[str] = field(default_factory=set[str])
    """The names by which the script's own files are imported."""
    functions: set[str] = field(default_factory=set[str])
    """The names of the script's own functions."""
    assigned: dict[int, str] = field(default_factory=dict[int, str])
    """The variable that the value of a call is assigned to, by the id of the call."""

    def named(self, *names: str) -> Iterator[CallFact]:
        """Yields calls with one of these full names, or names that end in one after a dot."""
        ends = tuple(f".{name}" for name in names)
        yield from (call for call in self.calls if call.name in names or call.name.endswith(ends))

    def leads_to_checkpoints(self, node: ast.AST) -> bool:
        """Whether an expression is made of the checkpoint folder."""
        return CHECKPOINT_VARIABLE in ast.unparse(node) or bool(names_in(node) & self.checkpoint_names)

    def depends_on_rank(self, node: ast.AST) -> bool:
        """Whether an expression is made of the rank."""
        return "rank" in ast.unparse(node).lower() or bool(names_in(node) & self.rank_names)

    def is_called_in_loop(self, call: CallFact) -> bool:
        """Whether a call happens again and again: in a loop, or in a function that is called in one."""
        return call.is_in_loop or any(one.is_in_loop for one in self._callers(call))

    def is_called_guarded(self, call: CallFact) -> bool:
        """Whether a call is limited to some ranks: where it stands, or at each place that its function is called."""
        callers = self._callers(call)
        return call.is_guarded or (bool(callers) and all(one.is_guarded for one in callers))

    def _callers(self, call: CallFact) -> list[CallFact]:
        function = call.function
        return [] if function is None else [one for one in self.calls if self.is_call_of(one, function.name)]

    def is_own(self, call: CallFact) -> bool:
        """Whether a call is one of a function of the script's own."""
        return call.last_name in self.functions and self.is_call_of(call, call.last_name)

    def is_call_of(self, call: CallFact, function: str) -> bool:
        """Whether a call is one of the script's own function, and not of a library's with the same name."""
        head, _, name = call.name.rpartition(".")
        return name == function and (not head or head in {"self", "cls", *self.modules})


def names_in(node: ast.AST) -> set[str]:
    """Returns the variables and attributes in an expression."""
    names = {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}
    return names | {one.attr for one in ast.walk(node) if isinstance(one, ast.Attribute)}

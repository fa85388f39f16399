"""The transformation `filter` of an `MLTable`: an expression of Python's form over the columns of a row.

As in Azure's reader, a comparison with a missing value, with a column that isn't there or with a value of another type
is neither true nor false, and a row stays where the whole expression is true.
"""

from __future__ import annotations

import ast
import importlib
import operator
from collections.abc import Callable
from typing import Any, cast

from drumbeat.parallel.settings import RunnerError

_COMPARISONS: dict[type[ast.AST], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}  # fmt: skip
_ARITHMETIC: dict[type[ast.AST], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: cast("Callable[[Any, Any], Any]", operator.truediv),
}
_KINDS = {
    "integer": "number", "floating": "number", "mixed-integer-float": "number", "boolean": "boolean", "string": "text",
    "datetime64": "time", "datetime": "time",
}  # fmt: skip


class RowFilter:
    """Selects rows of a DataFrame. Raises RunnerError for an expression with something else in it."""

    def __init__(self, text: str) -> None:
        self._text = text
        try:
            self._tree = ast.parse(text.strip(), mode="eval").body
        except (SyntaxError, ValueError) as error:
            raise self._refusal("it isn't an expression") from error
        self._check(self._tree)

    def _refusal(self, why: str) -> RunnerError:
        return RunnerError(
            f"MLTable: the filter {self._text!r} isn't supported here: {why}. Write comparisons such as "
            '`col("x") > 1`, joined by `and`, `or` and `not`'
        )

    def _check(self, node: ast.expr) -> None:
        match node:
            case ast.BoolOp(values=parts):
                pass
            case ast.UnaryOp(op=ast.Not() | ast.USub(), operand=part):
                parts = [part]
            case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in _COMPARISONS:
                parts = [left, right]
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _ARITHMETIC:
                parts = [left, right]
            case ast.Call(func=ast.Name("col"), args=[ast.Constant(str())], keywords=[]) | ast.Name():
                parts = []
            case ast.Constant(value) if value is None or isinstance(value, bool | int | float | str):
                parts = []
            case _:
                raise self._refusal(f"{ast.unparse(node)} is neither a comparison nor a column")
        for part in parts:
            self._check(part)

    def select(self, frame: Any) -> Any:
        """Returns the rows for which the expression is true."""
        pandas: Any = importlib.import_module("pandas")
        mask = self._value(self._tree, frame, pandas)
        if not hasattr(mask, "fillna") or str(mask.dtype) != "boolean":
            mask = _as_truth(mask, frame, pandas)
        return frame[mask.fillna(value=False).to_numpy(dtype=bool)]

    def _value(self, node: ast.expr, frame: Any, pandas: Any) -> Any:
        """The value of an expression: a column, or a constant. Of comparisons, a column of truth values or missing."""
        match node:
            case ast.BoolOp(op=op, values=values):
                parts = [_as_truth(self._value(one, frame, pandas), frame, pandas) for one in values]
                whole = parts[0]
                for part in parts[1:]:
                    whole = whole & part if isinstance(op, ast.And) else whole | part
                return whole
            case ast.UnaryOp(op=ast.Not(), operand=part):
                return ~_as_truth(self._value(part, frame, pandas), frame, pandas)
            case ast.UnaryOp(operand=part):
                return -self._value(part, frame, pandas)
            case ast.Compare(left=left, ops=[op], comparators=[right]):
                pair = (self._value(left, frame, pandas), self._value(right, frame, pandas))
                return _compared(_COMPARISONS[type(op)], *pair, frame, pandas)
            case ast.BinOp(left=left, op=op, right=right):
                return _ARITHMETIC[type(op)](self._value(left, frame, pandas), self._value(right, frame, pandas))
            case ast.Call(args=[ast.Constant(str(name))]) | ast.Name(name):
                return frame[name] if name in frame.columns else None
            case ast.Constant(value):
                return value
            case _:
                raise AssertionError(ast.dump(node))


def _kind(value: Any, pandas: Any) -> str:
    """What can be compared with each other: numbers, texts, truth values, times; "" = nothing."""
    if hasattr(value, "dtype"):
        return _KINDS.get(pandas.api.types.infer_dtype(value, skipna=True), "")
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int | float):
        return "number"
    return "text" if isinstance(value, str) else ""


def _compared(compare: Any, left: Any, right: Any, frame: Any, pandas: Any) -> Any:
    kinds = _kind(left, pandas), _kind(right, pandas)
    result = pandas.Series(pandas.NA, index=frame.index, dtype="boolean")
    if "time" in kinds and "text" in kinds:
        left, right = (pandas.to_datetime(one) if _kind(one, pandas) == "text" else one for one in (left, right))
    elif not kinds[0] or kinds[0] != kinds[1]:
        return result
    first, second = (_column(one, frame, pandas) for one in (left, right))
    is_known = first.notna() & second.notna()
    result[is_known] = [bool(compare(a, b)) for a, b in zip(first[is_known], second[is_known], strict=True)]
    return result


def _column(value: Any, frame: Any, pandas: Any) -> Any:
    """A column, or a constant as one."""
    return value if hasattr(value, "dtype") else pandas.Series([value] * len(frame), index=frame.index)


def _as_truth(value: Any, frame: Any, pandas: Any) -> Any:
    """A column of truth values; what isn't one, is missing."""
    if hasattr(value, "dtype") and str(value.dtype) == "boolean":
        return value
    if _kind(value, pandas) == "boolean":
        return _column(value, frame, pandas).astype("boolean")
    return pandas.Series(pandas.NA, index=frame.index, dtype="boolean")

"""Every assert tests something: a comma too many turns a comparison into the assert's message."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]


def misread(text: str) -> Iterator[int]:
    """Lines of asserts whose message is a comparison, or whose test is a tuple, which is always true."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Assert) and (isinstance(node.msg, ast.Compare) or isinstance(node.test, ast.Tuple)):
            yield node.lineno


def test_no_assert_has_a_comparison_as_its_message_or_a_tuple_as_its_test():
    files = TESTS.rglob("*.py")
    found = [f"{path.relative_to(TESTS.parent)}:{line}" for path in files for line in misread(path.read_text())]
    assert found == []


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("assert x, y == (1, 2)", [1]),
        ("assert (x, 'x must be true')", [1]),
        ("assert (x, y) == (1, 2), y", []),
        ("assert x == y, (x, y)", []),
    ],
)
def test_misread_assert_is_found(text: str, lines: list[int]):
    assert [*misread(text)] == lines

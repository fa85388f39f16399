"""Golden files of messages (tests/support/messages.py): what fails, what an update writes, what is left over."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.support.messages import FILE, Messages, function_name, key, read, updated, write

TESTS = Path(__file__).parents[1]


def test_other_sentence_than_the_golden_one_fails():
    with pytest.raises(AssertionError):
        Messages(["job a waits"], is_update=False).check("job b waits")


def test_golden_sentence_that_is_not_checked_any_more_fails():
    given = Messages(["job a waits", "job b waits"], is_update=False)
    given.check("job a waits")
    with pytest.raises(AssertionError):
        given.finish()


def test_written_file_reads_back_with_quotes_and_line_breaks(tmp_path: Path):
    modules = {"test_a": {"test_x": ['say "no"\nor \x7f“yes”'], "test_y[1-a b]": ["one", "two"]}}
    write(tmp_path / FILE, modules)
    assert read(tmp_path / FILE) == modules


def test_update_replaces_all_cases_of_a_test_that_ran_and_keeps_others():
    before = {"test_a": {"test_x[1]": ["old"], "test_x[2]": ["old"], "test_y": ["kept"]}}
    assert updated(before, {"test_a": {"test_x[3]": ["new"]}}) == {"test_a": {"test_y": ["kept"], "test_x[3]": ["new"]}}


def test_tests_with_long_parameters_have_keys_of_their_own():
    assert key("test_x" + "a" * 200) != key("test_x" + "a" * 201)


@pytest.mark.parametrize("file", sorted(TESTS.rglob(FILE)), ids=lambda file: str(file.relative_to(TESTS)))
def test_each_golden_message_belongs_to_a_test(file: Path):
    left_over = {
        f"{module}: {name}"
        for module, tests in read(file).items()
        for name in tests
        if function_name(name) not in _functions(file.parent / f"{module}.py")
    }
    assert left_over == set()


def _functions(module: Path) -> set[str]:
    return {node.name for node in ast.parse(module.read_text()).body if isinstance(node, ast.FunctionDef)}

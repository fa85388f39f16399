"""The page of features: marks are found in source, unknown ids are named, the table says what is tested."""

import ast

from tools.make_features_docs import collect_tests, find_marked, find_unknown, read_features, render_page

SOURCE = """
import pytest
pytestmark = [pytest.mark.real, pytest.mark.feature("J1")]

@pytest.mark.feature("L1", "L2")
@pytest.mark.skipif(True, reason="no")
def test_a(): ...

class TestB:
    @pytest.mark.feature("L3")
    async def test_c(self): ...
"""


def test_marks_are_found_on_modules_functions_and_methods():
    assert list(find_marked(ast.parse(SOURCE))) == [
        ("J1", ""),
        ("L1", "::test_a"),
        ("L2", "::test_a"),
        ("L3", "::TestB::test_c"),
    ]


def test_tests_are_collected_by_file(tmp_path):
    (tmp_path / "tests" / "unit").mkdir(parents=True)
    (tmp_path / "tests" / "unit" / "test_x.py").write_text(SOURCE, encoding="utf-8")
    assert collect_tests(tmp_path / "tests")["L2"] == [("tests/unit/test_x.py", "::test_a")]


def test_an_unknown_id_is_named_with_its_test():
    tests = {"Z9": [("tests/unit/test_x.py", "::test_a")]}
    assert find_unknown({"Group": {"J1": "…"}}, tests) == [
        "tests/unit/test_x.py::test_a: feature 'Z9' isn't in docs/features.toml"
    ]


def test_the_page_lists_tests_and_what_is_not_yet():
    page = render_page({"Group": {"J1": "a | b", "J2": "c"}}, {"J1": [("tests/unit/test_x.py", "::test_a")]})
    assert "1 of 2 rows are." in page
    assert "| J1 | a \\| b | tested<br>[unit/test_x.py](../tests/unit/test_x.py): `test_a` |" in page
    assert "| J2 | c | not yet |" in page


def test_every_id_is_given_once():
    ids = [each for group in read_features().values() for each in group]
    assert len(ids) == len(set(ids)) == 96

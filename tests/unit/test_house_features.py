"""The page of features: which tests name a promise, which run has them, what of it no test checks."""

import ast

import pytest

from tools.make_features_docs import (
    ROOT,
    Proof,
    Run,
    collect_tests,
    find_marked,
    find_unknown,
    find_wrong_parts,
    read_features,
    read_parts,
    render_page,
)

SOURCE = """
import pytest
pytestmark = [pytest.mark.real, pytest.mark.feature("J1")]

@pytest.mark.feature("L1", "L2")
@pytest.mark.skipif(True, reason="no")
def test_a(): ...

class TestB:
    @pytest.mark.feature("L3")
    @pytest.mark.thorough
    async def test_c(self): ...

@pytest.mark.thorough
@pytest.mark.gpu
class TestOfAnotherSuite(Suite): ...

def helper(): ...
"""
FILE = "tests/unit/test_x.py"
HERE = "[unit/test_x.py](../tests/unit/test_x.py)"


def test_marks_are_found_on_modules_functions_methods_and_classes():
    assert list(find_marked(ast.parse(SOURCE), FILE)) == [
        ("J1", Proof(FILE, "test_a", Run.TEST, is_whole_file=True)),
        ("L1", Proof(FILE, "test_a", Run.TEST)),
        ("L2", Proof(FILE, "test_a", Run.TEST)),
        ("J1", Proof(FILE, "TestB::test_c", Run.THOROUGH, is_whole_file=True)),
        ("L3", Proof(FILE, "TestB::test_c", Run.THOROUGH)),
        ("J1", Proof(FILE, "TestOfAnotherSuite", Run.GPU, is_whole_file=True)),
    ]


def test_tests_are_collected_by_file(tmp_path):
    (tmp_path / "tests" / "unit").mkdir(parents=True)
    (tmp_path / "tests" / "unit" / "test_x.py").write_text(SOURCE, encoding="utf-8")
    assert collect_tests(tmp_path / "tests")["L2"] == [Proof(FILE, "test_a", Run.TEST)]


def test_an_unknown_id_is_named_with_its_test():
    tests = {"Z9": [Proof(FILE, "test_a", Run.TEST)]}
    assert find_unknown({"Group": {"J1": "…"}}, tests) == [f"{FILE}::test_a: feature 'Z9' isn't in docs/features.toml"]


def test_part_of_an_unknown_id_or_of_one_without_tests_is_refused():
    tests = {"J1": [Proof(FILE, "test_a", Run.TEST)]}
    assert find_wrong_parts({"Group": {"J1": "…", "J2": "…"}}, {"J1": "…", "J2": "…", "Z9": "…"}, tests) == [
        "docs/features.toml: Parts names J2, which has no test: remove it there",
        "docs/features.toml: Parts names Z9, which isn't an id",
    ]


def test_page_tells_tested_rows_from_parts_from_other_runs_and_from_none():
    features = {"Group": {"J1": "a | b", "J2": "c", "J3": "d", "J4": "e", "J5": "f"}}
    tests = {
        "J1": [Proof(FILE, "test_a", Run.TEST), Proof(FILE, "test_b", Run.THOROUGH)],
        "J2": [Proof(FILE, "test_a", Run.TEST)],
        "J3": [Proof(FILE, "test_b", Run.THOROUGH), Proof(FILE, "test_c", Run.GPU)],
        "J4": [Proof(FILE, "test_c", Run.GPU)],
    }
    page = render_page(features, {"J2": "no test of d."}, tests)
    assert "Of 5 rows: 1 *tested*, 1 *part*, 1 *thorough only*, 1 *GPU only*, 1 *not yet*." in page
    assert (
        f"| J1 | a \\| b | **tested**<br>*make test*<br>{HERE}: `test_a`<br>*thorough only*<br>{HERE}: `test_b` |"
        in page
    )
    assert f"| J2 | c | **part**: no test of d.<br>*make test*<br>{HERE}: `test_a` |" in page
    assert f"| J3 | d | **thorough only**<br>*thorough only*<br>{HERE}: `test_b`" in page
    assert f"| J4 | e | **GPU only**<br>*GPU only*<br>{HERE}: `test_c` |" in page
    assert "| J5 | f | **not yet** |" in page


def test_file_is_named_alone_where_all_its_tests_are_meant():
    whole = [Proof(FILE, name, Run.TEST, is_whole_file=True) for name in ("test_a", "test_b")]
    assert f"*make test*<br>{HERE} |" in render_page({"Group": {"J1": "a"}}, {}, {"J1": whole})


@pytest.fixture(scope="module")
def tests() -> dict[str, list[Proof]]:
    return collect_tests(ROOT / "tests")


def test_every_id_is_given_once_and_every_part_is_of_a_tested_one(tests: dict[str, list[Proof]]):
    features = read_features()
    ids = [each for group in features.values() for each in group]
    assert len(ids) == len(set(ids)) == 119
    assert find_wrong_parts(features, read_parts(), tests) == []


def test_every_tested_promise_has_a_test_that_make_test_runs(tests: dict[str, list[Proof]]):
    assert [each for each, proofs in tests.items() if all(one.run is not Run.TEST for one in proofs)] == []

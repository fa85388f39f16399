"""Which failures of a run are run again, and what becomes of the run."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from tools import flaky_tests
from tools.flaky_tests import Failure, failures_of, id_of, main, reason_not_to_rerun, row

JUNIT = """<testsuites><testsuite>
<testcase classname="tests.unit.core.test_a" name="test_passed"/>
<testcase classname="tests.unit.core.test_a.TestB" name="test_c[1-x]@stores">
<failure message="assert 1 == 2&#10;more">long</failure></testcase>
<testcase classname="tests.unit.core.test_a" name="test_d"><failure message="E">x</failure>
<error message="F">y</error></testcase>
<testcase classname="tests.unit.core.test_a" name="test_e"><skipped message="no"/></testcase>
{}
</testsuite></testsuites>"""
UNCOLLECTED = '<testcase classname="" name="tests.unit.test_f"><error message="collection failure">z</error></testcase>'
PASSES = "def test_it(): assert True\n"
PASSES_AGAIN_ONCE = """
from pathlib import Path
def test_it():
    mark = Path(__file__).with_suffix(".ran")
    assert not mark.exists()
    mark.touch()
"""


def a_report(folder: Path, case: str = "") -> Path:
    file = folder / "junit.xml"
    file.write_text(JUNIT.replace("{}", case))
    return file


def failures(count: int) -> list[Failure]:
    return [Failure(f"tests/test_{number}.py::test_x", "E") for number in range(count)]


def test_failures_are_listed_once_with_first_line(tmp_path: Path):
    assert failures_of(a_report(tmp_path)) == [
        Failure("tests/unit/core/test_a.py::TestB::test_c[1-x]", "assert 1 == 2"),
        Failure("tests/unit/core/test_a.py::test_d", "E"),
    ]


def test_id_without_class_or_lane():
    assert id_of("tests.real.test_x", "test_y") == "tests/real/test_x.py::test_y"


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        (failures(0), "no test failed: the run is broken otherwise"),
        (failures(5), ""),
        (failures(6), "6 tests failed, more than the 5 that are run again"),
        ([Failure("tests/test_f.py", "", is_collection=True)], "tests/test_f.py could not be collected"),
    ],
)
def test_runs_that_are_broken_without_a_rerun(found: list[Failure], reason: str):
    assert reason_not_to_rerun(found) == reason


def test_collection_error_makes_run_broken(tmp_path: Path):
    failures = failures_of(a_report(tmp_path, UNCOLLECTED))
    assert reason_not_to_rerun(failures) == "tests/unit/test_f.py could not be collected"


@pytest.mark.parametrize(("code", "status"), [(PASSES, 0), (PASSES_AGAIN_ONCE, 1)])
def test_failed_test_is_flaky_only_if_it_passes_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], code: str, status: int
):
    monkeypatch.setattr(flaky_tests, "ROOT", tmp_path)
    monkeypatch.setattr(flaky_tests, "KEPT", tmp_path / "kept")
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_it.py").write_text(code)
    report = tmp_path / "junit.xml"
    report.write_text(
        '<testsuite><testcase classname="tests.test_it" name="test_it"><failure message="E"/></testcase></testsuite>'
    )
    assert main([str(report)]) == status
    assert ("ci: flaky: tests/test_it.py::test_it: E" in capsys.readouterr().out) is (status == 0)
    assert (tmp_path / "kept" / "flaky.md").exists() is (status == 0)


def test_row_of_flaky_tests_fits_the_table():
    line = row([Failure("a::b", "x | y")], "abc1234", datetime(2026, 11, 28, 1, 2, tzinfo=UTC))
    assert line == "| 2026-11-28 01:02 | abc1234 | whole | – | 1 flaky | – | **a::b: x \\| y** (`.ci/run`) |\n"

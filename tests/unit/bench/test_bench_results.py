"""The file of results: what a run that was interrupted goes on with, and files that are refused."""

from dataclasses import replace
from pathlib import Path

import pytest

from drumbeat.bench.cases import Benchmark, Case, cases
from drumbeat.bench.results import Results, load, load_or_begin, read_measurement
from drumbeat.bench.scaling_chart import draw
from drumbeat.bench.summary import summarize
from drumbeat.model.errors import ConflictError, SpecError

pytestmark = pytest.mark.feature("B1")

BENCHMARK = Benchmark(ranks=(1, 2), networks=("200mbit", "unshaped"), repeats=1)
WRITTEN = {
    "blocks": [{"images_per_s": 8.0, "step_ms": 500.0, "data_ms": 1.0, "compute_ms": 400.0, "sync_ms": 99.0}],
    "parameters": 7,
    "device": "cpu",
}


def test_second_run_continues_after_the_measured_cases(tmp_path: Path):
    file = tmp_path / "deep" / "results.json"
    first = load_or_begin(file, BENCHMARK, "a machine")
    first.measurements.append(read_measurement(Case(1, "200mbit", 1), "job-1", WRITTEN, 0.25))
    first.save(file)
    second = load_or_begin(file, BENCHMARK, "another machine")
    assert second == first
    assert [case for case in cases(BENCHMARK) if case not in second.done()] == cases(BENCHMARK)[1:]


def test_results_of_another_benchmark_are_refused_with_what_differs(tmp_path: Path):
    file = tmp_path / "results.json"
    Results(BENCHMARK, "a machine").save(file)
    with pytest.raises(ConflictError, match=r"another benchmark: steps 10 \(now 20\).*Name another folder"):
        load_or_begin(file, replace(BENCHMARK, steps=20), "a machine")


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": 7}', '{"format": 1, "benchmark": {}}', '{"format": 1'])
def test_a_file_that_is_something_else_is_refused(tmp_path: Path, text: str):
    file = tmp_path / "results.json"
    file.write_text(text)
    with pytest.raises(SpecError, match="doesn't contain results of a benchmark"):
        load(file)


@pytest.mark.parametrize(("suffix", "head"), [("png", b"\x89PNG"), ("svg", b"<?xml")])
def test_the_chart_is_a_picture_of_the_wanted_format(tmp_path: Path, suffix: str, head: bytes):
    pytest.importorskip("matplotlib", reason="needs matplotlib: run tools/setup.sh")
    made = [read_measurement(case, "job", WRITTEN, 0.0) for case in cases(BENCHMARK)]
    file = tmp_path / f"scaling.{suffix}"
    assert draw(summarize(Results(BENCHMARK, "a machine", made)), "a title", file)
    assert file.read_bytes().startswith(head)

"""`drumbeat bench`, against a server in memory whose jobs have all measured the same."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.cli.fake_server import FakeServer, Type, in_memory, typing_in
from tests.unit.cli.samples import a_job

pytestmark = [pytest.mark.feature("B1"), pytest.mark.xdist_group("test_cli_bench")]

JOB = "mnist-7f3a"
BLOCK = {"images_per_s": 8.0, "step_ms": 500.0, "data_ms": 1.0, "compute_ms": 400.0, "sync_ms": 99.0}
MEASURED = {"blocks": [BLOCK], "parameters": 25_557_032, "device": "cpu", "framework": "pytorch"}
ROWS = (
    "as it is 1 8.0 (8.0–8.0) 100% (100%–100%) 500.0 1.0 400.0 99.0",
    "as it is 2 8.0 (8.0–8.0) 50% (50%–50%) 500.0 1.0 400.0 99.0",
)
WORDS = ("bench", "--ranks", "1,2", "--repeats", "1", "--to", "found")


@pytest.fixture
def server() -> Iterator[FakeServer]:
    with in_memory() as fake:
        fake.jobs[JOB] = a_job(name=JOB, state="completed")
        fake.contents["outputs/result/measured.json"] = json.dumps(MEASURED).encode()
        yield fake


@pytest.fixture
def drumbeat(server: FakeServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Type:
    return typing_in(tmp_path, monkeypatch)


def submitted(server: FakeServer) -> list[dict[str, object]]:
    return [call[1] for call in server.calls if call[0] == "submit"]  # type: ignore[misc]


def test_bench_prints_each_number_of_ranks_and_keeps_the_results(drumbeat: Type, server: FakeServer, tmp_path):
    done = drumbeat(*WORDS)
    assert done.exit_code == 0, done.output
    lines = [" ".join(line.split()) for line in done.output.splitlines()]
    assert [line for line in lines if line.startswith("as it is")] == [*ROWS]
    assert [job["resources"] for job in submitted(server)] == [{"instance_count": 1}, {"instance_count": 2}]
    assert "# Scaling of resnet50" in (tmp_path / "found" / "report.md").read_text()
    results = json.loads((tmp_path / "found" / "results.json").read_text())
    assert [one["case"]["ranks"] for one in results["measurements"]] == [1, 2]


def test_repeated_bench_runs_no_case_twice(drumbeat: Type, server: FakeServer):
    server.contents["outputs/result/measured.json"] = b"{"
    assert drumbeat(*WORDS).exit_code != 0
    server.contents["outputs/result/measured.json"] = json.dumps(MEASURED).encode()
    drumbeat(*WORDS)
    server.calls.clear()
    again = drumbeat(*WORDS, "--json")
    assert again.exit_code == 0
    assert submitted(server) == []
    assert [row["efficiency"]["median"] for row in json.loads(again.stdout)["rows"]] == [1.0, 0.5]


def test_a_job_that_fails_is_named_and_measured_cases_are_kept(drumbeat: Type, server: FakeServer):
    server.jobs[JOB] = a_job(name=JOB, state="failed", sentence="rank 0 raised MemoryError")
    done = drumbeat(*WORDS)
    assert done.exit_code != 0
    said = " ".join(done.output.split())
    assert f"1 rank: job {JOB} didn't complete: rank 0 raised MemoryError" in said
    assert f"See its log: drumbeat logs {JOB}. The measured cases are kept" in said


def test_networks_are_made_for_the_benchmark_and_removed(drumbeat: Type, server: FakeServer):
    done = drumbeat(*WORDS[:2], "2", *WORDS[3:], "--network", "200mbit")
    assert done.exit_code == 0, done.output
    assert [call[0] for call in server.calls if "_compute" in str(call[0])] == ["create_compute", "delete_compute"]
    assert submitted(server)[0]["compute"] == "bench-200mbit"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--model", "vgg"), "'vgg' is unknown at --model → Choose one of resnet50"),
        (("--ranks", "1,x"), "'1,x' aren't valid numbers of ranks at --ranks → Separate them by commas"),
        (("--picture", "gif"), "'gif' is no format of the chart at --picture → Choose png or svg."),
        (("--data", "nowhere"), "isn't a folder at --data → Name a folder with a folder for each class"),
        (("--network", "1gbit", "--compute", "rack"), "netlabs are computes of their own, beside --compute"),
    ],
)
def test_options_that_are_wrong_are_refused_before_anything_runs(drumbeat: Type, server: FakeServer, words, said: str):
    done = drumbeat("bench", *words)
    assert done.exit_code == 2
    assert said in " ".join(done.output.split())
    assert server.calls == []

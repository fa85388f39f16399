"""`drumbeat resources`: what a job uses, on the command line."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from drumbeat.cli.commands.resources import format_amount
from drumbeat.cli.main import app
from drumbeat.cli.terminal.formatting import bars

from .api_house import TOKEN, House, house_in
from .test_api_metrics import send
from .test_api_resources import measured

pytestmark = pytest.mark.feature("M3", "M6")


@pytest.fixture
def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[House]:
    with house_in(tmp_path) as there:
        monkeypatch.setenv("DRUMBEAT_SERVER", there.url)
        monkeypatch.setenv("DRUMBEAT_TOKEN", TOKEN)
        monkeypatch.setenv("COLUMNS", "120")
        yield there


def typed(*words: str) -> list[str]:
    done = CliRunner().invoke(app, ["resources", *words])
    assert done.exit_code == 0, done.output
    return [line.rstrip() for line in done.output.splitlines() if line.strip(" ─")]


def test_nodes_have_last_mean_highest_and_capacity_and_the_idle_rank_is_marked(house: House) -> None:
    job = house.submit("measured")
    send(
        house, job,
        *[measured(job, "cpu_cores", *[0.01 if rank == 2 else 1.0] * 12, rank=rank) for rank in range(4)],
        measured(job, "memory_mib", *[2048.0] * 12, rank=3),
        measured(job, "memory_mib", *[3072.0, 3276.8] * 6, rank=-1),
        measured(job, "memory_percent", *[12.8, 13.6] * 6, rank=-1),
        measured(job, "cpu_percent", *[50.0, 75.0] * 6, rank=-1),
        measured(job, "disk_free_mib", *[51_200.0] * 12, rank=-1),
        measured(job, "disk_percent", *[50.0] * 12, rank=-1),
        measured(job, "network_sent_mib_s", *[0.5, 1.5] * 6, rank=-1),
        measured(job, "gpu_10_percent", *[40.0, 60.0] * 6, rank=-2),
        measured(job, "gpu_9_memory_mib", *[1024.0] * 12, rank=-2),
        measured(job, "gpu_9_memory_percent", *[10.0] * 12, rank=-2),
    )  # fmt: skip
    house.finish(job)
    lines = typed(job)
    assert lines[0].startswith("GPUs idle")
    assert [line.split() for line in lines[2:9]] == [
        ["node", "resource", "last", "mean", "highest", "of"],
        ["0", "CPU", "75", "%", "62", "%", "75", "%"],
        ["memory", "3.2", "GiB", "3.1", "GiB", "3.2", "GiB", "23.5", "GiB"],
        ["disk", "50", "%", "50", "%", "50", "%", "100.0", "GiB"],
        ["sent", "1.5", "MiB/s", "1.0", "MiB/s", "1.5", "MiB/s"],
        ["1", "GPU", "9", "memory", "1.0", "GiB", "1.0", "GiB", "1.0", "GiB", "10.0", "GiB"],
        ["GPU", "10", "busy", "60", "%", "50", "%", "60", "%"],
    ]
    assert lines[10].split()[:4] == ["rank", "CPU", "cores", "memory"]
    assert [line.split()[:2] for line in lines[11:]] == [
        [str(rank), "0.01" if rank == 2 else "1.00"] for rank in range(4)
    ]
    assert [set(line.split()[-1]) for line in lines[11:15]] == [{"█"}, {"█"}, {"▁"}, {"█"}]


def test_rank_that_is_idle_while_the_others_work_is_named(house: House) -> None:
    job = house.submit("measured")
    send(house, job, *[measured(job, "cpu_cores", *[0.01 if rank == 2 else 1.0] * 12, rank=rank) for rank in range(4)])
    lines = typed(job)
    assert "rank 2 is idle" in lines[0]
    assert [line.split()[0] for line in lines if line.endswith(" idle")] == ["2"]
    as_json = json.loads("\n".join(typed(job, "--json")))
    assert as_json["idle"] == [{"name": "cpu_cores", "rank": 2}]
    assert {one["rank"] for one in as_json["series"]} == {0, 1, 2, 3}


def test_job_of_which_nothing_is_measured_says_why(house: House) -> None:
    assert "system_metrics: false" in " ".join(typed(house.submit("silent")))


def test_bars_are_blank_where_nothing_was_measured() -> None:
    assert bars([0.0, None, 50.0, 100.0, 120.0], 100.0) == "▁ ▅██"
    assert bars([0.0, 0.0], 0.0) == "▁▁"


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("cpu_percent", 3.25, "3.2 %"), ("cpu_percent", 0.0, "0 %"), ("memory_mib", 3276.8, "3.2 GiB"),
        ("disk_read_mib_s", 0.5, "512.0 KiB/s"), ("gpu_0_power_w", 71.6, "72 W"), ("gpu_0_temperature_c", 61, "61 °C"),
        ("cpu_cores", 1.234, "1.23"), ("cpu_cores", None, ""),
    ],
)  # fmt: skip
def test_amount_has_the_unit_of_its_measurement(name: str, value: float | None, text: str) -> None:
    assert format_amount(name, value) == text

"""`drumbeat metrics`, `compare` and `experiment`, against a server in this process."""

import csv
import json
import math
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from typer.testing import CliRunner, Result

from drumbeat.cli.main import app
from drumbeat.model.metrics import ParamsLogged, Point, PointsLogged, RunCreated, node_rank, run_id

from .api_house import TOKEN, House, house_in
from .test_api_metrics import points, send

pytestmark = [pytest.mark.feature("M2"), pytest.mark.xdist_group("test_cli_metrics")]


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with house_in(tmp_path_factory.mktemp("house")) as there:
        for name, lr in (("cli-a", 0.1), ("cli-b", 0.2)):
            there.submit(name, inputs={"lr": lr}, command="echo ${{inputs.lr}}", experiment_name="cli")
        send(there, "cli-a", points("cli-a", "loss", *(1 / (n + 1) for n in range(50))))
        send(there, "cli-a", points("cli-a", "accuracy", 0.5, 0.875, 0.75), points("cli-a", "loss", 7, 8, rank=1))
        params = ParamsLogged(run_id("cli-a"), {"lr": "0.1"})
        send(there, "cli-a", points("cli-a", "cpu", 50, rank=node_rank(0)), params)
        runs = [
            RunCreated(letter * 32, "1", name, number, job="cli-b", tags=tags)
            for number, (letter, name, tags) in enumerate(
                [("c", "fold-1", {}), ("a", "folds", {}), ("b", "fold-0", {"mlflow.parentRunId": "a" * 32})]
            )
        ]
        values = PointsLogged("b" * 32, 0, (Point("acc", 0.5, 0, 1), Point("acc", 0.25, 1, 1)))
        send(there, "cli-b", *runs, values, ParamsLogged(run_id("cli-b"), {"prompt": "x" * 6000}))
        there.finish("cli-a")
        there.finish("cli-b", code=1)
        yield there


@pytest.fixture
def drumbeat(house: House, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("DRUMBEAT_SERVER", house.url)
    monkeypatch.setenv("DRUMBEAT_TOKEN", TOKEN)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.delenv("FORCE_COLOR", raising=False)

    def typed(*words: str) -> Result:
        return CliRunner().invoke(app, words)

    return typed


TABLE = """\
metric     last   step   lowest   at step   highest   at step   rank   points
─────────────────────────────────────────────────────────────────────────────
loss       0.02     49     0.02        49         1         0      0       50
accuracy   0.75      2      0.5         0     0.875         1      0        3
Not shown are the metrics of 1 rank more: --rank 1; of 1 node: --rank -1

Parameters
lr  0.1
"""


def test_metrics_table_has_last_lowest_and_highest_value(drumbeat) -> None:
    shown = drumbeat("metrics", "cli-a")
    assert shown.stdout.splitlines() == TABLE.splitlines(), shown.stdout


def test_a_rank_has_its_own_table(drumbeat) -> None:
    assert "8" in drumbeat("metrics", "cli-a", "--rank", "1").stdout
    assert "node 0" in drumbeat("metrics", "cli-a", "--rank", "-1").stdout


RUNS = """\
The run of cli-b itself has no metrics; those of its other runs are below.

Parameters
prompt  %s… (5,800 more characters)

Runs within cli-b
run        status   metric   last   step   lowest   at step   highest   at step   points
────────────────────────────────────────────────────────────────────────────────────────
fold-1     failed
folds      failed
  fold-0   failed   acc      0.25      1     0.25         1       0.5         0        2
"""


def test_runs_beside_a_jobs_own_are_a_tree_below_its_metrics(drumbeat, monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    shown = drumbeat("metrics", "cli-b").stdout
    assert [line.rstrip() for line in shown.splitlines()] == (RUNS % ("x" * 200)).splitlines(), shown


def test_a_name_shows_a_curve_drawn_in_the_terminal(drumbeat) -> None:
    shown = drumbeat("metrics", "cli-a", "loss").stdout
    assert "loss" in shown
    assert "step" in shown
    assert "\x1b" not in shown
    assert any("⠀" < character <= "⣿" for character in shown)
    assert max(map(len, shown.splitlines())) <= 100


def test_values_that_cannot_be_drawn_are_counted(house: House, drumbeat) -> None:
    house.submit("cli-nan")
    send(house, "cli-nan", points("cli-nan", "loss", 1, math.nan, math.inf, 2))
    assert "2 of these points are infinite or no numbers" in drumbeat("metrics", "cli-nan", "loss").stdout


def test_an_unknown_metric_is_refused_with_the_nearest(drumbeat) -> None:
    shown = drumbeat("metrics", "cli-a", "acuracy")
    assert shown.exit_code == 1
    assert "has not logged 'acuracy'" in shown.stderr
    assert "Did you mean `accuracy`" in shown.stderr


def test_json_and_csv_have_every_point(drumbeat) -> None:
    listed = json.loads(drumbeat("metrics", "cli-a", "--json").stdout)
    assert len(listed) == 50 + 3 + 2 + 1
    assert {one["rank"] for one in listed} == {0, 1, -1}
    of_rank_1 = json.loads(drumbeat("metrics", "cli-a", "loss", "--rank", "1", "--json").stdout)
    at = datetime.fromtimestamp(1, UTC).isoformat()
    assert of_rank_1[1] == {"name": "loss", "rank": 1, "step": 1, "value": 8.0, "at": at}
    rows = list(csv.DictReader(drumbeat("metrics", "cli-a", "accuracy", "--csv").stdout.splitlines()))
    assert [row["value"] for row in rows] == ["0.5", "0.875", "0.75"]
    assert list(rows[0]) == ["name", "rank", "step", "value", "at"]
    assert json.loads(drumbeat("metrics", "cli-b", "--json").stdout) == []


def test_json_and_csv_exclude_each_other(drumbeat) -> None:
    assert drumbeat("metrics", "cli-a", "--json", "--csv").exit_code == 2


def test_primary_metric_is_in_list_and_show(drumbeat) -> None:
    line = next(line for line in drumbeat("list").stdout.splitlines() if line.startswith("cli-a"))
    assert "loss 0.02" in line
    assert "loss 0.02 at step 49" in drumbeat("show", "cli-a").stdout


@pytest.mark.feature("M12")
def test_compare_shows_differences_and_results(drumbeat) -> None:
    shown = drumbeat("compare", "cli-a", "cli-b").stdout
    differs, came = shown.split("What came of it")
    assert "inputs lr 0.1 0.2" in " ".join(differs.split())
    assert "job file" not in differs
    assert "completed" in came
    assert "failed" in came
    assert "0.02" in came
    assert json.loads(drumbeat("compare", "cli-a", "cli-b", "--json").stdout)["jobs"] == ["cli-a", "cli-b"]


@pytest.mark.feature("M12")
def test_compare_of_one_job_is_refused(drumbeat) -> None:
    assert drumbeat("compare", "cli-a", "cli-a").exit_code == 2


@pytest.mark.feature("M8")
def test_an_experiment_is_shown_renamed_archived_and_restored(house: House, drumbeat) -> None:
    house.submit("cli-x", experiment_name="before")
    assert "before" in drumbeat("experiment", "list").stdout
    assert drumbeat("experiment", "rename", "before", "afterwards").stdout == "before: renamed to afterwards\n"
    shown = drumbeat("experiment", "show", "before").stdout
    assert "earlier names  before" in shown
    assert "cli-x" in shown
    assert drumbeat("experiment", "archive", "afterwards").stdout == "afterwards: archived\n"
    assert "afterwards" not in drumbeat("experiment", "list").stdout
    assert "afterwards (archived)" in drumbeat("experiment", "list", "--all").stdout
    assert drumbeat("experiment", "restore", "before").stdout == "afterwards: restored\n"
    assert json.loads(drumbeat("experiment", "show", "afterwards", "--json").stdout)["jobs"] == 1
    assert drumbeat("experiment", "show", "none-such").exit_code == 1


def test_metric_that_counts_is_chosen_for_an_experiment_and_given_back(drumbeat) -> None:
    def line() -> str:
        return next(line for line in drumbeat("list").stdout.splitlines() if line.startswith("cli-a"))

    experiment = json.loads(drumbeat("show", "cli-a", "--json").stdout)["experiment"]
    assert drumbeat("experiment", "primary", experiment, "accuracy").stdout == f"{experiment}: accuracy maximize\n"
    assert "accuracy 0.75" in line()
    assert "0.875 at step 1 (higher is better)" in drumbeat("show", "cli-a").stdout
    assert drumbeat("experiment", "primary", experiment, "--clear").exit_code == 0
    assert "loss 0.02" in line()
    assert "(lower is better, by its name)" in drumbeat("show", "cli-a").stdout
    assert drumbeat("experiment", "primary", experiment).exit_code != 0
    assert drumbeat("experiment", "primary", experiment, "loss", "--goal", "best").exit_code != 0

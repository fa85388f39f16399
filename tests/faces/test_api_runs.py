"""Tables of runs over HTTP, with the metrics' own database: columns, filters, orders, groups, saved views, roles."""

import math
from collections.abc import Iterator
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from drumbeat.cli.main import app
from drumbeat.cli.terminal.failures import Exit
from drumbeat.client import Client
from drumbeat.model.api.runs import ChartRequest, RunViewRequest
from drumbeat.model.errors import ForbiddenError, NotFoundError, SpecError
from drumbeat.model.metrics import ParamsLogged, RunUpdated, TagsSet, run_id
from drumbeat.model.principal import Role

from .api_house import BEARER, TOKEN, House, house_in
from .test_api_metrics import points, send

pytestmark = [pytest.mark.feature("M16"), pytest.mark.xdist_group("test_api_runs")]

EXPERIMENT = "cifar"


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with house_in(tmp_path_factory.mktemp("house")) as there:
        for number, (lr, accuracy) in enumerate(((0.1, 0.7), (0.01, 0.9), (0.1, 0.8), (0.01, math.nan))):
            job = f"run-{number}"
            there.submit(job, inputs={"lr": lr}, tags={"owner": "ada"}, experiment_name=EXPERIMENT)
            logged = ParamsLogged(run_id(job), {"optimizer": "sgd" if number else "adam"})
            tags = TagsSet(run_id(job), {"note": f"n{number}", "mlflow.source": "x"})
            send(there, job, points(job, "val/acc", 0.1, accuracy), points(job, "loss", 3, 1, 2), logged, tags)
            there.finish(job, code=int(number == 3))
        there.submit("waits", experiment_name=EXPERIMENT)
        there.submit("other", experiment_name="other")
        yield there


@pytest.fixture
def client(house: House) -> Iterator[Client]:
    with Client(url=house.url, token=TOKEN) as one:
        yield one


def table(house: House, path: str = f"/experiments/{EXPERIMENT}/runs", **asked: Any) -> Any:
    answer = house.http.get(f"/api/v1{path}", params=asked, headers=BEARER)
    assert answer.status_code == 200, answer.text
    return answer.json()


def names(answer: Any) -> list[str]:
    return [run["job"] for run in answer["runs"]]


def test_columns_have_the_values_of_jobs_metrics_params_and_tags(house: House) -> None:
    columns = 'state, input.lr, metric.val/acc, min(metric.loss), max(metric."loss"), param.optimizer, tag.owner'
    columns += ", tag.note, gpus"
    answer = table(house, columns=columns, sort="name")
    assert [(one["field"], one["unit"]) for one in answer["columns"]] == [
        ("state", "text"), ("input.lr", "any"), ("metric.val/acc", "number"), ("min(metric.loss)", "number"),
        ("max(metric.loss)", "number"), ("param.optimizer", "any"), ("tag.owner", "text"), ("tag.note", "text"),
        ("gpus", "number"),
    ]  # fmt: skip
    assert answer["total"] == 5
    assert [run["values"] for run in answer["runs"]] == [
        ["completed", 0.1, 0.7, 1.0, 3.0, "adam", "ada", "n0", 0.0],
        ["completed", 0.01, 0.9, 1.0, 3.0, "sgd", "ada", "n1", 0.0],
        ["completed", 0.1, 0.8, 1.0, 3.0, "sgd", "ada", "n2", 0.0],
        ["failed", 0.01, "NaN", 1.0, 3.0, "sgd", "ada", "n3", 0.0],
        [answer["runs"][4]["state"], None, None, None, None, None, None, None, 0.0],
    ]


@pytest.mark.parametrize(
    ("where", "sort", "found"),
    [
        ("metric.val/acc > 0.75", "metric.val/acc desc", ["run-1", "run-2"]),
        ("", "metric.val/acc desc, name desc", ["run-1", "run-2", "run-0", "waits", "run-3"]),
        ("input.lr = 0.01", "", ["run-3", "run-1"]),
        ("error ~ 'exit code [1-9]'", "", ["run-3"]),
        ("state = completed and param.optimizer = adam", "", ["run-0"]),
        ("metric.val/acc = nan", "", ["run-3"]),
        ("tag.note LIKE 'n_' and tags.owner = 'ada'", "input.lr, tag.note", ["run-1", "run-3", "run-0", "run-2"]),
        ("duration >= 0 and status = FAILED", "", ["run-3"]),
    ],
)
def test_runs_are_filtered_and_sorted_by_any_fields(house: House, where: str, sort: str, found: list[str]) -> None:
    assert names(table(house, columns="name", where=where, sort=sort)) == found


def test_metric_that_counts_is_a_column_by_its_best_finite_value(house: House) -> None:
    answer = table(house, columns="name,primary", sort="primary desc, name")
    best = [run["values"] for run in answer["runs"]]
    assert best == [["run-1", 0.9], ["run-2", 0.8], ["run-0", 0.7], ["run-3", 0.1], ["waits", None]]
    assert answer["columns"][1]["unit"] == "number"


def test_user_is_found_by_the_earlier_name_of_the_field_too(house: House) -> None:
    now, before = (table(house, columns=field, where=f"{field} is not null", limit=1) for field in ("user", "person"))
    assert now == before
    assert now["columns"][0]["field"] == "user"


def test_pages_follow_one_another_and_know_the_total(house: House) -> None:
    pages = [table(house, columns="name", sort="name", limit=2, offset=offset) for offset in (0, 2, 4, 6)]
    assert [names(page) for page in pages] == [["run-0", "run-1"], ["run-2", "run-3"], ["waits"], []]
    assert {page["total"] for page in pages} == {5}


def test_groups_have_mean_and_spread_of_all_their_runs(house: House) -> None:
    answer = table(house, columns="metric.val/acc,tag.owner", where="state = completed", group_by="input.lr", limit=1)
    assert [(group["values"], group["jobs"]) for group in answer["groups"]] == [
        ([0.01], ["run-1"]), ([0.1], ["run-2", "run-0"]),
    ]  # fmt: skip
    accuracy, owner = answer["groups"][1]["cells"]
    assert (accuracy["numbers"], accuracy["low"], accuracy["high"]) == (2, 0.7, 0.8)
    assert math.isclose(accuracy["mean"], 0.75)
    assert math.isclose(accuracy["spread"], 0.1 / math.sqrt(2))
    assert owner["common"] == "ada"
    assert len(answer["runs"]) == 1


def test_runs_of_all_experiments_are_listed_and_narrowed(house: House) -> None:
    assert {"run-0", "run-3", "waits", "other"} <= set(names(table(house, "/runs", columns="experiment")))
    assert names(table(house, "/runs", where="experiment = other")) == ["other"]
    assert names(table(house, "/runs", experiment="other")) == ["other"]


def test_fields_say_what_runs_have_and_which_are_shown_at_first(house: House) -> None:
    fields = {one["field"]: one for one in table(house, f"/experiments/{EXPERIMENT}/run-fields")}
    assert (fields["metric.val/acc"]["runs"], fields["input.lr"]["values"], fields["tag.note"]["runs"]) == (4, 2, 4)
    assert not any(field.startswith("tag.mlflow.") for field in fields)
    defaults = [field for field, one in fields.items() if one["is_default"]]
    assert {"state", "primary", "metric.val/acc", "metric.loss", "input.lr", "param.optimizer"} <= set(defaults)
    assert {one["field"] for one in table(house)["columns"]} == set(defaults)


def test_fields_say_which_metric_ranks_the_runs_and_which_values_are_better(house: House, client: Client) -> None:
    job = house.submit("ranked", experiment_name="ranked")
    send(house, job, points(job, "loss", 3, 1), points(job, "val/acc", 0.5), points(job, "lr", 0.1))

    def ranked() -> dict[str, tuple[bool, str | None]]:
        fields = table(house, "/experiments/ranked/run-fields")
        return {one["field"]: (one["is_primary"], one["goal"]) for one in fields if one["unit"] == "number"}

    guessed = ranked()
    assert (guessed["metric.val/acc"], guessed["metric.loss"]) == ((True, "maximize"), (False, "minimize"))
    assert guessed["metric.lr"] == guessed["nodes"] == (False, None)
    client.set_primary_metric("ranked", "lr", "minimize")
    chosen = ranked()
    assert (chosen["metric.lr"], chosen["metric.val/acc"]) == ((True, "minimize"), (False, "maximize"))
    client.set_primary_metric("ranked", "never/logged")
    assert ranked() == guessed


@pytest.mark.parametrize("parameter", ["columns", "where", "sort", "group_by"])
def test_text_that_cannot_be_parsed_is_refused_with_its_place(house: House, parameter: str) -> None:
    answer = house.http.get(f"/api/v1/experiments/{EXPERIMENT}/runs", params={parameter: "metrc.x < 1"}, headers=BEARER)
    assert answer.status_code in (400, 422)
    refusal = answer.json()
    assert refusal["where"] == f"{parameter}:1"
    assert "Did you mean `metric.`?" in refusal["fix"]


def test_unknown_experiment_is_refused_with_the_nearest(house: House) -> None:
    answer = house.http.get("/api/v1/experiments/cifer/runs", headers=BEARER)
    assert (answer.status_code, answer.json()["fix"]) == (404, f"Did you mean `{EXPERIMENT}`?")


def test_values_follow_the_run(house: House) -> None:
    job = house.submit("late", experiment_name="late")
    where = {"columns": "state,metric.loss,tag.note"}
    send(house, job, points(job, "loss", 3))
    first = table(house, "/experiments/late/runs", **where)["runs"][0]["values"]
    send(house, job, points(job, "loss", 3, 2), TagsSet(run_id(job), {"note": "x"}), RunUpdated(run_id(job), "RUNNING"))
    house.finish(job)
    assert first[1:] == [3.0, None]
    assert table(house, "/experiments/late/runs", **where)["runs"][0]["values"] == ["completed", 2.0, "x"]


def test_view_is_the_same_for_every_user_and_survives_a_new_name(house: House, client: Client) -> None:
    house.submit("viewed", experiment_name="before")
    ada = Client(url=house.url, token=client.create_token("ada", "contributor").token)
    bob = Client(url=house.url, token=client.create_token("bob", "contributor").token)
    reader = Client(url=house.url, token=client.create_token("rita", "reader").token)
    asked = RunViewRequest("state,input.lr", "state = failed", "name desc", "input.lr")
    saved = ada.save_run_view("before", "failed ones", asked)
    assert (saved.name, saved.where, saved.person) == ("failed ones", "state = failed", "ada")
    assert bob.run_views("before") == reader.run_views("before") == [saved]
    with pytest.raises(ForbiddenError, match=r"is ada's, and bob"):
        bob.save_run_view("before", "failed ones", RunViewRequest())
    with pytest.raises(ForbiddenError, match="is ada's"):
        bob.delete_run_view("before", "failed ones")
    with pytest.raises(ForbiddenError, match="readers change nothing"):
        reader.save_run_view("before", "mine", RunViewRequest())
    client.rename_experiment("before", after := "after/all views")
    assert bob.run_views(after) == [saved]
    assert [run.job for run in bob.runs(experiment=after).runs] == ["viewed"]
    assert [one.field for one in bob.run_fields(after)][:1] == ["name"]
    bob.save_run_view(after, "bob's", RunViewRequest(sort="name"))
    client.delete_run_view(after, "failed ones")
    assert [one.name for one in ada.run_views(after)] == ["bob's"]
    with pytest.raises(NotFoundError, match="no view 'failed ones'"):
        ada.delete_run_view(after, "failed ones")
    for one in (ada, bob, reader):
        one.close()


def test_view_with_a_text_that_cannot_be_parsed_is_not_saved(client: Client, house: House) -> None:
    house.submit("unparsed", experiment_name="unparsed")
    with pytest.raises(SpecError, match="no field begins with") as refusal:
        client.save_run_view("unparsed", "bad", RunViewRequest(where="metrc.x < 1"))
    assert refusal.value.where == "where:1"
    assert client.run_views("unparsed") == []


@pytest.fixture
def drumbeat(house: House, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("DRUMBEAT_SERVER", house.url)
    monkeypatch.setenv("DRUMBEAT_TOKEN", TOKEN)
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.delenv("FORCE_COLOR", raising=False)

    def typed(*words: str) -> Result:
        return CliRunner().invoke(app, ["list", "--experiment", EXPERIMENT, *words])

    return typed


def test_list_prints_a_table_of_chosen_columns(drumbeat) -> None:
    shown = drumbeat(
        "--columns", "input.lr,metric.val/acc,state", "--sort", "metric.val/acc desc", "--where", "input.lr > 0"
    )
    lines = [line.split() for line in shown.stdout.splitlines()]
    assert lines[0] == ["job", "input.lr", "metric.val/acc", "state"]
    assert lines[2:] == [
        ["run-1", "0.01", "0.9", "completed"], ["run-2", "0.1", "0.8", "completed"],
        ["run-0", "0.1", "0.7", "completed"], ["run-3", "0.01", "NaN", "failed"],
    ]  # fmt: skip


def test_list_prints_groups_with_mean_and_deviation(drumbeat) -> None:
    shown = drumbeat("--columns", "metric.val/acc", "--group-by", "input.lr", "--state", "completed").stdout
    lines = [line.split() for line in shown.splitlines()]
    assert lines[0] == ["input.lr", "jobs", "metric.val/acc"]
    assert lines[2:] == [["0.01", "1", "0.9"], ["0.1", "2", "0.75", "±", "0.0707107"]]


def test_list_says_how_many_are_left_out_and_where_a_filter_is_wrong(drumbeat) -> None:
    assert "1 of 5 jobs" in drumbeat("--sort", "name", "-n", "1").stdout
    assert drumbeat("--where", "state = stopping").stdout == "no jobs\n"
    refused = drumbeat("--where", "state = faild")
    assert refused.exit_code == Exit.BAD_JOB
    assert "'faild' is no state, at character 9" in refused.stderr
    assert "Did you mean `failed`?" in refused.stderr


def test_charts_are_saved_for_every_user_and_changed_by_their_own(house: House, client: Client) -> None:
    saved = client.save_chart(EXPERIMENT, "both losses", ChartRequest(("loss", "val/loss")))
    client.save_chart(EXPERIMENT, "trade-off", ChartRequest(("val/acc",), "scatter", "loss"))
    assert [(one.name, one.kind, one.metrics, one.x) for one in client.charts(EXPERIMENT)] == [
        ("both losses", "lines", ("loss", "val/loss"), ""), ("trade-off", "scatter", ("val/acc",), "loss"),
    ]  # fmt: skip
    assert saved.saved_at.tzinfo is not None
    token = house.control.tokens.create("carl", Role.CONTRIBUTOR)
    with Client(url=house.url, token=token) as carl:
        assert len(carl.charts(EXPERIMENT)) == 2
        for change in (
            lambda: carl.save_chart(EXPERIMENT, "both losses", ChartRequest(("loss",))),
            lambda: carl.delete_chart(EXPERIMENT, "both losses"),
        ):
            with pytest.raises(ForbiddenError):
                change()
        carl.save_chart(EXPERIMENT, "carl's", ChartRequest(("loss",), "bars"))
        carl.delete_chart(EXPERIMENT, "carl's")
    for name in ("both losses", "trade-off"):
        client.delete_chart(EXPERIMENT, name)
    assert client.charts(EXPERIMENT) == []
    with pytest.raises(NotFoundError):
        client.delete_chart(EXPERIMENT, "trade-off")


@pytest.mark.parametrize(
    "body",
    [
        {"metrics": []},
        {"metrics": ["loss"], "kind": "scatter"},
        {"metrics": ["loss"], "x": "acc"},
        {"metrics": ["loss"], "kind": "pie"},
    ],
)
def test_charts_that_draw_nothing_are_refused(house: House, client: Client, body: dict[str, Any]) -> None:
    answer = house.http.put(f"/api/v1/experiments/{EXPERIMENT}/charts/odd", json=body, headers=BEARER)
    assert answer.status_code == 422
    assert client.charts(EXPERIMENT) == []


def test_size_of_a_card_is_kept_for_every_user(house: House, client: Client) -> None:
    assert client.card_sizes(EXPERIMENT) == {}
    client.set_card_size(EXPERIMENT, "val/loss", "wide")
    client.set_card_size(EXPERIMENT, "loss", "tall")
    client.set_card_size(EXPERIMENT, "val/loss", "large")
    assert client.card_sizes(EXPERIMENT) == {"loss": "tall", "val/loss": "large"}
    with Client(url=house.url, token=house.control.tokens.create("dora", Role.CONTRIBUTOR)) as dora:
        assert dora.card_sizes(EXPERIMENT)["loss"] == "tall"
        with pytest.raises(ForbiddenError):
            dora.set_card_size(EXPERIMENT, "loss", "normal")
        dora.set_card_size(EXPERIMENT, "dora's", "normal")
    for card in ("loss", "val/loss"):
        client.set_card_size(EXPERIMENT, card, "normal")
    assert client.card_sizes(EXPERIMENT) == {}
    body = {"card": "loss", "size": "huge"}
    path = f"/api/v1/experiments/{EXPERIMENT}/card-sizes"
    assert house.http.put(path, json=body, headers=BEARER).status_code == 422
    with (
        Client(url=house.url, token=house.control.tokens.create("eve", Role.READER)) as eve,
        pytest.raises(ForbiddenError),
    ):
        eve.set_card_size(EXPERIMENT, "loss", "wide")

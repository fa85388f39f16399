"""The metric that counts: named by the experiment, the job file, the script or nobody."""

import math
from collections.abc import Iterator
from pathlib import Path

import pytest

from drumbeat.client import Client
from drumbeat.model.api.jobs import JobView
from drumbeat.model.errors import NotFoundError
from drumbeat.model.metrics import TagsSet, run_id
from drumbeat.model.primary_metrics import PRIMARY_TAG
from drumbeat.rank import parameters as rank_calls

from .api_house import DOCUMENT, TOKEN, House, house_in
from .test_api_metrics import points, send

pytestmark = pytest.mark.feature("M2")
CURRENT = DOCUMENT["drumbeat"]


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    with house_in(tmp_path) as there:
        yield there


@pytest.fixture
def client(house: House) -> Iterator[Client]:
    with Client(url=house.url, token=TOKEN) as there:
        yield there


def logged(house: House, job: str, **values: list[float]) -> None:
    records = [points(job, name.replace("__", "/"), *own) for name, own in values.items()]
    send(house, job, *records)


def primary(job: JobView) -> tuple[object, ...]:
    one = job.primary
    return (one.name, one.value, one.goal, one.best, one.best_step, one.source) if one else ()


def test_best_value_is_never_nan_or_infinite(house: House, client: Client) -> None:
    job = house.submit("diverged")
    logged(house, job, lr=[1, 2], val__accuracy=[0.5, math.inf, 0.75, 0.25, math.nan])
    assert primary(client.get(job)) == ("val/accuracy", "NaN", "maximize", 0.75, 2, "guess")


def test_job_that_logs_only_times_and_rates_has_no_primary_metric(house: House, client: Client) -> None:
    job = house.submit("timed")
    logged(house, job, lr=[1], perf__step_s=[math.nan])
    assert client.get(job).primary is None
    assert client.get(job).not_finite is not None


def test_job_file_names_the_metric_with_its_goal(house: House, client: Client) -> None:
    job = house.submit("named", drumbeat=CURRENT | {"primary_metric": {"name": "width", "goal": "max"}})
    logged(house, job, loss=[1], width=[3, 2])
    assert primary(client.get(job)) == ("width", 2, "maximize", 3, 0, "job")


def test_tag_of_the_run_comes_before_the_job_file(house: House, client: Client) -> None:
    job = house.submit("tagged", drumbeat=CURRENT | {"primary_metric": {"name": "width"}})
    logged(house, job, loss=[1], width=[3, 2], reward=[5])
    send(house, job, TagsSet(run_id(job), {PRIMARY_TAG: "reward min"}))
    assert primary(client.get(job)) == ("reward", 5, "minimize", 5, 0, "job")


def test_metric_that_was_not_logged_is_passed_over(house: House, client: Client) -> None:
    job = house.submit("misnamed", drumbeat=CURRENT | {"primary_metric": {"name": "absent"}})
    logged(house, job, loss=[1])
    assert primary(client.get(job))[::5] == ("loss", "guess")


def test_choice_for_an_experiment_holds_for_all_its_jobs_until_it_is_cleared(house: House, client: Client) -> None:
    first, second = house.submit("first"), house.submit("second")
    for job in (first, second):
        logged(house, job, loss=[2, 1], reward=[3, 4])
    experiment = client.get(first).experiment
    heard: list[str] = []
    forget = house.control.loop.bus.subscribe(lambda topic: heard.append(topic.name))
    changed = client.set_primary_metric(experiment, "reward")
    forget()
    assert changed.tags[PRIMARY_TAG] == "reward maximize"
    assert {first, second} <= set(heard)
    shown = [one for one in client.list() if one.name in (first, second)]
    assert [primary(one) for one in shown] == [("reward", 4, "maximize", 4, 1, "experiment")] * 2
    curves = house.http.get("/api/v1/curves", params={"job": [first, second]}).json()
    assert {one["name"] for one in curves} == {"reward"}
    client.clear_primary_metric(experiment)
    assert primary(client.get(first)) == ("loss", 1, "minimize", 1, 1, "guess")


def test_choice_for_an_unknown_experiment_is_refused(client: Client) -> None:
    with pytest.raises(NotFoundError):
        client.set_primary_metric("nowhere", "loss")


def test_goal_of_a_job_file_is_checked(house: House) -> None:
    extensions = CURRENT | {"primary_metric": {"name": "loss", "goal": "best"}}
    answer = house.http.post("/api/v1/jobs", json={"document": DOCUMENT | {"drumbeat": extensions}})
    assert answer.status_code == 422
    assert "drumbeat.primary_metric.goal" in answer.text


@pytest.mark.feature("M12")
def test_comparison_says_which_values_of_the_metric_that_counts_are_better(house: House, client: Client) -> None:
    jobs = [house.submit("one"), house.submit("other")]
    for job in jobs:
        logged(house, job, loss=[2, 1], width=[3, 4])
    goals = {row.key: row.goal for row in client.compare(*jobs).outcomes}
    assert (goals["loss"], goals["width"], goals["state"]) == ("minimize", None, None)
    send(house, jobs[1], TagsSet(run_id(jobs[1]), {PRIMARY_TAG: "width max"}))
    assert {row.goal for row in client.compare(*jobs).outcomes} == {None}


def test_script_names_the_metric_by_one_call_of_rank_0(house: House, client: Client) -> None:
    job = house.submit("scripted")
    logged(house, job, loss=[2, 1], reward=[3, 4])
    variables = {
        "MLFLOW_TRACKING_URI": f"{house.url}/mlflow",
        "MLFLOW_RUN_ID": run_id(job),
        "MLFLOW_TRACKING_TOKEN": TOKEN,
    }
    assert not rank_calls.primary("loss", "max", {**variables, "RANK": "1"})
    assert not rank_calls.primary("loss", "max", {})
    assert primary(client.get(job))[::5] == ("loss", "guess")
    assert rank_calls.primary("reward", "max", {**variables, "RANK": "0"})
    assert primary(client.get(job)) == ("reward", 4, "maximize", 4, 1, "job")


def test_goal_and_name_that_a_script_gives_are_checked_at_once() -> None:
    with pytest.raises(ValueError, match="'max' or 'min', and this is 'best'"):
        rank_calls.primary("loss", "best")
    with pytest.raises(ValueError, match="has no name"):
        rank_calls.primary(" ")


def test_refused_tag_is_printed_and_ends_no_training(house: House, capfd: pytest.CaptureFixture[str]) -> None:
    variables = {
        "MLFLOW_TRACKING_URI": f"{house.url}/mlflow",
        "MLFLOW_RUN_ID": "0" * 32,
        "MLFLOW_TRACKING_TOKEN": TOKEN,
    }
    assert not rank_calls.primary("loss", "min", variables)
    assert "the primary metric was not kept: 404" in capfd.readouterr().err

"""Metrics over HTTP: what nodes forward, what users read, what differs between jobs, experiments."""

import math
from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest

from drumbeat.cli.terminal.formatting import format_not_finite
from drumbeat.client import Client
from drumbeat.model.api.metrics import NotFiniteView
from drumbeat.model.errors import ConflictError, NotFoundError
from drumbeat.model.metric_lines import encode_record
from drumbeat.model.metrics import (
    MetricRecord,
    ParamsLogged,
    Point,
    PointsLogged,
    RunCreated,
    RunUpdated,
    TagsSet,
    experiment_id,
    node_rank,
    run_id,
)
from drumbeat.ports.engines import node_secret
from tests.support.removal_contract import finish_removal

from .api_house import BEARER, TOKEN, House, eventually, house_in

pytestmark = pytest.mark.feature("M2")

NUMBERS = count(1)


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with house_in(tmp_path_factory.mktemp("house")) as there:
        yield there


@pytest.fixture
def job(house: House) -> str:
    return house.submit(f"job-{next(NUMBERS)}")


def points(job: str, name: str, *values: float, rank: int = 0) -> PointsLogged:
    return PointsLogged(
        run_id(job), rank, tuple(Point(name, value, step, step * 1000) for step, value in enumerate(values))
    )


def lines(*records: MetricRecord) -> bytes:
    return b"".join(map(encode_record, records))


def send(house: House, job: str, *records: MetricRecord) -> None:
    """Forwards records behind what node 0 has forwarded so far."""
    agent = house.agent(job)
    offset = agent.metrics(b"").json()["offset"]
    answer = agent.metrics(lines(*records), offset)
    assert answer.json() == {"offset": offset + len(lines(*records))}, answer.text


def get(house: House, path: str, **params: object) -> Any:
    answer = house.http.get(f"/api/v1{path}", params=params, headers=BEARER)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_records_that_are_sent_twice_are_kept_once(house: House, job: str) -> None:
    body = lines(points(job, "loss", 3, 2), points(job, "loss", 1))
    agent = house.agent(job)
    for _ in range(2):
        assert agent.metrics(body).json() == {"offset": len(body)}
    first = len(lines(points(job, "loss", 3, 2)))
    assert agent.metrics(body[first:], first).json() == {"offset": len(body)}
    assert get(house, f"/jobs/{job}/metrics")["series"][0]["count"] == 3


def test_records_behind_a_gap_are_answered_with_where_to_go_on(house: House, job: str) -> None:
    assert house.agent(job).metrics(lines(points(job, "loss", 1)), 70).json() == {"offset": 0}
    assert get(house, f"/jobs/{job}/metrics")["series"] == []


def test_damaged_lines_are_refused_and_none_of_them_is_kept(house: House, job: str) -> None:
    body = lines(points(job, "loss", 1), points(job, "loss", 2))
    for damaged in (body[:-3], body.replace(b"loss", b"lass", 1)):
        answer = house.agent(job).metrics(damaged)
        assert answer.status_code == 422
        assert "can't be read" in answer.json()["what"]
    assert get(house, f"/jobs/{job}/metrics")["series"] == []


def test_only_an_attempts_own_secret_may_send_and_an_attempt_must_exist(house: House, job: str) -> None:
    url = f"/agent/v1/{job}/1/0/metrics"
    assert house.http.post(url, params={"offset": 0}, headers=BEARER).status_code == 401
    for name, attempt, code in ((job, 2, "stale"), ("none", 1, "not_found")):
        headers = {"Authorization": f"Bearer {node_secret(house.control.secrets.of(name, attempt), 0)}"}
        answer = house.http.post(f"/agent/v1/{name}/{attempt}/0/metrics", params={"offset": 0}, headers=headers)
        assert answer.json()["code"] == code


def test_job_whose_name_another_server_freed_has_a_run_of_its_own(house: House, job: str) -> None:
    store = house.control.store
    for value in (1.0, 2.0):
        send(house, job, points(job, "loss", value), ParamsLogged(run_id(job), {"lr": str(value)}))
        house.finish(job)
        run = house.control.metrics.ensured_run(job)
        assert (run.params, run.status) == ({"lr": str(value)}, "FINISHED")
        eventually(lambda: not store.outbox())
        store.delete_job(job)
        house.control.artifacts.set_aside_job(job)
        house.control.metrics.store.remove_run(run_id(job))
        finish_removal(store, job)
        house.submit(job)


def test_metrics_of_a_job_have_last_lowest_and_highest_by_rank(house: House, job: str) -> None:
    send(
        house,
        job,
        points(job, "loss", 3, 1, 2),
        points(job, "loss", 9, rank=1),
        points(job, "cpu", 50, rank=node_rank(0)),
    )
    send(house, job, ParamsLogged(run_id(job), {"lr": "0.1"}), TagsSet(run_id(job), {"note": "a"}))
    with Client(url=house.url, token=TOKEN) as client:
        metrics = client.metrics(job)
        loss, of_rank_1, cpu = metrics.series
        assert (metrics.run, metrics.status, metrics.params) == (run_id(job), "RUNNING", {"lr": "0.1"})
        assert metrics.tags.items() >= {"note": "a", "mlflow.runName": job}.items()
        assert (loss.last.value, loss.min.step, loss.max.value, loss.count) == (2, 1, 3, 3)
        assert (of_rank_1.rank, cpu.rank) == (1, -1)
        assert [one.rank for one in client.metrics(job, rank=1).series] == [1]


def test_values_that_json_has_no_numbers_for_are_texts(house: House, job: str) -> None:
    send(house, job, points(job, "loss", math.nan, math.inf, -math.inf))
    with Client(url=house.url, token=TOKEN) as client:
        (curve,) = client.curves(job, ["loss"])
        assert [point.value for point in curve.points] == ["NaN", "Infinity", "-Infinity"]


def test_a_curve_is_thinned_and_a_history_is_whole(house: House, job: str) -> None:
    send(house, job, points(job, "loss", *(float((n * 37) % 101) for n in range(5000))))
    with Client(url=house.url, token=TOKEN) as client:
        (curve,) = client.curves(job, max_points=100)
        values = [point.value for point in curve.points]
        assert len(values) <= 100
        assert (min(values), max(values), curve.points[-1].step) == (0, 100, 4999)
        assert [point.step for point in client.points(job, "loss")] == list(range(5000))


def test_run_ends_with_its_job_regardless_of_ranks(house: House) -> None:
    done, failed = house.submit("ends-well"), house.submit("ends-badly")
    for job in (done, failed):
        nested = RunCreated("ab" * 16 if job == done else "cd" * 16, experiment_id("x"), "inner", 1, job=job)
        send(house, job, points(job, "loss", 1), nested, RunUpdated(run_id(job), "FINISHED", 5))
    house.finish(done)
    house.finish(failed, code=3)
    with Client(url=house.url, token=TOKEN) as client:
        assert [client.metrics(job).status for job in (done, failed)] == ["FINISHED", "FAILED"]
    assert house.control.metrics.store.run("cd" * 16).status == "FAILED"


def test_all_runs_of_ended_jobs_are_settled_at_once(house: House) -> None:
    job = house.submit("settled")
    send(house, job, points(job, "loss", 1))
    house.finish(job)
    house.control.metrics.settle()
    assert house.control.metrics.store.run(run_id(job)).status == "FINISHED"
    assert run_id(job) not in dict(house.control.metrics.store.open_runs())


def test_primary_metric_is_in_lists_and_in_the_stream(house: House, job: str) -> None:
    with Client(url=house.url, token=TOKEN) as client:
        assert client.get(job).primary is None
        send(house, job, points(job, "other", 7, rank=1), points(job, "lr", 0.5, 0.75), points(job, "loss", 1))
        shown = client.get(job).primary
        assert shown is not None
        assert (shown.name, shown.value, shown.step) == ("loss", 1, 0)
        assert next(one for one in client.list() if one.name == job).primary == shown


def test_metric_that_is_no_number_any_more_is_in_lists_and_in_show(house: House) -> None:
    job = house.submit("diverged")
    send(house, job, points(job, "val/loss", 1, 2), points(job, "train/loss", 1, 0.5, float("nan"), float("nan")))
    with Client(url=house.url, token=TOKEN) as client:
        shown = client.get(job)
        assert shown.not_finite == NotFiniteView("train/loss", "NaN", 2)
        assert next(one for one in client.list() if one.name == job).not_finite == shown.not_finite
    assert format_not_finite(shown.not_finite) == "train/loss is NaN since step 2"


def test_a_follower_sees_the_primary_metric_change(house: House) -> None:
    job = house.submit("followed")
    send(house, job, points(job, "loss", 4))
    house.finish(job)
    with Client(url=house.url, token=TOKEN) as client:
        views = [event for event in client.stream(job) if hasattr(event, "primary")]
    assert views[-1].primary.value == 4


def test_a_deleted_job_leaves_no_run(house: House) -> None:
    job = house.submit("deleted")
    send(house, job, points(job, "loss", 1))
    house.finish(job)
    with Client(url=house.url, token=TOKEN) as client:
        client.delete(job)
        with pytest.raises(NotFoundError):
            client.metrics(job)
    with pytest.raises(NotFoundError):
        house.control.metrics.store.run(run_id(job))


@pytest.mark.feature("M12")
def test_comparison_has_differences_and_results(house: House) -> None:
    a = house.submit("cmp-a", inputs={"lr": 0.1, "epochs": 3}, command="echo ${{inputs.lr}} ${{inputs.epochs}}")
    b = house.submit("cmp-b", inputs={"lr": 0.2, "epochs": 3}, command="echo  ${{inputs.lr}} ${{inputs.epochs}}")
    send(house, a, points(a, "loss", 3, 1))
    house.finish(a)
    house.finish(b, code=1)
    with Client(url=house.url, token=TOKEN) as client:
        compared = client.compare(a, b)
        assert compared.jobs == (a, b)
        assert {(row.section, row.key) for row in compared.differences} == {("job file", "command"), ("inputs", "lr")}
        outcomes = {row.key: row.values for row in compared.outcomes}
        assert outcomes["state"] == ("completed", "failed")
        assert outcomes["loss"] == (1, None)
        assert outcomes["attempts"] == (1, 1)
        with pytest.raises(NotFoundError, match="none-such"):
            client.compare(a, "none-such")


@pytest.mark.feature("M8")
def test_experiments_are_listed_renamed_archived_and_restored(house: House) -> None:
    house.submit("exp-1", experiment_name="vision-digits")
    job = house.submit("exp-2", experiment_name="vision-digits")
    with Client(url=house.url, token=TOKEN) as client:
        (mine,) = [one for one in client.experiments() if one.name == "vision-digits"]
        assert (mine.jobs, mine.archived, mine.id) == (2, False, experiment_id("vision-digits"))
        renamed = client.rename_experiment("vision-digits", "numbers")
        assert (renamed.name, renamed.jobs, renamed.id) == ("numbers", 2, mine.id)
        assert client.experiment("vision-digits") == client.experiment("numbers") == renamed
        assert client.metrics(job).experiment == "numbers"
        assert {one.name for one in client.list(experiment="numbers")} == {"exp-1", "exp-2"}
        assert client.list(experiment="vision-digits") == client.list(experiment="numbers")
        assert client.archive_experiment("numbers").archived
        assert "numbers" not in [one.name for one in client.experiments()]
        assert "numbers" in [one.name for one in client.experiments(archived=True)]
        assert not client.restore_experiment("numbers").archived
        with pytest.raises(NotFoundError, match="Did you mean `numbers`"):
            client.experiment("nmbers")
        house.submit("exp-3", experiment_name="letters")
        client.experiments()
        with pytest.raises(ConflictError, match="letters"):
            client.rename_experiment("numbers", "letters")

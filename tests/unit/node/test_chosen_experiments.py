"""`mlflow.set_experiment` in a script of a job."""

from __future__ import annotations

import json

import pytest

from drumbeat.node.metrics.chosen_experiments import ChosenExperiments
from drumbeat.node.metrics.http_messages import HttpAnswer, Read, json_answer

pytestmark = pytest.mark.feature("M2")

RUN = json_answer({"run": {"info": {"run_id": "r", "experiment_id": "1"}, "data": {}}})


def shown(experiments: ChosenExperiments, rank: int = 0) -> tuple[str, str]:
    answer, name = experiments.shown(rank, RUN)
    return json.loads(answer.body)["run"]["info"]["experiment_id"], name


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        ({"experiment_name": "x"}, {"experiment": {"experiment_id": "7", "name": "x"}}),
        ({"name": "x"}, {"experiment_id": "7"}),
    ],
    ids=["found", "created"],
)
def test_jobs_run_is_shown_to_a_rank_in_the_experiment_that_it_set(asked: dict[str, str], answer: object):
    experiments = ChosenExperiments("1")
    assert shown(experiments) == ("1", "")
    experiments.note(0, asked, json_answer(answer))
    assert shown(experiments) == ("7", "x")
    assert shown(experiments, rank=1) == ("1", "")
    experiments.note(0, {}, json_answer({"experiment": {"experiment_id": "1", "name": "own"}}))
    assert shown(experiments) == ("1", "")


def test_experiment_that_is_missing_changes_nothing():
    experiments = ChosenExperiments("1")
    experiments.note(0, {"experiment_name": "x"}, HttpAnswer(404, b"{}"))
    assert shown(experiments) == ("1", "")


def test_rank_that_creates_an_experiment_a_moment_after_another_one_gets_that_one():
    experiments, known = ChosenExperiments("1"), dict[str, str]()

    def ask(read: Read) -> HttpAnswer:
        if read.route == "experiments/get-by-name":
            key = known.get(str(read.fields["experiment_name"]))
            return json_answer({"experiment": {"experiment_id": key, "name": "x"}}) if key else HttpAnswer(404, b"{}")
        if str(read.fields["name"]) in known:
            return json_answer({"error_code": "RESOURCE_ALREADY_EXISTS"}, 400)
        known[str(read.fields["name"])] = "7"
        return json_answer({"experiment_id": "7"})

    def find(rank: int) -> HttpAnswer:
        path = "/api/2.0/mlflow/experiments/get-by-name?experiment_name=x"
        return experiments.answer(Read("GET", path, b"", "", rank), ask)

    def create(rank: int) -> HttpAnswer:
        return experiments.answer(Read("POST", "/api/2.0/mlflow/experiments/create", b'{"name": "x"}', "", rank), ask)

    assert find(0).status == find(1).status == 404
    assert create(0) == create(1) == json_answer({"experiment_id": "7"})
    assert shown(experiments, 0) == shown(experiments, 1) == ("7", "x")
    # A rank that never looked is refused, as by MLflow.
    assert create(2).status == 400
    assert shown(experiments, 2) == ("1", "")

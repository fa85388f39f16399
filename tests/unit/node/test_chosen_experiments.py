"""`mlflow.set_experiment` in a script of a job."""

from __future__ import annotations

import json

import pytest

from drumbeat.node.metrics.chosen_experiments import ChosenExperiments
from drumbeat.node.metrics.http_messages import HttpAnswer, json_answer

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

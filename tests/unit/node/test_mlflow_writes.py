"""What MLflow's clients write to runs, as records."""

from __future__ import annotations

import json
from typing import Any

import pytest

from drumbeat.model.metrics import JsonObject, ParamsLogged, Point, PointsLogged, Run, RunUpdated, TagsSet, run_id
from drumbeat.model.mlflow_calls import INVALID, MlflowRefusal
from drumbeat.model.mlflow_writes import (
    MAX_PARAM_VALUE,
    MAX_TAG_VALUE,
    MODEL_HISTORY,
    RUN_NAME,
    WRITE_RULES,
    MlflowWrite,
    WrittenRecords,
    created,
)
from drumbeat.server.metrics.mlflow.limits import check_name

pytestmark = pytest.mark.feature("M2")

JOB_RUN = Run(run_id("j"), "1", "j", "RUNNING", 0, job="j", params={"lr": "1"}, tags={MODEL_HISTORY: "[1]"})
OTHER = Run("a" * 32, "1", "other", "RUNNING", 0, job="j")


def written(route: str, arguments: JsonObject, run: Run = JOB_RUN, rank: int = 0) -> WrittenRecords:
    return WRITE_RULES[f"runs/{route}"](MlflowWrite(arguments, rank), run)


@pytest.mark.parametrize(
    ("run", "rank", "status", "end_ms"),
    [(JOB_RUN, 0, "FINISHED", 5), (JOB_RUN, 1, "", None), (OTHER, 1, "FINISHED", 5)],
)
def test_rank_that_leaves_the_jobs_run_early_does_not_end_it(run: Run, rank: int, status: Any, end_ms: int | None):
    ended = {"status": "FINISHED", "end_time": 5, "run_name": "renamed"}
    changed = RunUpdated(run.id, status, end_ms, "renamed")
    assert written("update", ended, run, rank).records == (changed, TagsSet(run.id, {RUN_NAME: "renamed"}))


@pytest.mark.parametrize(
    "dataset",
    [
        {"dataset": "mnist"},
        {"dataset": {"digest": "d"}},
        {"dataset": {"name": "mnist"}},
        {"dataset": {"name": "mnist", "digest": "d"}, "tags": ["x"]},
    ],
)
def test_dataset_that_no_database_could_keep_is_refused(dataset: object):
    with pytest.raises(MlflowRefusal, match="datasets"):
        written("log-inputs", {"datasets": [dataset]})


BAD_AND_GOOD = [("step", 2**63), ("long" * 63, 1), ("", 1), (None, 1), ("half", {}), ("good", "7")]


def test_elements_of_a_batch_that_cannot_be_kept_are_refused_and_all_others_kept():
    metrics = [{"key": name, "value": 1, "step": step, "timestamp": 5} for name, step in BAD_AND_GOOD]
    metrics += [{"key": "many", "value": "many", "timestamp": 5}, {"key": "nan", "value": "NaN", "timestamp": "5"}]
    params = [{"key": "lr", "value": 2}, {"value": 1}, {"key": "p" * 251, "value": 1}, {"key": "decay", "value": 0}]
    tags = [{"key": "", "value": "x"}, {"key": "good", "value": "x"}]
    result = written("log-batch", {"metrics": metrics, "params": params, "tags": tags})
    points, *others = result.records
    assert isinstance(points, PointsLogged)
    assert points.points[0] == Point("good", 1, 7, 5)
    assert [one.name for one in points.points] == [one["key"] for one in result.metrics] == ["good", "nan"]
    assert others == [ParamsLogged(JOB_RUN.id, {"decay": "0"}), TagsSet(JOB_RUN.id, {"good": "x"})]
    assert len(result.refused) == len(BAD_AND_GOOD) - 1 + 1 + 3 + 1
    assert "a name of 1 to 250 characters" in result.refused[1].message


@pytest.mark.parametrize(
    "metric",
    [
        {"key": None},
        {"key": ""},
        {"key": "a//b"},
        {"key": "x" * 251},
        {"value": None},
        {"value": "many"},
        {"value": True},
        {"step": 2**63},
        {"timestamp": {}},
    ],
)
def test_metric_that_mlflow_refuses_is_refused_outside_of_jobs(metric: JsonObject):
    write = MlflowWrite({"metrics": [{"key": "x", "value": 1, "timestamp": 1, **metric}]}, check_name=check_name)
    result = WRITE_RULES["runs/log-batch"](write, OTHER)
    assert (result.records, [one.code for one in result.refused]) == ([], [INVALID])


def test_answer_names_ten_refused_elements_and_counts_the_others():
    metrics = [{"key": "", "value": 1}] * 12
    with pytest.raises(MlflowRefusal, match=r"; and 2 more$") as refusal:
        written("log-batch", {"metrics": metrics}).require_all()
    assert refusal.value.code == INVALID
    with pytest.raises(MlflowRefusal, match=r"; and 2 more \(everything else of this request is kept\)$"):
        written("log-batch", {"metrics": [*metrics, {"key": "good", "value": 1}]}).require_all()


def test_parameter_that_was_logged_is_refused_with_its_first_value_and_kept_once_if_equal():
    changed = written("log-parameter", {"key": "lr", "value": "2"})
    assert not changed.records
    assert "was already logged with value='1'" in changed.refused[0].message
    again = written("log-parameter", {"key": "lr", "value": 1})
    assert (again.records, again.refused) == ([], [])


def test_values_that_are_too_long_are_cut_as_mlflow_cuts_them():
    (param,) = written("log-parameter", {"key": "p", "value": "x" * 9000}).records
    (tag,) = written("set-tag", {"key": "t", "value": "x" * 9000}).records
    assert param == ParamsLogged(JOB_RUN.id, {"p": "x" * MAX_PARAM_VALUE})
    assert tag == TagsSet(JOB_RUN.id, {"t": "x" * MAX_TAG_VALUE})
    assert (
        created(MlflowWrite({"tags": [{"key": "t", "value": "x" * 9000}]}), "1", "j").tags["t"] == "x" * MAX_TAG_VALUE
    )


def test_tag_with_a_runs_name_names_the_run():
    renamed = written("set-tag", {"key": RUN_NAME, "value": "new"}).records
    assert renamed == [TagsSet(JOB_RUN.id, {RUN_NAME: "new"}), RunUpdated(JOB_RUN.id, name="new")]


def test_new_run_has_the_name_of_its_tag_else_one_of_its_id():
    named = created(MlflowWrite({"tags": [{"key": RUN_NAME, "value": "a"}], "start_time": "7"}), "1", "j")
    assert (named.name, named.start_ms, named.job, named.experiment) == ("a", 7, "j", "1")
    other = created(MlflowWrite({}), "1", "")
    assert other.name == other.tags[RUN_NAME] == f"run-{other.run[:8]}"


def test_model_is_added_to_those_that_the_run_has():
    (tags,) = written("log-model", {"model_json": "2"}).records
    assert isinstance(tags, TagsSet)
    assert json.loads(tags.tags[MODEL_HISTORY]) == [1, 2]


@pytest.mark.parametrize(("kind", "count"), [("metrics", 1001), ("params", 101), ("tags", 101)])
def test_batch_beyond_mlflows_limits_is_refused_as_a_whole(kind: str, count: int):
    with pytest.raises(MlflowRefusal, match=f"at most {count - 1} {kind}. Got {count}"):
        written("log-batch", {kind: [{"key": "k", "value": 1}] * count})


def test_name_that_mlflow_refuses_is_taken_from_ranks_as_drumbeat_log_takes_it():
    metric = {"key": "acc@5", "value": 1.0, "timestamp": 1}
    assert not written("log-metric", metric).refused
    outside = MlflowWrite(metric, check_name=check_name)
    assert "Names may only contain" in WRITE_RULES["runs/log-metric"](outside, OTHER).refused[0].message

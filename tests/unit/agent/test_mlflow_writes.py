"""What ranks write by MLflow's API, as records."""

from __future__ import annotations

from typing import cast

import pytest

from drumbeat.agent.metrics.mlflow_errors import MlflowError
from drumbeat.agent.metrics.mlflow_writes import Write, log_batch, log_inputs, update
from drumbeat.agent.metrics.node_runs import NodeRuns
from drumbeat.protocol.metrics import ParamsLogged, Point, PointsLogged, RunCreated, RunUpdated, TagsSet, run_id

pytestmark = pytest.mark.feature("M2")

ENDED = {"status": "FINISHED", "end_time": 5, "run_name": "other"}


@pytest.mark.parametrize(
    ("run", "rank", "status", "end_ms"),
    [(run_id("j"), 0, "FINISHED", 5), (run_id("j"), 1, "", None), ("a" * 32, 1, "FINISHED", 5)],
)
def test_rank_that_leaves_the_jobs_run_early_does_not_end_it(run: str, rank: int, status: str, end_ms: int | None):
    write = Write({**ENDED, "run_id": run}, rank, cast("NodeRuns", None), "j", "e")
    assert update(write).records == (RunUpdated(run, status, end_ms, "other"),)


@pytest.mark.parametrize(
    "dataset",
    [
        {"dataset": "mnist"},
        {"dataset": {"digest": "d"}},
        {"dataset": {"name": "mnist"}},
        {"dataset": {"name": "mnist", "digest": "d"}, "tags": ["x"]},
    ],
)
def test_dataset_that_the_server_could_not_keep_is_refused_to_the_rank(dataset: object):
    write = Write({"run_id": run_id("j"), "datasets": [dataset]}, 0, cast("NodeRuns", None), "j", "e")
    with pytest.raises(MlflowError, match="datasets"):
        log_inputs(write)


def test_elements_of_a_batch_that_a_database_cannot_keep_are_refused_and_all_others_kept():
    runs = NodeRuns(RunCreated(run_id("j"), "1", "j", 0, job="j"))
    runs.apply(ParamsLogged(run_id("j"), {"lr": "1"}))
    metrics = [{"key": name, "value": 1, "step": step, "timestamp": 5} for name, step in BAD_AND_GOOD]
    metrics += [{"key": "many", "value": "many", "timestamp": 5}, {"key": "nan", "value": "NaN", "timestamp": "5"}]
    params = [{"key": "lr", "value": 2}, {"value": 1}, {"key": "p" * 251, "value": 1}, {"key": "decay", "value": 0}]
    tags = [{"key": "", "value": "x"}, {"key": "good", "value": "x"}]
    body = {"run_id": run_id("j"), "metrics": metrics, "params": params, "tags": tags}
    result = log_batch(Write(body, 0, runs, "j", "e"))
    points, *others = result.records
    assert isinstance(points, PointsLogged)
    assert points.points[0] == Point("good", 1, 7, 5)
    assert [one.name for one in points.points] == ["good", "nan"]
    assert others == [ParamsLogged(run_id("j"), {"decay": "0"}), TagsSet(run_id("j"), {"good": "x"})]
    assert len(result.refused) == len(BAD_AND_GOOD) - 1 + 1 + 3 + 1
    assert "a name of 1 to 250 characters" in result.refused[1]


BAD_AND_GOOD = [("step", 2**63), ("long" * 63, 1), ("", 1), (None, 1), ("half", {}), ("good", "7")]

"""What ranks write by MLflow's API, as records."""

from __future__ import annotations

from typing import cast

import pytest

from drumbeat.agent.metrics.mlflow_errors import MlflowError
from drumbeat.agent.metrics.mlflow_writes import Write, log_inputs, update
from drumbeat.agent.metrics.node_runs import NodeRuns
from drumbeat.protocol.metrics import RunUpdated, run_id

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

"""The metrics endpoint of a node: ranks never notice that their agent or the server is gone."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from drumbeat.launchers.tracking_variables import variables
from drumbeat.model.conditions import ConditionAction, ConditionKind, ConditionState, JobCondition
from drumbeat.model.metrics import RunCreated, run_id
from drumbeat.node.metrics.condition_states import read_states

from . import mlflows
from .house import until
from .metrics_node import PLAN, Node, a_node


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    with a_node(tmp_path) as made:
        yield made


@pytest.mark.feature("M2")
@pytest.mark.parametrize("point", ["metrics.begun", "metrics.spooled:3", "metrics.forwarded"])
def test_points_are_kept_once_when_the_endpoint_is_killed_anywhere(node: Node, point: str):
    node.fault.write_text(point)
    assert [node.log_metric("loss", 1.5, step) for step in range(6)] == [200] * 6
    node.finish()
    assert [one.step for one in node.server.points()] == list(range(6))
    assert not node.fault.exists(), "it was killed"


@pytest.mark.feature("M13")
@pytest.mark.parametrize("point", ["metrics.begun", "metrics.spooled:3", "metrics.condition_met", "metrics.forwarded"])
def test_condition_is_met_once_when_the_endpoint_is_killed_anywhere(tmp_path: Path, point: str):
    conditions = (
        JobCondition(ConditionAction.STOP, ConditionKind.NO_BETTER, "loss", reports=3, rank=0),
        JobCondition(ConditionAction.NOTIFY, ConditionKind.BELOW, "loss", 1.0),
    )
    with a_node(tmp_path, replace(PLAN, conditions=conditions)) as node:
        node.fault.write_text(point)
        values = enumerate([2, 0.5, 2, 0.6, 2, 0.9])
        assert [node.log_metric("loss", value, step) for step, value in values] == [200] * 6
        until(lambda: not node.fault.exists(), what="the kill")
        states = read_states(node.folder)
        assert states == (
            ConditionState(0, 1, is_met=True, sentence="loss no better for 3 reports (best 0.5 at step 1)"),
            ConditionState(1, 3, is_met=True, sentence="loss is 0.9, below 1 (at step 5, rank 0)"),
        )
        node.kill_endpoint()
        assert node.log_metric("other", 1, 6) == 200
        assert read_states(node.folder) == states
        node.finish()


@pytest.mark.feature("M2")
def test_endpoint_outlives_its_agent_and_the_next_one_looks_after_it(node: Node):
    assert node.log_metric("loss", 0.5, 0) == 200
    node.kill_agent()
    pid = node.folder.endpoint_pid()
    assert node.log_metric("loss", 0.5, 1, rank=1) == 200
    _, address = node.address, node.begin_agent()[1]
    assert (address, node.folder.endpoint_pid()) == (node.address, pid)
    node.kill_endpoint()
    assert node.log_metric("loss", 0.5, 2) == 200
    assert node.folder.endpoint_pid() != pid
    node.finish()
    assert [one.step for one in node.server.points(0)] == [0, 2]
    assert [one.step for one in node.server.points(1)] == [1]


def test_endpoint_and_agent_killed_at_once_come_back_at_the_same_port(node: Node):
    assert node.log_metric("loss", 0.5, 0) == 200
    address = node.address
    node.kill_agent()
    node.kill_endpoint()
    assert node.begin_agent()[1] == address
    assert node.log_metric("loss", 0.5, 1) == 200
    node.finish()
    assert [one.step for one in node.server.points()] == [0, 1]


@pytest.mark.feature("M2")
def test_a_run_whose_creation_got_no_answer_is_created_once(node: Node):
    node.fault.write_text("metrics.spooled:2")
    assert node.log_metric("loss", 0.5, 0) == 200
    body = {"experiment_id": "7", "start_time": 5, "tags": [{"key": "a", "value": "b"}], "run_name": "child"}
    status, answer = node.post("/api/2.0/mlflow/runs/create", body)
    node.finish()
    created = [one for one in node.server.records if isinstance(one, RunCreated)]
    assert status == 200
    assert [one.run for one in created] == [answer["run"]["info"]["run_id"]]


SCRIPT = """
import mlflow
for step in range(5):
    mlflow.log_metric("loss", 1.0 / (1 + step), step=step)
mlflow.log_params({"lr": 0.1, "depth": 3})
mlflow.set_tag("stage", "two")
mlflow.log_text("hello", "notes/a.txt")
with mlflow.start_run(nested=True, run_name="child") as child:
    mlflow.log_metrics({"a": 1, "b": float("nan")}, step=2)
client, run = mlflow.MlflowClient(), mlflow.active_run().info.run_id
data = client.get_run(run).data
assert data.metrics == {"loss": 0.2}, data.metrics
assert data.params == {"lr": "0.1", "depth": "3"} and data.tags["stage"] == "two", data
assert [one.step for one in client.get_metric_history(run, "loss")] == list(range(5))
assert client.get_run(child.info.run_id).data.metrics["a"] == 1.0
assert {one.info.run_id for one in client.search_runs([child.info.experiment_id])} == {run, child.info.run_id}
assert [one.path for one in client.list_artifacts(run, "notes")] == ["notes/a.txt"]
assert mlflow.artifacts.load_text(f"runs:/{run}/notes/a.txt") == "hello"
try:
    mlflow.log_param("lr", 0.2)
except mlflow.exceptions.MlflowException as error:
    assert "Changing param values is not allowed" in str(error), error
else:
    raise AssertionError("a parameter was changed")
"""


@pytest.mark.feature("M2")
def test_unmodified_mlflow_writes_and_reads_while_the_server_is_away(node: Node):
    node.server.is_away = True
    environment = {**os.environ, **variables(PLAN, node.address, 1), "PYTHONPATH": str(mlflows.provide())}
    ended = subprocess.run(
        [sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert ended.returncode == 0, ended.stderr[-2000:]
    assert node.server.records == []
    node.server.is_away = False
    until(lambda: len(node.server.points(1)) == 5, what="the points")
    assert [one.value for one in node.server.points(1)] == [1 / (1 + step) for step in range(5)]
    assert (node.root / "outputs" / "mlflow-artifacts" / run_id("j") / "notes" / "a.txt").read_text() == "hello"


@pytest.mark.feature("M2")
def test_routes_that_are_not_spoken_are_refused_with_a_sentence(node: Node):
    status, answer = node.post("/api/3.0/mlflow/traces", {})
    assert (status, answer["error_code"]) == (404, "ENDPOINT_NOT_FOUND")
    assert "doesn't support traces" in answer["message"]
    node.address = node.address[:-1] + ("A" if node.address[-1] != "A" else "B")
    assert node.post("/log", {})[1]["error_code"] == "UNAUTHENTICATED"


RANKS = """
import os, subprocess, sys
for rank in "01":
    subprocess.Popen([sys.executable, "-c", "while True: bytes(10)"], env={"DRUMBEAT_METRICS": f"http://a/t/{rank}"})
subprocess.Popen(["/bin/sleep", "1000"], env={})
sys.stdin.read()
"""


@pytest.mark.feature("M2")
def test_resources_of_a_node_and_its_ranks_are_logged_while_ranks_run(node: Node):
    with psutil.Popen([sys.executable, "-c", RANKS], stdin=subprocess.PIPE, start_new_session=True) as supervisor:
        try:
            until(lambda: len(supervisor.children()) == 3, what="the ranks")
            node.folder.set_supervisor(supervisor.pid)
            assert node.log_metric("loss", 0.5, 0) == 200
            until(lambda: any(point.step == 2 for point in node.server.points(-1)), what="two samples")
            last = {rank: {one.name: one.value for one in node.server.points(rank)} for rank in (-1, 0, 1)}
        finally:
            for process in (*supervisor.children(), supervisor):
                process.kill()
    assert 0 < last[-1]["system/cpu_percent"] <= 100
    assert last[-1]["system/memory_mib"] > 10
    assert last[-1]["system/disk_free_mib"] > 0
    assert {"system/network_received_mib_s", "system/network_sent_mib_s"} <= set(last[-1])
    assert all(last[rank]["system/cpu_cores"] > 0.01 for rank in (0, 1))
    assert all(last[rank]["system/memory_mib"] > 1 for rank in (0, 1))
    assert "system/cpu_cores" not in last[-1]

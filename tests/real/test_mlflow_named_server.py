"""A real MLflow server that is named for a drumbeat server gets the runs of jobs."""

from __future__ import annotations

import os
import subprocess
import sys

import httpx
import psutil
import pytest

from . import mlflows
from .house import until
from .started import free_ports

pytestmark = [pytest.mark.real, pytest.mark.thorough, pytest.mark.feature("M2")]

SCRIPT = """
import os, mlflow
rank = int(os.environ["RANK"])
for step in range(5):
    mlflow.log_metric("loss", 10 * rank + step, step=step)
if rank == 0:
    mlflow.log_param("lr", 0.1)
    mlflow.log_text("hello", "a/b.txt")
    with mlflow.start_run(nested=True, run_name="child"):
        mlflow.log_metric("inner", 1)
"""


@pytest.fixture
def mlflow_server(tmp_path):
    """The address of a real server."""
    (port,) = free_ports(1)
    environment = {
        **os.environ, "PYTHONPATH": str(mlflows.provide("mlflow", mlflows.NEWEST)), "MLFLOW_DISABLE_TELEMETRY": "true",
    }  # fmt: skip
    command = [sys.executable, "-m", "mlflow", "server", "--port", str(port), "--workers", "1"]
    command += [
        "--backend-store-uri",
        f"sqlite:///{tmp_path}/runs.db",
        "--artifacts-destination",
        str(tmp_path / "files"),
    ]
    with (tmp_path / "log").open("w") as log:
        process = subprocess.Popen(
            command, env=environment, stdout=log, stderr=log, cwd=tmp_path, start_new_session=True
        )
    url = f"http://127.0.0.1:{port}"

    def answers():
        assert process.poll() is None, (tmp_path / "log").read_text()[-2000:]
        try:
            return httpx.get(f"{url}/health", trust_env=False).is_success
        except httpx.HTTPError:
            return False

    try:
        until(answers, 200, "an answer of the MLflow server")
        yield url
    finally:
        for one in (*psutil.Process(process.pid).children(recursive=True), process):
            one.kill()
        process.wait()


def test_the_runs_of_a_job_are_in_the_named_server(own_house, mlflow_server, monkeypatch):
    monkeypatch.setenv("DRUMBEAT_MLFLOW", mlflow_server)
    own_house.environment["DRUMBEAT_MLFLOW"] = mlflow_server
    own_house.script(SCRIPT)
    file = own_house.job_file(
        command='"python t.py"', code=".", drumbeat="{environment: current}", experiment_name="named",
        distribution="{type: pytorch, process_count_per_instance: 2}",
        environment_variables=f"{{PYTHONPATH: {mlflows.provide()}}}",
    )  # fmt: skip
    done = own_house.run("run", file, "--name", "copied")
    assert done.returncode == 0, done.stdout + done.stderr

    with httpx.Client(base_url=f"{mlflow_server}/api/2.0/mlflow", trust_env=False) as http:
        check_copies(http)


def check_copies(http):
    def runs():
        try:
            named = http.get("/experiments/get-by-name", params={"experiment_name": "named"}).json()["experiment"]
        except KeyError:
            return {}
        found = http.post("/runs/search", json={"experiment_ids": [named["experiment_id"]]}).json().get("runs", [])
        return {one["info"]["run_name"]: one for one in found}

    until(
        lambda: [one["info"]["status"] for one in runs().values()] == ["FINISHED"] * 2,
        60,
        "two copies that are finished",
    )
    parent, child = runs()["copied"], runs()["child"]
    metrics = {one["key"]: one["value"] for one in parent["data"]["metrics"]}
    assert (metrics["loss"], metrics["rank_1/loss"]) == (4, 14)
    assert parent["data"]["params"] == [{"key": "lr", "value": "0.1"}]
    tags = {one["key"]: one["value"] for one in child["data"]["tags"]}
    assert tags["mlflow.parentRunId"] == parent["info"]["run_id"]
    history = http.get("/metrics/get-history", params={"run_id": parent["info"]["run_id"], "metric_key": "loss"}).json()
    assert [one["value"] for one in history["metrics"]] == [0, 1, 2, 3, 4]

    def files():
        listed = http.get("/artifacts/list", params={"run_id": parent["info"]["run_id"], "path": "a"}).json()
        return [one["path"] for one in listed.get("files", [])]

    until(lambda: files() == ["a/b.txt"], 60, "the artifact's copy")

"""A job with the secret of one of its nodes: it opens that node of that attempt, and ends with it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from drumbeat.protocol.metric_lines import line_of
from drumbeat.protocol.metrics import Point, PointsLogged, RunCreated, run_id
from tests.attacks.targets import Attempt, start_job
from tests.real.house import House, until

API = "/mlflow/api/2.0/mlflow"
FILES = "/mlflow/api/2.0/mlflow-artifacts/artifacts"


def answers(client: httpx.Client, *asked: tuple[str, str]) -> list[int]:
    """The statuses of requests with a small body."""
    return [client.request(method, path, content=b"x").status_code for method, path in asked]


def audited(house: House, path: str) -> list[str]:
    """The lines of the audit log about a path: who, role, method, path, status."""
    lines = (house.home / "audit.log").read_text().splitlines()
    return [line for line in lines if path in line]


@pytest.mark.feature("X2")
def test_secret_of_a_node_opens_no_other_node_and_no_other_job(house: House, attempt: Attempt):
    for job, number, node in (("target", 1, 1), ("target", 1, 999), ("target", 2, 0), ("other", 1, 0)):
        stolen = Attempt(house.home, job, number, node, attempt.secret)
        with stolen.calling() as client:
            log = ("PUT", f"/logs/{number}.1/{node}/0.log?offset=0")
            assert answers(client, log, ("PUT", "/outputs/x?offset=0"), ("GET", "/peers")) == [401] * 3, stolen


@pytest.mark.feature("X2")
def test_secret_ends_with_its_attempt_and_shown_outputs_stay_as_they_were(house: House, tmp_path: Path):
    go = tmp_path / "go"
    ended = start_job(house, "ended", f"echo right > outputs/a; until [ -e {go} ]; do sleep 0.02; done")
    go.touch()
    until(lambda: house.client.get("ended").state.is_terminal)
    commit = json.dumps({"files": {"a": {"size": 1, "sha256": "2d71" * 16}}})
    with ended.calling() as client:
        asked = [
            ("PUT", "/outputs/a?offset=0"), ("PUT", "/logs/1.1/0/0.log?offset=0"), ("GET", "/peers"),
            ("GET", "/registries"), ("GET", f"{API}/runs/get?run_id={run_id('ended')}"), ("POST", "/metrics?offset=0"),
        ]  # fmt: skip
        assert answers(client, *asked) == [410] * 6
        refused = client.post("/outputs/commit", content=commit)
    assert refused.status_code == 410
    assert "attempt 1 of job ended is over: the job is completed" in refused.text
    kept = {file.name: file for file in house.client.download("ended", tmp_path / "kept")}
    assert kept["a"].read_text() == "right\n"


def write(client: httpx.Client, route: str, **body: Any) -> int:
    return client.post(f"{API}/{route}", json=body).status_code


@pytest.mark.feature("X2")
def test_job_writes_its_own_run_and_nothing_of_another_job(house: House, attempt: Attempt):
    house.client.submit({"name": "victim", "command": "true", "drumbeat": {"environment": "current"}})
    until(lambda: house.client.get("victim").state.is_terminal)
    own, theirs = run_id("target"), run_id("victim")
    metric = {"key": "loss", "value": 0.0, "step": 1, "timestamp": 1}
    with attempt.calling() as client:
        assert [write(client, "runs/log-metric", run_id=run, **metric) for run in (own, theirs)] == [200, 403]
        assert write(client, "runs/delete", run_id=theirs) == 403
        assert write(client, "experiments/update", experiment_id="0", new_name="mine") == 403
        assert client.delete(f"{FILES}/models").status_code == 400
        assert client.delete(f"{FILES}/{theirs}/artifacts/x").status_code == 403
        assert client.put(f"{FILES}/{theirs}/artifacts/x", content=b"x").status_code == 403
    assert house.client.metrics("victim").series == ()
    line = audited(house, f"{attempt.path}{API}/runs/delete")[-1]
    assert line.endswith(f"job:target:0 node POST {attempt.path}{API}/runs/delete 403")


def test_records_of_another_jobs_run_are_left_out_of_a_spool(house: House, attempt: Attempt):
    theirs, future = run_id("victim"), run_id("not-yet")
    point = Point("forged", 1.0, 0, 1)
    records = [
        PointsLogged(theirs, 0, (point,)), RunCreated(future, "1", "forged", 1, job="victim"),
        PointsLogged(future, 0, (point,)), PointsLogged(run_id("target"), 0, (Point("true", 1.0, 0, 1),)),
        PointsLogged(theirs, 0, (point,)),
    ]  # fmt: skip
    lines = b"".join(line_of(one) for one in records)
    node = Attempt(house.home, "target", attempt.number, attempt.node, attempt.secret)
    with node.calling() as client:
        offset = client.post("/metrics?offset=0", content=b"").json()["offset"]
        assert client.post("/metrics", params={"offset": offset}, content=lines).json() == {
            "offset": offset + len(lines)
        }
    assert [one.name for one in house.client.metrics("target").series if one.rank == 0][-1:] == ["true"]
    assert audited(house, f"{attempt.path}/metrics")[-1].endswith(" 403")

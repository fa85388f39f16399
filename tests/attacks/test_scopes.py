"""A job with the secret of one of its nodes: it opens that node of that attempt, and ends with it."""

from __future__ import annotations

import contextlib
import http.server
import json
import threading
from collections.abc import Generator
from pathlib import Path
from typing import Any

import httpx
import pytest

from drumbeat.model.metric_lines import encode_record
from drumbeat.model.metrics import Point, PointsLogged, RunCreated, run_id
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
    lines = b"".join(encode_record(one) for one in records)
    node = Attempt(house.home, "target", attempt.number, attempt.node, attempt.secret)
    with node.calling() as client:
        offset = client.post("/metrics?offset=0", content=b"").json()["offset"]
        assert client.post("/metrics", params={"offset": offset}, content=lines).json() == {
            "offset": offset + len(lines)
        }
    assert [one.name for one in house.client.metrics("target").series if one.rank == 0][-1:] == ["true"]
    assert audited(house, f"{attempt.path}/metrics")[-1].endswith(" 403")


DEFAULT = "azureml://datastores/workspaceblobstore/paths/"


@contextlib.contextmanager
def listening(asked: list[str]) -> Generator[int]:
    """A web server of this machine that notes what it is asked; its port."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)

        do_HEAD = do_GET  # noqa: N815 (the name that the library looks for)

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as there:
        threading.Thread(target=there.serve_forever, daemon=True).start()
        yield there.server_port
        there.shutdown()


def user(house: House, role: str) -> httpx.Client:
    """A client with a token of a user in this role."""
    url = json.loads((house.home / "server.json").read_text())["url"]
    token = (house.home / "token").read_text()
    if role != "owner":
        owner = {"Authorization": f"Bearer {token}"}
        httpx.delete(f"{url}/api/v1/tokens/a-{role}", headers=owner, trust_env=False)
        body = {"person": f"a-{role}", "role": role}
        token = httpx.post(f"{url}/api/v1/tokens", json=body, headers=owner, trust_env=False).json()["token"]
    return httpx.Client(base_url=url, headers={"Authorization": f"Bearer {token}"}, timeout=60, trust_env=False)


@pytest.mark.feature("X3")
def test_server_fetches_no_inner_address_for_anybody_and_no_web_address_for_readers(house: House):
    """What only this machine is meant to see isn't read through the server, as a metadata service is."""
    asked: list[str] = []
    with listening(asked) as port:
        inner = f"http://127.0.0.1:{port}/latest/meta-data"
        for role in ("owner", "contributor", "reader"):
            with user(house, role) as client:
                for uri in (inner, f"http://localhost:{port}/x", f"http://[::ffff:127.0.0.1]:{port}/x"):
                    answer = client.get("/api/v1/storage/listing", params={"uri": uri, "is_file": True})
                    assert answer.status_code == 403, answer.text
                file = {"path": "x", "size": 6, "key": "k", "alone": True}
                assert client.post("/api/v1/storage/file", params={"uri": inner}, json=file).status_code == 403
                data = {"document": {"name": "stolen", "path": inner, "type": "uri_file"}}
                assert client.post("/api/v1/data", json=data).status_code == 403
        with user(house, "reader") as reader:
            public = reader.get("/api/v1/storage/listing", params={"uri": "https://store.invalid/x", "is_file": True})
            assert "a reader here, and the server fetches no other addresses for readers" in public.text
            assert reader.get("/api/v1/storage/entries", params={"uri": DEFAULT}).status_code == 200
    assert asked == []

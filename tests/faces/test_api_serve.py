"""The server as a process: its home, its lock, its address, how it starts and how it ends."""

import contextlib
import json
import os
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from drumbeat.client import Client
from drumbeat.model.errors import RefusedError
from drumbeat.server.process.serve import EXIT_TAKEN
from tests.real.started import free_ports

from .api_house import eventually


class Process:
    """`python -m drumbeat.server` in a home of its own."""

    def __init__(self, home: Path, *options: str) -> None:
        self.home = home
        command = [sys.executable, "-m", "drumbeat.server", "--home", str(home), *options]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def address(self) -> dict[str, Any]:
        place = self.home / "server.json"
        eventually(lambda: place.exists() or self.process.poll() is not None, within_s=30)
        assert self.process.poll() is None, self.process.communicate()
        return json.loads(place.read_text())

    def client(self) -> httpx.Client:
        url = self.address()["url"]
        headers = {"Authorization": f"Bearer {(self.home / 'token').read_text()}"}
        return httpx.Client(base_url=url, headers=headers, trust_env=False, timeout=20)

    def sdk(self) -> Client:
        return Client(url=self.address()["url"], token=(self.home / "token").read_text())

    def end(self) -> tuple[int, str]:
        said, _ = self.process.communicate(timeout=60)
        return self.process.returncode, said


@contextlib.contextmanager
def serving(home: Path, *options: str) -> Iterator[Process]:
    running = Process(home, *options)
    try:
        yield running
    finally:
        running.process.kill()
        running.process.communicate()


@pytest.mark.feature("X1")
def test_a_first_start_makes_everything_private(tmp_path: Path) -> None:
    home = tmp_path / "deep" / "home"
    old = os.umask(0)
    try:
        with serving(home) as server, server.client() as http:
            address = server.address()
            assert set(address) == {"url", "home", "host", "boot_id", "pid", "version", "protocol", "started_at"}
            assert address["pid"] == server.process.pid
            assert address["url"].startswith("http://127.0.0.1:")
            assert http.get("/api/v1/version").json()["home"] == str(home)
            assert stat.S_IMODE(home.stat().st_mode) == 0o700
            for name in ("token", "server.json", "server.log", "server.lock", "port", "key"):
                assert stat.S_IMODE((home / name).stat().st_mode) == 0o600, name
            assert len((home / "token").read_text()) >= 40
    finally:
        os.umask(old)


def test_second_server_names_the_owner_of_the_home(tmp_path: Path) -> None:
    with serving(tmp_path) as first:
        first.address()
        code, said = Process(tmp_path).end()
        assert code == EXIT_TAKEN
        assert str(first.process.pid) in said
        assert len(said.splitlines()) == 1


def test_one_of_several_servers_started_at_once_serves(tmp_path: Path) -> None:
    started = [Process(tmp_path) for _ in range(4)]
    try:
        eventually(lambda: sum(one.process.poll() is not None for one in started) == 3, within_s=60)
        (serving_one,) = (one for one in started if one.process.poll() is None)
        assert serving_one.address()["pid"] == serving_one.process.pid
        with serving_one.client() as http:
            assert http.get("/api/v1/version").json()["pid"] == serving_one.process.pid
        assert [one.end()[0] for one in started if one is not serving_one] == [EXIT_TAKEN] * 3
    finally:
        for one in started:
            one.process.kill()
            one.process.communicate()


@pytest.mark.thorough
def test_server_stops_at_once_despite_open_requests(tmp_path: Path) -> None:
    with serving(tmp_path) as server, server.client() as http:
        body = {"document": {"name": "j", "command": "sleep 60", "drumbeat": {"environment": "current"}}}
        assert http.post("/api/v1/jobs", json=body).status_code == 201
        with http.stream("GET", "/api/v1/jobs/j/events") as stream:
            lines = stream.iter_lines()
            next(lines)
            server.process.terminate()
            assert server.end()[0] == 0
            told: list[str] = []
            with contextlib.suppress(httpx.TransportError):
                told.extend(lines)
            assert "event: end" not in told
        assert not (tmp_path / "server.json").exists()
    _end_what_runs(tmp_path)


def _end_what_runs(home: Path) -> None:
    """Jobs go on without their server: this one's is ended by another."""
    with serving(home) as server, server.client() as http:
        http.post("/api/v1/jobs/j/cancel")
        # Refused until the job has ended and its nodes are gone.
        eventually(lambda: http.post("/api/v1/stop").is_success, within_s=30)
        assert server.end()[0] == 0


@pytest.mark.thorough
def test_restarted_server_keeps_its_port_and_token(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        first, token = server.address(), (tmp_path / "token").read_text()
    assert (tmp_path / "server.json").exists(), "killed: it had no time to take it back"
    (tmp_path / "server.json").unlink()
    with serving(tmp_path) as server:
        assert server.address()["url"] == first["url"]
        assert (tmp_path / "token").read_text() == token


def test_running_server_takes_another_idle_time_and_ends_after_it(tmp_path: Path) -> None:
    with serving(tmp_path, "--idle-stop", "0") as server, server.client() as http:
        for wrong in ({}, {"idle_stop_s": -1}, {"idle_stop_s": 1e300}, {"idle_stop_s": 1, "x": 1}):
            assert http.put("/api/v1/idle-stop", json=wrong).status_code == 422
        assert http.get("/api/v1/status").json()["idle_stop_s"] == 0
        assert http.put("/api/v1/idle-stop", json={"idle_stop_s": 0.1}).json() == {"idle_stop_s": 0.1}
        assert server.end()[0] == 0


@pytest.mark.feature("M2")
def test_named_mlflow_server_and_its_credentials_are_kept_across_restarts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("DRUMBEAT_MLFLOW", "MLFLOW_TRACKING_USERNAME", "MLFLOW_TRACKING_PASSWORD"):
        monkeypatch.delenv(name, raising=False)
    kept = tmp_path / "mlflow.json"
    with serving(tmp_path) as server, server.sdk() as client:
        monkeypatch.setenv("MLFLOW_TRACKING_TOKEN", "of the MLflow server")
        client.set_mlflow_server("http://ann:secret@127.0.0.1:9/")
        assert client.status().mlflow == "http://127.0.0.1:9/"
        assert stat.S_IMODE(kept.stat().st_mode) == 0o600
        with pytest.raises(RefusedError, match="http://"):
            client.set_mlflow_server("127.0.0.1:9")
        client.stop()
    with serving(tmp_path) as server, server.sdk() as client, server.client() as http:
        assert client.status().mlflow == "http://127.0.0.1:9/"
        assert http.post("/mlflow/api/2.0/mlflow/runs/create", json={"experiment_id": "0"}).is_success
        assert json.loads(kept.read_text())["credentials"] == {"MLFLOW_TRACKING_TOKEN": "of the MLflow server"}
        eventually(lambda: "copying runs is delayed" in (tmp_path / "server.log").read_text(), within_s=60)
        monkeypatch.setenv("MLFLOW_TRACKING_TOKEN", (tmp_path / "token").read_text())
        client.set_mlflow_server("http://127.0.0.1:9")
        assert json.loads(kept.read_text()) == {"url": "http://127.0.0.1:9", "credentials": {}}
        client.set_mlflow_server(None)
        assert (client.status().mlflow, kept.exists()) == ("", False)
    assert "secret" not in (tmp_path / "server.log").read_text()


@pytest.mark.thorough
def test_idle_server_stops_only_without_unfinished_jobs(tmp_path: Path) -> None:
    """An output that its store doesn't take yet is work without requests: a job's agents always have one open."""
    with socket.create_server(("127.0.0.1", 0)) as store, serving(tmp_path, "--idle-stop", "1") as server:
        store.settimeout(60)
        with server.client() as http:
            away = {
                "name": "away", "type": "s3", "bucket": "away", "endpoint": f"http://127.0.0.1:{store.getsockname()[1]}",
                "credentials": {"access_key_id": "a", "secret_access_key": "b"},
            }  # fmt: skip
            made = http.post("/api/v1/datastores", json={"document": away, "source": "test", "check": False})
            assert made.is_success, made.text
            job = {
                "name": "j", "command": "touch $AZURE_ML_OUTPUT_model/a", "drumbeat": {"environment": "current"},
                "outputs": {"model": {"path": "azureml://datastores/away/paths/m"}},
            }  # fmt: skip
            assert http.post("/api/v1/jobs", json={"document": job}).status_code == 201
            first = next_ask(store)
            while next_ask(store) < first + 5:  # It asks again after 2 s, 4 s, 8 s, …
                pass
            assert http.post("/api/v1/jobs/j/cancel", params={"discard": True}).is_success
            assert server.end()[0] == 0
    with serving(tmp_path) as server, server.client() as http:
        assert http.get("/api/v1/jobs/j").json()["state"] == "completed"


@pytest.mark.feature("M2")
def test_server_stays_while_a_run_outside_of_jobs_is_under_way(tmp_path: Path) -> None:
    """As a notebook's, whose MLflow client can't start a server."""
    runs, log = "/mlflow/api/2.0/mlflow/runs", tmp_path / "server.log"
    with serving(tmp_path, "--idle-stop", "0") as server, server.client() as http:
        run = http.post(f"{runs}/create", json={"experiment_id": "0"}).json()["run"]["info"]["run_id"]
        http.put("/api/v1/idle-stop", json={"idle_stop_s": 0.2})
        stays = "the server doesn't stop: a run outside of jobs is active"
        eventually(lambda: log.read_text().count(stays) >= 2 or server.process.poll() is not None, within_s=60)
        assert http.post(f"{runs}/update", json={"run_id": run, "status": "FINISHED"}).is_success
        assert server.end()[0] == 0


def next_ask(store: socket.socket) -> float:
    """When the server has come to a store that says nothing to it."""
    store.accept()[0].close()
    return time.monotonic()


def test_address_reachable_by_others_needs_an_option(tmp_path: Path) -> None:
    code, said = Process(tmp_path, "--host", "0.0.0.0").end()
    assert code == 1
    assert "--allow-remote" in said
    code, said = Process(tmp_path, "--host", "example.org").end()
    assert (code, "IP address" in said) == (1, True)
    with serving(tmp_path, "--host", "0.0.0.0", "--allow-remote", "--allow-host", "training.example") as server:
        port = int(server.address()["url"].rpartition(":")[2])
        token = {"Authorization": f"Bearer {(tmp_path / 'token').read_text()}"}
        url = f"http://127.0.0.1:{port}/api/v1/version"
        assert httpx.get(url, headers={**token, "Host": "training.example"}, trust_env=False).status_code == 200
        assert httpx.get(url, headers={**token, "Host": "evil.example"}, trust_env=False).status_code == 403


@pytest.mark.feature("X6")
def test_restarted_server_listens_for_remote_agents_before_they_call(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    (tmp_path / "doors.json").write_text(json.dumps({"127.0.0.2": port, "8.8.8.8": port}))
    with serving(tmp_path) as server, server.client() as http:
        # The address is closed again as soon as it is known that no compute has it: the log tells what came first.
        told = (tmp_path / "server.log").read_text()
        assert f"listening for agents on https://127.0.0.2:{port}" in told.partition("listening on")[0]
        assert "8.8.8.8: this address is public" in (tmp_path / "server.log").read_text()
        assert stat.S_IMODE((tmp_path / "ca.pem").stat().st_mode) == 0o600
        assert http.post("/api/v1/stop").is_success
        assert server.end()[0] == 0


def test_a_damaged_authority_stops_no_job_of_this_machine(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("nonsense")
    (tmp_path / "doors.json").write_text(json.dumps({"127.0.0.2": 1}))
    with serving(tmp_path) as server, server.client() as http:
        assert http.get("/api/v1/status").json()["doors"] == []
        assert "ca.pem: the certificate authority is damaged" in (tmp_path / "server.log").read_text()
    assert (tmp_path / "ca.pem").read_text() == "nonsense"


def test_a_home_that_cannot_be_used_is_refused_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    code, said = Process(tmp_path / "file" / "home").end()
    assert code == 1
    assert len(said.splitlines()) == 1
    assert "DRUMBEAT_HOME" in said


def test_taken_port_is_refused(tmp_path: Path) -> None:
    with serving(tmp_path / "a") as first:
        port = first.address()["url"].rpartition(":")[2]
        code, said = Process(tmp_path / "b", "--port", port).end()
        assert code == 1
        assert port in said

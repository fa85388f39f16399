"""A disk without room, at an upload, a log, a commit: a sentence each, nothing half done, and later on it goes."""

import hashlib
import json
import os
import sqlite3
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from drumbeat.model.agent import Phase
from drumbeat.server.database.database_errors import as_storage_error

from .api_house import House, house_in

pytestmark = [
    pytest.mark.feature("F10"),
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to mount a small disk"),
]


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", disk], check=True)
    try:
        with house_in(disk) as there:
            yield there
    finally:
        subprocess.run(["umount", "-l", disk], check=True)


@pytest.fixture
def ballast(house: House) -> Path:
    """A file that takes all the room there is."""
    place = house.home / "ballast"
    with place.open("wb", buffering=0) as file:
        try:
            while file.write(bytes(1 << 16)):
                pass
        except OSError:
            return place
    raise AssertionError("it never became full")


def files_in(folder: Path) -> list[str]:
    return sorted(one.name for one in folder.rglob("*") if one.is_file())


def test_a_snapshot_is_refused_and_taken_later(house: House, ballast: Path) -> None:
    data = os.urandom(1 << 20)
    address = f"/api/v1/snapshots/{hashlib.sha256(data).hexdigest()}"
    answer = house.http.put(address, content=data)
    assert (answer.status_code, answer.json()["code"]) == (507, "storage")
    assert "reserved for the database" in answer.json()["what"]
    assert answer.json()["fix"] == "Make room on it; the rest is sent again."
    assert files_in(house.home / "snapshots") == []
    ballast.unlink()
    assert house.http.put(address, content=data).status_code == 201


def test_artifact_too_large_for_the_disk_leaves_the_databases_reserve(house: House) -> None:
    address = "/mlflow/api/2.0/mlflow-artifacts/artifacts/models/large"
    answer = house.http.put(address, content=(os.urandom(1 << 20) for _ in range(16)))
    assert answer.status_code == 507
    assert "reserved for the database" in answer.json()["message"]
    assert files_in(house.home / "mlflow-artifacts") == []
    assert house.http.put(address, content=b"small").status_code == 200


def test_waiting_log_is_shown_as_a_notice(house: House, ballast: Path) -> None:
    job = house.submit("waits")
    agent = house.agent(job)
    path = f"{agent.path}/logs/1.1/0/0.log"

    def put(data: bytes) -> tuple[int, dict[str, object]]:
        answer = house.http.put(path, params={"offset": 0}, content=data, headers=agent.headers)
        return answer.status_code, answer.json()

    assert put(b"") == (200, {"size": 0})
    status, told = put(b"line\n")
    assert (status, told["code"]) == (507, "storage")
    with house.http.stream("GET", f"/api/v1/jobs/{job}/events") as stream:
        states = (json.loads(line[6:]) for line in stream.iter_lines() if line.startswith('data: {"name"'))
        assert next(states)["notice"].startswith("its logs wait on their nodes: ")
        ballast.unlink()
        assert put(b"line\n") == (200, {"size": 5})
        next(one for one in states if not one["notice"])
    assert house.http.get(f"/api/v1/jobs/{job}").json()["notice"] == ""


def test_outputs_are_refused_and_committed_later_as_a_whole(house: House, ballast: Path) -> None:
    job = house.submit("commits")
    agent = house.agent(job)
    agent.say(Phase.ENROLLED)
    data = os.urandom(100_000)
    put = f"{agent.path}/outputs/default/model"
    body = {"files": {"default/model": {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}}}
    refused = house.http.put(put, params={"offset": 0}, content=data, headers=agent.headers)
    assert (refused.status_code, refused.json()["code"]) == (507, "storage")
    room = ballast.stat().st_size
    os.truncate(ballast, room - (1 << 20))
    assert house.http.put(put, params={"offset": 0}, content=data, headers=agent.headers).json() == {"size": len(data)}
    with ballast.open("ab", buffering=0) as file:
        try:
            while file.write(bytes(1 << 12)):
                pass
        except OSError:
            pass
    refused = house.http.post(f"{agent.path}/outputs/commit", json=body, headers=agent.headers)
    assert (refused.status_code, refused.json()["what"]) == (507, "the disk is full")
    shown = lambda: [one["path"] for one in house.http.get(f"/api/v1/jobs/{job}/files").json()]  # noqa: E731
    assert "outputs/default/model" not in shown()
    ballast.unlink()
    assert house.http.post(f"{agent.path}/outputs/commit", json=body, headers=agent.headers).json() == {"missing": []}
    assert "outputs/default/model" in shown()


def test_unstorable_state_is_shown_as_a_notice(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """The database refuses as it does once its files can't grow: on a full disk it overwrites its log for long."""
    job = house.submit("runs")

    def full(*_: object) -> None:
        error = sqlite3.OperationalError("database or disk is full")
        error.sqlite_errorname = "SQLITE_FULL"
        raise as_storage_error(error, "drumbeat.db")

    def notices() -> Iterator[str]:
        with house.http.stream("GET", f"/api/v1/jobs/{job}/events") as stream:
            yield from (json.loads(line[6:])["notice"] for line in stream.iter_lines() if '"notice"' in line)

    heard = notices()
    assert next(heard) == ""
    with monkeypatch.context() as patch:
        patch.setattr(house.control.store, "renew_lease", full)
        told = next(filter(None, heard))
        assert told.startswith("its state can't be stored: drumbeat.db: database: the disk is full")
        assert "\ndrumbeat_store_takes_changes 0.0\n" in house.http.get("/metrics").text
        # The page that says so stays reachable behind a load balancer.
        assert house.http.get("/readyz").status_code == 200
    assert "" in heard
    assert "\ndrumbeat_store_takes_changes 1.0\n" in house.http.get("/metrics").text

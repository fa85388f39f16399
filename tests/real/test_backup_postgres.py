"""Backups of a home on a real PostgreSQL whose server runs, and homes and databases made of them; kills in between."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from drumbeat.client.backup import restore
from drumbeat.client.postgres_backup import require_empty
from drumbeat.model.errors import ConflictError, RefusedError, StorageError
from tests.contract.postgres import Cluster, a_cluster
from tests.real.guard import guarded
from tests.real.house import House, until

pytestmark = pytest.mark.feature("U4")
JOB = {"command": "echo kept > outputs/a.txt; sleep ${{inputs.s}}", "drumbeat": {"environment": "current"}}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    if shutil.which("pg_dump") is None:
        pytest.skip("needs pg_dump: apt-get install postgresql-client")
    with guarded(tmp_path_factory.mktemp("postgres")), a_cluster() as cluster:
        yield cluster


@pytest.fixture
def postgres_house(cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[House]:
    with cluster.empty_database() as name:
        monkeypatch.setenv("DRUMBEAT_DATABASE", cluster.url(name))
        monkeypatch.setenv("DRUMBEAT_SHARED", str(tmp_path / "shared"))
        house = House(tmp_path / "one")
        try:
            yield house
        finally:
            house.close()


def run(house: House, *words: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    before = dict(house.environment)
    house.environment.update(environment)
    try:
        return house.run(*words)
    finally:
        house.environment.clear()
        house.environment.update(before)


@pytest.mark.thorough
def test_home_on_postgres_is_backed_up_while_it_works_and_restored_into_an_empty_database(
    cluster: Cluster, postgres_house: House, tmp_path: Path
) -> None:
    house = postgres_house
    until(lambda: house.run("server", "start").returncode == 0, what="the start of a server")
    house.client.submit({**JOB, "name": "done", "inputs": {"s": 0}})
    until(lambda: house.client.get("done").state.is_terminal)
    house.client.submit({**JOB, "name": "runs", "inputs": {"s": 600}})
    until(lambda: house.client.get("runs").state == "running")

    submitted: list[str] = []
    stop = threading.Event()

    def go_on() -> None:
        while not stop.is_set():
            submitted.append(house.client.submit({**JOB, "inputs": {"s": 0}}).name)

    writer = threading.Thread(target=go_on)
    writer.start()
    until(lambda: submitted)
    backups = tmp_path / "backups"
    backups.mkdir()
    for _ in range(2):
        made = house.run("server", "backup", backups / f"drumbeat-2026010{_ + 1}-000000.tar")
        assert made.returncode == 0, made.stderr
    stop.set()
    writer.join()
    assert house.run("server", "backup", backups, "--keep", "1").returncode == 0
    (file,) = backups.iterdir()
    assert file.stat().st_mode & 0o777 == 0o600
    assert house.client.status().backup_at is not None

    house.server().send_signal(signal.SIGKILL)
    house.close()
    with cluster.empty_database() as name:
        other = House(tmp_path / "two")
        other.environment.pop("DRUMBEAT_SHARED")
        require_refusals(other, file, cluster.url(name), tmp_path / "elsewhere")
        other.environment["DRUMBEAT_DATABASE"] = cluster.url(name)
        done = other.run("server", "restore", file, "--take-over")
        assert (done.returncode, "unfinished then: " in done.stdout) == (0, True), done.stderr
        try:
            require_restored(other, {"done", "runs", *submitted}, tmp_path / "kept")
        finally:
            other.close()


def require_refusals(house: House, file: Path, url: str, elsewhere: Path) -> None:
    refused = {
        "this backup is of a home on PostgreSQL": run(house, "server", "restore", file, DRUMBEAT_DATABASE=""),
        "can't tell a copy of a database": run(house, "server", "restore", file, DRUMBEAT_DATABASE=url),
        "the database isn't empty": run(house, "server", "restore", file, "--take-over"),
        "are restored into the home": run(
            house, "server", "restore", file, "--take-over", DRUMBEAT_SHARED=str(elsewhere)
        ),
    }
    for sentence, answer in refused.items():
        assert (answer.returncode != 0, sentence in answer.stderr) == (True, True), (sentence, answer.stderr)
    assert not house.home.exists()


def require_restored(house: House, jobs: set[str], folder: Path) -> None:
    until(lambda: house.run("server", "start").returncode == 0, what="the start over the copy")
    assert {one.name for one in house.client.list(limit=1000)} == jobs
    (kept,) = (one for one in house.client.download("done", folder) if one.name == "a.txt")
    assert kept.read_text() == "kept\n"
    # What is new has numbers of its own, after those of the copy.
    assert house.client.submit({**JOB, "name": "new", "inputs": {"s": 0}}).name == "new"
    until(lambda: house.client.get("new").state.is_terminal)
    house.run("cancel", "runs", "--wait")


KILL = """
import sys
from pathlib import Path
from drumbeat.client import backup as b
step, home, file, url, shared = sys.argv[1:]
def stop(*_a, **_k):
    print(flush=True)
    sys.stdin.read()
def after(call):
    def both(*a, **k):
        call(*a, **k)
        stop()
    return both
if step == "dumped": b.dump = after(b.dump)
if step == "files": b._members = stop
if step == "extracted": b.require_empty = stop
if step == "loaded": b.load = after(b.load)
if step in ("dumped", "files"):
    b.back_up(b.BackupSource(Path(home), url, Path(shared)), Path(file))
else:
    b.restore(Path(file), Path(home), takes_over=True, database=url)
"""


def killed(step: str, home: Path, file: Path, url: str, shared: Path) -> None:
    command = [sys.executable, "-c", KILL, step, str(home), str(file), url, str(shared)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout
        process.stdout.readline()
        process.kill()


def test_kill_at_any_step_leaves_no_half_backup_home_or_database(
    cluster: Cluster, postgres_house: House, tmp_path: Path
) -> None:
    house, shared = postgres_house, tmp_path / "shared"
    until(lambda: house.run("server", "start").returncode == 0, what="the start of a server")
    house.client.submit({**JOB, "name": "done", "inputs": {"s": 0}})
    until(lambda: house.client.get("done").state.is_terminal)
    file, own_url = tmp_path / "b.tar", os.environ["DRUMBEAT_DATABASE"]
    for step in ("dumped", "files"):
        killed(step, house.home, file, own_url, shared)
        assert not file.exists()
    assert house.run("server", "backup", file).returncode == 0
    with cluster.empty_database() as name:
        url, home = cluster.url(name), tmp_path / "new" / "home"
        killed("extracted", home, file, url, shared)
        assert not home.exists()
        require_empty(url)
        killed("loaded", home, file, url, shared)
        assert not home.exists()
        with pytest.raises(ConflictError, match=r"If a restore was cut off, make it again: dropdb, createdb"):
            restore(file, home, takes_over=True, database=url)
    with cluster.empty_database() as name:
        content = file.read_bytes()
        (tmp_path / "torn.tar").write_bytes(content[: len(content) // 2])
        with pytest.raises(RefusedError, match="this isn't a whole backup"):
            restore(tmp_path / "torn.tar", home, takes_over=True, database=cluster.url(name))
        require_empty(cluster.url(name))
        restore(file, home, takes_over=True, database=cluster.url(name))
        assert (home / "token").exists()
        assert (home / "key").read_bytes() == (shared / "key").read_bytes()


def test_database_that_is_away_is_named_without_its_password(tmp_path: Path) -> None:
    with pytest.raises(StorageError) as refused:
        require_empty("postgresql+psycopg://ada:s3cret@127.0.0.1:1/none?connect_timeout=5")
    assert "psql failed" in str(refused.value)
    assert "postgresql+psycopg://ada@127.0.0.1:1/none" in str(refused.value)
    assert "s3cret" not in str(refused.value)
    with pytest.raises(RefusedError, match="isn't the URL of a PostgreSQL database"):
        require_empty("sqlite:///x")
    assert not list(tmp_path.iterdir())

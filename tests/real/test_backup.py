"""A backup of a home whose server runs, and homes made of it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from drumbeat.client.backup import BackupSource, back_up, prune_backups, restore
from drumbeat.model.errors import ConflictError, RefusedError
from tests.real.house import DRUMBEAT, House, line_of, until

pytestmark = pytest.mark.feature("U4")
JOB = {"command": "echo kept > outputs/a.txt; sleep ${{inputs.s}}", "drumbeat": {"environment": "current"}}


def test_home_of_a_running_server_is_backed_up_and_restored_in_its_place(house: House, tmp_path: Path) -> None:
    house.client.submit({**JOB, "name": "done", "inputs": {"s": 0}})
    until(lambda: house.client.get("done").state.is_terminal)
    house.client.submit({**JOB, "name": "runs", "inputs": {"s": 600}})
    until(lambda: house.client.get("runs").state == "running")
    backups = tmp_path / "backups"
    backups.mkdir()
    said = house.run("server", "backup", backups, "--keep", "1")
    assert said.returncode == 0, said.stderr
    (file,) = backups.iterdir()
    assert file.stat().st_mode & 0o777 == 0o600
    assert house.client.get("runs").state == "running"
    assert "backed up" in house.run("server", "status").stdout

    beside = {**house.environment, "DRUMBEAT_HOME": str(tmp_path / "beside")}
    run = lambda *words: subprocess.run([DRUMBEAT, *words], env=beside, capture_output=True, text=True, check=False)  # noqa: E731
    told = run("server", "restore", str(file))
    assert "unfinished then: runs" in told.stdout, told.stderr
    refused = run("server", "start")
    assert refused.returncode != 0
    assert "this home is a copy of" in refused.stderr
    assert "the home isn't empty" in run("server", "restore", str(file)).stderr

    house.client.submit({**JOB, "name": "unknown", "inputs": {"s": 0}})
    house.server().send_signal(signal.SIGKILL)
    house.close()
    shutil.rmtree(house.home)
    assert "unfinished then: runs" in house.run("server", "restore", file, "--take-over").stdout
    assert house.run("server", "start").returncode == 0
    (kept,) = (one for one in house.client.download("done", tmp_path / "kept") if one.name == "a.txt")
    assert kept.read_text() == "kept\n"
    assert sorted(one.name for one in house.client.list()) == ["done", "runs"]
    assert house.run("cancel", "runs", "--wait").returncode in (0, 1)


@pytest.mark.thorough
def test_old_server_that_comes_back_after_a_restore_is_fenced_by_the_agents_of_the_new_one(
    own_house: House, tmp_path: Path
) -> None:
    """The databases of the old and the new server are exchanged in one home, where the agent of this machine calls."""
    house = own_house
    job = {**JOB, "name": "outlives", "inputs": {"s": 600}}
    house.client.submit(job)
    until(lambda: house.client.get("outlives").state == "running")
    assert house.run("server", "backup", tmp_path / "b.tar").returncode == 0
    house.client.submit({**job, "name": "later"})
    until(lambda: house.client.get("later").state == "running")
    assert house.run("server", "stop", "--force").returncode == 0
    restore(tmp_path / "b.tar", tmp_path / "new", takes_over=True)
    old = tmp_path / "old"
    old.mkdir()
    for name in ("drumbeat.db", "drumbeat.db-wal", "drumbeat.db-shm", "place.json"):
        if (house.home / name).exists():
            shutil.move(house.home / name, old / name)
    for name in ("drumbeat.db", "era"):
        shutil.copy(tmp_path / "new" / name, house.home / name)
    assert house.run("server", "start").returncode == 0
    (era,) = until_found(house.home, "nodes/**/era")
    assert era.read_text().startswith((tmp_path / "new" / "era").read_text().strip() + ".")
    assert house.client.get("outlives").state == "running"
    until(lambda: house.client.status().unknown_jobs == ("later",))
    assert "lost         later: submitted after the backup" in house.run("server", "status").stdout

    assert house.run("server", "stop", "--force").returncode == 0
    (house.home / "era").unlink()
    for name in ("drumbeat.db", "drumbeat.db-wal", "drumbeat.db-shm"):
        (house.home / name).unlink(missing_ok=True)
    for one in old.iterdir():
        shutil.move(one, house.home / one.name)
    house.run("server", "start")
    until((house.home / "replaced.json").exists, what="the fence")
    until(lambda: not (house.home / "server.json").exists(), what="the end of the old server")
    refused = house.run("server", "start")
    assert (refused.returncode != 0, "a server has replaced this one" in refused.stderr) == (True, True), refused.stderr
    assert any("sleep 600" in line_of(one) for one in house.processes())  # The job itself goes on.
    (house.home / "replaced.json").unlink()
    shutil.copy(tmp_path / "new" / "era", house.home / "era")
    assert house.run("cancel", "outlives", "--wait").returncode in (0, 1)


def until_found(folder: Path, pattern: str) -> list[Path]:
    found: list[Path] = []
    until(lambda: found.extend(folder.glob(pattern)) or found, what=pattern)
    return found


def a_home(folder: Path) -> Path:
    import sqlite3

    (folder / "jobs/a/outputs").mkdir(parents=True)
    (folder / "jobs/a/outputs/x").write_bytes(os.urandom(3_000_000))
    (folder / "token").write_text("secret")
    (folder / "server.json").write_text("{}")
    with sqlite3.connect(folder / "drumbeat.db") as connection:
        connection.execute("CREATE TABLE jobs (number INTEGER, name TEXT, state TEXT)")
        connection.executemany("INSERT INTO jobs VALUES (?, ?, ?)", [(1, "a", "completed"), (2, "b", "running")])
    connection.close()
    return folder


def test_damaged_or_cut_off_backup_makes_no_home(tmp_path: Path) -> None:
    home, file = a_home(tmp_path / "home"), tmp_path / "b.tar"
    assert back_up(BackupSource(home), file).unfinished == ("b",)
    with tarfile.open(file) as tar:
        assert sorted(tar.getnames()) == ["drumbeat.db", "jobs/a/outputs/x", "manifest.json", "token"]
    content = file.read_bytes()
    at = len(content) // 2
    wrong = {
        "cut": content[:at], "empty": b"", "without-end": content[: content.rindex(b"manifest.json")],
        "flipped": content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :],
    }  # fmt: skip
    for name, damaged in wrong.items():
        (tmp_path / name).write_bytes(damaged)
        with pytest.raises(RefusedError, match="this isn't a whole backup"):
            restore(tmp_path / name, tmp_path / "new", takes_over=True)
        assert not (tmp_path / "new").exists(), name
    assert restore(file, tmp_path / "new", takes_over=True).files == 3
    assert (tmp_path / "new/jobs/a/outputs/x").read_bytes() == (home / "jobs/a/outputs/x").read_bytes()
    with pytest.raises(ConflictError, match="there is such a file"):
        back_up(BackupSource(home), file)
    with pytest.raises(ConflictError, match="the home isn't empty"):
        restore(file, tmp_path / "new", takes_over=True)


def test_backup_that_is_killed_leaves_no_file_of_its_name_and_the_next_one_works(tmp_path: Path) -> None:
    home, file = a_home(tmp_path / "home"), tmp_path / "b.tar"
    os.mkfifo(tmp_path / "slow")
    code = "import sys; from pathlib import Path; from drumbeat.client import backup as b; a = b._add\n"
    code += "def stop(tar, path, name, digests):\n    if name == sys.argv[3]: print(flush=True); sys.stdin.read()\n"
    code += "    return a(tar, path, name, digests)\n"
    code += "b._add = stop; b.back_up(b.BackupSource(Path(sys.argv[1])), Path(sys.argv[2]))"
    for step in ("drumbeat.db", "jobs/a/outputs/x", "token"):
        command = [sys.executable, "-c", code, str(home), str(file), step]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            assert process.stdout
            process.stdout.readline()
            process.kill()
        assert not file.exists()
    assert back_up(BackupSource(home), file).files == 3


def test_only_the_newest_backups_of_a_folder_are_kept(tmp_path: Path) -> None:
    for day in range(1, 5):
        (tmp_path / f"drumbeat-2026010{day}-000000.tar").touch()
    (tmp_path / "other.tar").touch()
    assert [one.name for one in prune_backups(tmp_path, 3)] == ["drumbeat-20260101-000000.tar"]
    assert len(list(tmp_path.iterdir())) == 4

"""What the folder of artifacts promises beyond the contract: crashes at every point, and what a disk can refuse."""

import fcntl
import hashlib
import os
import resource
import signal
import stat
from contextlib import contextmanager
from pathlib import Path

import pytest

from drumbeat.model.errors import ForbiddenError, StorageError
from drumbeat.model.logs import LogName
from drumbeat.server.home_folder import FolderArtifacts, atomic_files
from drumbeat.server.home_folder.journal import RECORD_SIZE
from drumbeat.server.home_folder.logs import JOURNAL, LONGEST_PIECE
from tests.support.artifacts_access import LOG, contents, described, give, sha, text


@pytest.fixture
def root(tmp_path):
    return tmp_path / "files"


@pytest.fixture
def files(root):
    return FolderArtifacts(root)


@pytest.fixture
def job(root):
    return root / "jobs" / "a"


@contextmanager
def largest_file(size):
    """Writes beyond `size` fail as they do on a full disk: in the middle."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


# --- logs ---
def test_logs_that_nobody_will_send_again_are_on_the_disk(files, root, job, monkeypatch):
    for log in (LOG, LogName(1, 1, 0, 1).path, LogName(1, 1, 1, 2).path, LogName(1, 2, 0, 0).path):
        files.append_log("a", log, 0, b"x")
    synced, sync = set(), os.fsync
    monkeypatch.setattr(os, "fsync", lambda file: synced.add(Path(f"/proc/self/fd/{file}").readlink()) or sync(file))
    files.settle_logs("a", 1, 1, 0)
    logs = job / "logs"
    wanted = [logs / "1.1/0/0.log", logs / "1.1/0/1.log", job / ".journal", logs / "1.1/0", logs / "1.1", logs, job]
    assert synced == set(wanted)


def test_data_without_its_record_gets_it_with_the_next_append(files, root, job):
    files.append_log("a", LOG, 0, b"one ")
    with (job / LOG).open("ab") as log:
        log.write(b"two ")
    again = FolderArtifacts(root)
    assert again.append_log("a", LOG, 4, b"two ") == 8
    assert [chunk.data for chunk in again.log_chunks("a")] == [b"one ", b"two "]


def test_the_names_in_a_folder_are_synced_through_a_link_to_it(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "folder")
    atomic_files.sync_folder(tmp_path / "link")


@pytest.mark.timeout(20)
def test_what_a_person_has_put_beside_logs_holds_up_nobody(files, job, tmp_path):
    files.append_log("a", LOG, 0, b"x")
    node = (job / LOG).parent
    os.mkfifo(node / "1.log")
    os.mkfifo(node / "pipe")
    (node / "2.log").symlink_to(tmp_path)
    (node / "0.log.gz").touch()
    (job / ".journal").unlink()
    files.settle_logs("a", 1, 1, 0)


def test_a_follower_that_stops_anywhere_in_a_long_append_has_whole_lines(files):
    lines = b"".join(b"%07d %s\n" % (n, b"x" * (n % 300)) for n in range(5000))
    endless = b"y" * (LONGEST_PIECE + 10)
    files.append_log("a", LOG, 0, lines + endless)
    pieces = [chunk.data for chunk in files.log_chunks("a", limit=1 << 30)]
    assert b"".join(pieces) == lines + endless
    assert max(map(len, pieces)) <= LONGEST_PIECE
    assert [piece[-1:] for piece in pieces] == [b"\n"] * (len(pieces) - 2) + [b"y", b"y"]


@pytest.mark.parametrize("torn", range(1, RECORD_SIZE, 13))
def test_a_torn_record_is_cut_off(files, root, job, torn):
    for n in range(3):
        files.append_log("a", LOG, n, b"%d" % n)
    os.truncate(job / ".journal", 3 * RECORD_SIZE - torn)
    assert text(files.log_chunks("a")) == {(1, 1, 0, 0): b"01"}
    again = FolderArtifacts(root)
    again.append_log("a", LogName(1, 1, 0, 1).path, 0, b"other")
    again.append_log("a", LOG, 3, b"3")
    assert text(again.log_chunks("a")) == {(1, 1, 0, 0): b"0123", (1, 1, 0, 1): b"other"}


def test_data_that_a_power_failure_took_from_its_record_is_sent_again(files, root, job):
    for n in range(3):
        files.append_log("a", LOG, n, b"%d" % n)
    os.truncate(job / LOG, 1)
    again = FolderArtifacts(root)
    before = again.log_chunks("a")
    assert text(before) == {(1, 1, 0, 0): b"0"}
    assert again.append_log("a", LOG, 3, b"3") == 1
    assert again.append_log("a", LOG, 1, b"123") == 4
    assert text(again.log_chunks("a")) == {(1, 1, 0, 0): b"0123"}
    # Nor is anything lost or doubled for who has read on before it was sent again.
    assert [chunk.data for chunk in again.log_chunks("a", after=before[-1].position)] == [b"123"]


@pytest.mark.feature("M1")
@pytest.mark.parametrize("left", [0, 2])
def test_data_that_nobody_sends_again_hides_no_other_log(files, root, job, left):
    files.append_log("a", LOG, 0, b"lost")
    os.truncate(job / LOG, left)
    again, other = FolderArtifacts(root), LogName(2, 1, 0, 0).path
    again.append_log("a", other, 0, b"the next attempt")
    assert [chunk.data for chunk in again.log_chunks("a")] == [b"lost"[:left], b"the next attempt"][not left :]
    (job / LOG).unlink()
    assert text(again.log_chunks("a")) == {(2, 1, 0, 0): b"the next attempt"}


def test_a_server_that_was_stopped_in_the_middle_of_a_log_holds_up_no_other_job(files, root, job, monkeypatch):
    monkeypatch.setattr(atomic_files, "LOCK_S", 0.05)
    files.append_log("a", LOG, 0, b"one")
    with (job / ".journal").open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(StorageError, match="another server has locked a file"):
            files.append_log("a", LOG, 3, b"two")
        assert files.append_log("b", LOG, 0, b"its own") == 7
        assert text(files.log_chunks("a")) == {(1, 1, 0, 0): b"one"}
    assert files.append_log("a", LOG, 3, b"two") == 6


@pytest.mark.feature("F10")
@pytest.mark.parametrize("room", [0, 3, RECORD_SIZE - 1, RECORD_SIZE, 60])
def test_a_log_goes_on_after_a_full_disk(files, room):
    sent = b"0123456789" * 20

    def send():
        size = 0
        while size < len(sent):
            size = files.append_log("a", LOG, size, sent[size : size + 10])

    with largest_file(room), pytest.raises(StorageError, match="too big"):
        send()
    assert files.append_log("a", LOG, 0, sent) == len(sent)
    assert text(files.log_chunks("a")) == {(1, 1, 0, 0): sent}


# --- outputs ---
@pytest.mark.parametrize("moved", ["none", "left", "both"])
def test_showing_is_finished_after_a_crash(files, root, job, moved):
    give(files, 1, 0, {"old": b"1", "left": b"1"})
    kept = {"left": b"22", "right": b"22"}
    for path, data in kept.items():
        files.append_output("a", 2, 0, path, 0, data)
    # As it is when the server dies just after the new list was written.
    listed = ", ".join(f'"{path}": {{"size": 2, "sha256": "{sha(data)}"}}' for path, data in kept.items())
    (job / ".outputs.json").write_text(f'{{"attempt": 2, "given": {{"0": {{{listed}}}}}, "moving": 0}}')
    for path in {"none": [], "left": ["left"], "both": ["left", "right"]}[moved]:
        (job / ".parts/2/0" / path).replace(job / "outputs" / path)
    expected = {f"outputs/{path}": data for path, data in kept.items()}
    assert contents(FolderArtifacts(root), "a") == expected
    assert sorted(each.name for each in (job / "outputs").iterdir()) == ["left", "right"]
    assert FolderArtifacts(root).commit_outputs("a", 2, 0, described(kept)) == []
    again = FolderArtifacts(root)
    assert contents(again, "a") == expected
    assert again.append_output("a", 2, 0, "left", 0, b"new") == 3


def test_nothing_is_kept_of_files_that_lost_or_are_of_old_attempts(files, job):
    files.append_output("a", 1, 1, "m", 0, b"never shown")
    give(files, 2, 0, {"m": b"0"})
    give(files, 2, 1, {"m": b"1"})
    assert [each for each in (job / ".parts").rglob("*") if each.is_file()] == []


@pytest.mark.feature("F10")
def test_nothing_is_shown_when_the_disk_is_full(files):
    give(files, 1, 0, {"m": b"1"})
    files.append_output("a", 1, 0, "n", 0, b"2")
    with largest_file(0), pytest.raises(StorageError):
        files.commit_outputs("a", 1, 0, described({"m": b"1", "n": b"2"}))
    assert contents(files, "a") == {"outputs/m": b"1"}
    assert files.commit_outputs("a", 1, 0, described({"m": b"1", "n": b"2"})) == []
    assert contents(files, "a") == {"outputs/m": b"1", "outputs/n": b"2"}


@pytest.mark.feature("F10")
def test_small_files_and_snapshots_are_whole_or_not_there(files, root):
    files.write_text("a", "plan.json", "before")
    with largest_file(100):
        with pytest.raises(StorageError):
            files.write_text("a", "plan.json", "x" * 101)
        with pytest.raises(StorageError):
            files.add_snapshot(sha(b"x" * 101), [b"x" * 101])
    assert contents(files, "a") == {"plan.json": b"before"}
    assert not files.has_snapshot(sha(b"x" * 101))
    assert [each.name for each in root.rglob("*") if "new" in each.name] == [".new"]
    assert list((root / "snapshots" / ".new").iterdir()) == []


def test_what_a_killed_server_had_half_received_is_forgotten_after_a_day(files, root):
    for name, age_s in (("old", 100_000), ("young", 0)):
        half = root / "snapshots" / ".new" / name
        half.write_bytes(b"half")
        os.utime(half, (half.stat().st_mtime - age_s,) * 2)
    FolderArtifacts(root)
    assert [each.name for each in (root / "snapshots" / ".new").iterdir()] == ["young"]


# --- walls ---
@pytest.mark.feature("X5")
def test_links_inside_lead_nowhere(files, root, job, tmp_path):
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "plan.json").write_text("secret")
    files.write_text("a", "story.jsonl", "")
    (job / "link").symlink_to(secret)
    (job / "plan.json").symlink_to(secret / "plan.json")
    (root / "jobs" / "b").symlink_to(secret)
    (job / "logs" / "1.1").mkdir(parents=True)
    (job / "logs" / "1.1" / "0").symlink_to(secret)
    (job / ".parts" / "1").mkdir(parents=True)
    (job / ".parts" / "1" / "0").symlink_to(secret)
    for use in (
        lambda: files.open_file("a", "link/plan.json"),
        lambda: files.open_file("a", "plan.json"),
        lambda: files.open_file("b", "plan.json"),
        lambda: files.files("b"),
        lambda: files.append_log("a", LOG, 0, b"x"),
        lambda: files.settle_logs("a", 1, 1, 0),
        lambda: files.append_output("a", 1, 0, "m", 0, b"x"),
        lambda: files.commit_outputs("a", 1, 0, {"plan.json": (6, hashlib.sha256(b"secret").hexdigest())}),
        lambda: files.write_text("a", "link/new", "x"),
    ):
        with pytest.raises(ForbiddenError):
            use()
    assert contents(files, "a") == {"story.jsonl": b""}
    assert [each.name for each in secret.iterdir()] == ["plan.json"]


@pytest.mark.feature("X8")
def test_nobody_else_may_read_the_files(files, root):
    give(files, 1, 0, {"default/m": b"1"})
    files.append_log("a", LOG, 0, b"x")
    files.write_text("a", "plan.json", "{}")
    files.add_snapshot(sha(b"x"), [b"x"])
    assert stat.S_IMODE(root.stat().st_mode) == 0o700
    modes = {each.name: stat.S_IMODE(each.stat().st_mode) for each in root.rglob("*") if each.is_file()}
    assert set(modes.values()) == {0o600}
    assert {"m", "0.log", ".journal", ".outputs.json", ".outputs.lock", "plan.json", f"{sha(b'x')}.tar"} == set(modes)


@pytest.mark.feature("X5")
def test_what_is_ours_cannot_be_written_as_text(files):
    for path in (".journal", ".outputs.json", ".parts/1/0/m", "outputs/m", "logs/1.1/0/0.log", "user_logs/x"):
        with pytest.raises(ForbiddenError):
            files.write_text("a", path, "x")


def test_new_journal_with_the_inode_of_a_deleted_jobs_is_not_taken_for_it(files, job):
    for whole in (b"one\n", b"one\ntwo\n"):
        files.append_log("a", LOG, 0, whole)
    os.truncate(job / JOURNAL, 0)  # Another server has deleted the job, and has one of its name.
    (job / LOG).unlink()
    files.append_log("a", LOG, 0, b"new\n")
    assert [chunk.data for chunk in files.log_chunks("a")] == [b"new\n"]

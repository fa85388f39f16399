"""A folder of checkpoints: whole or not at all, verified, few enough, and closed to attempts that are over."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from drumbeat.model.errors import RefusedError
from drumbeat.train.checkpoint_folder import MANIFEST, CheckpointFolder, CheckpointManifest, Digest, Generation

pytestmark = pytest.mark.feature("T5")

FILES = {"a.bin": b"first" * 7, "b.bin": b"second" * 5}


def save(folder: CheckpointFolder, step: int, files: dict[str, bytes] = FILES) -> Path:
    partial = folder.begin(step)
    for name, content in files.items():
        (partial / name).write_bytes(content)
    return folder.publish(
        CheckpointManifest(step, 1, folder.generation, {name: Digest.from_file(partial / name) for name in files})
    )


def a_folder(root: Path, keep: int = 3, attempt: int = 1, round_: int = 0, job: str = "j") -> CheckpointFolder:
    folder = CheckpointFolder(root, keep, Generation(attempt, round_, job))
    folder.claim()
    return folder


def test_the_newest_are_kept_in_order_of_their_steps(tmp_path: Path):
    folder = a_folder(tmp_path, keep=2)
    for step in (5, 10, 20, 1_000_000_000_000):
        save(folder, step)
    assert folder.steps() == [1_000_000_000_000, 20]
    assert folder.broken_files(20) == []
    assert not list(tmp_path.glob(".partial*"))


def test_later_steps_of_another_training_stay_and_do_not_count(tmp_path: Path):
    folder = a_folder(tmp_path, keep=2)
    for step in (100, 110, 5, 10, 15):
        save(folder, step)
    assert folder.steps() == [110, 100, 15, 10]
    save(a_folder(tmp_path, keep=1), 17)
    assert folder.steps() == [110, 100, 17]


@pytest.mark.parametrize("name", [*FILES, MANIFEST])
def test_a_file_cut_at_any_byte_is_noticed(tmp_path: Path, name: str):
    folder = a_folder(tmp_path)
    path = save(folder, 7) / name
    whole = path.read_bytes()
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        assert folder.broken_files(7), f"{name} cut after {size} bytes"
    path.write_bytes(whole)
    assert folder.broken_files(7) == []


@pytest.mark.parametrize("name", FILES)
def test_a_changed_byte_and_a_missing_file_are_noticed(tmp_path: Path, name: str):
    folder = a_folder(tmp_path)
    path = save(folder, 7) / name
    content = bytearray(path.read_bytes())
    for at in range(len(content)):
        changed = bytes([*content[:at], content[at] ^ 1, *content[at + 1 :]])
        path.write_bytes(changed)
        assert folder.broken_files(7) == [f"{name}: its content has changed"]
    path.unlink()
    assert folder.broken_files(7) == [f"{name}: No such file or directory"]


def test_job_of_a_deleted_name_may_use_a_folder_that_a_later_attempt_had(tmp_path: Path):
    save(a_folder(tmp_path, attempt=2), 5)
    variables = {"DRUMBEAT_JOB": "j", "DRUMBEAT_UNIQUE_JOB": "j~3", "DRUMBEAT_ATTEMPT": "1", "DRUMBEAT_ROUND": "1"}
    new = CheckpointFolder(tmp_path, 3, Generation.from_environment(variables))
    new.claim()
    save(new, 1)
    assert new.steps() == [5, 1]


def test_ranks_divide_the_files_among_them(tmp_path: Path):
    folder = a_folder(tmp_path)
    (save(folder, 7) / "b.bin").write_bytes(b"")
    shares = [folder.broken_files(7, slice(rank, None, 2)) for rank in range(2)]
    assert shares == [[], ["b.bin: 0 bytes instead of 30"]]


def test_an_earlier_attempt_can_neither_publish_nor_claim(tmp_path: Path):
    stale = a_folder(tmp_path, attempt=1, round_=4)
    save(stale, 5)
    partial = stale.begin(10)
    (partial / "a.bin").write_bytes(b"")
    later = a_folder(tmp_path, attempt=2)
    for act in (lambda: stale.publish(CheckpointManifest(10, 1, stale.generation, {})), stale.claim):
        with pytest.raises((RefusedError, FileNotFoundError)):
            act()
    with pytest.raises(
        RefusedError, match="attempt 1, round 4 of job j may not save checkpoints here: attempt 2, round 0 of job j"
    ):
        save(stale, 10)
    save(later, 6)
    assert later.steps() == [6, 5]


def test_a_later_round_replaces_the_same_step(tmp_path: Path):
    save(a_folder(tmp_path, keep=1), 5)
    folder = a_folder(tmp_path, keep=1, round_=1)
    save(folder, 5, {"c.bin": b"new"})
    assert sorted(path.name for path in folder.path(5).iterdir()) == ["c.bin", MANIFEST]


def test_other_job_takes_over_the_folder_and_the_first_is_refused(tmp_path: Path):
    first = a_folder(tmp_path, attempt=3, job="first")
    save(first, 5)
    second = a_folder(tmp_path, job="second")
    assert second.steps() == [5]
    save(second, 6)
    with pytest.raises(RefusedError, match="attempt 1, round 0 of job second has started since") as caught:
        save(first, 7)
    assert "its own `folder=`" in caught.value.fix


def test_a_broken_step_is_put_aside_and_pushes_no_good_one_out(tmp_path: Path):
    folder = a_folder(tmp_path, keep=1)
    save(folder, 9)
    assert folder.put_aside(9) == tmp_path / ".broken-step-000000000009"
    save(folder, 5)
    assert folder.steps() == [5]
    a_folder(tmp_path, attempt=2)
    assert (tmp_path / ".broken-step-000000000009" / "a.bin").read_bytes() == FILES["a.bin"]


def test_unreadable_checkpoint_is_refused_and_not_broken(tmp_path: Path):
    folder = a_folder(tmp_path)
    path = save(folder, 9) / "a.bin"
    path.unlink()
    path.mkdir()  # Reading it fails, for root too.
    with pytest.raises(RefusedError, match="can't be read: Is a directory"):
        folder.broken_files(9)


def test_the_format_of_a_later_version_is_refused(tmp_path: Path):
    folder = a_folder(tmp_path)
    manifest = save(folder, 9) / MANIFEST
    manifest.write_text(manifest.read_text().replace('"format": 1', '"format": 2'))
    with pytest.raises(RefusedError, match="has format 2, and this version of drumbeat reads format 1"):
        folder.broken_files(9)


def test_a_crash_while_a_step_is_replaced_brings_the_old_one_back(tmp_path: Path):
    folder = a_folder(tmp_path, keep=1)
    save(folder, 5).rename(tmp_path / ".replaced-step-000000000005")
    folder.claim()
    assert (folder.steps(), folder.broken_files(5)) == ([5], [])


def test_partial_files_of_a_crash_are_removed_at_the_next_start(tmp_path: Path):
    folder = a_folder(tmp_path)
    (folder.begin(5) / "a.bin").write_bytes(b"half")
    save(folder, 4).rename(tmp_path / ".partial-removed-step-000000000004")
    folder.claim()
    assert folder.steps() == []
    assert sorted(path.name for path in tmp_path.iterdir()) == [".generation.json", ".lock"]


ENDLESS = f"""
import itertools, sys
from pathlib import Path
sys.path.insert(0, {str(Path(__file__).parents[3])!r})
from tests.unit.train.test_checkpoint_folder import a_folder, save
folder = a_folder(Path(sys.argv[1]), keep=2)
for step in itertools.count((folder.steps() or [0])[0] + 1):
    save(folder, step)
    print(step, flush=True)
"""


def test_killed_at_any_moment_the_last_good_one_stays(tmp_path: Path):
    """The child publishes as fast as it can; whatever it was doing when it was killed, what it has said is there."""
    delays, last = random.Random(7), 0
    for _ in range(12):
        child = subprocess.Popen([sys.executable, "-c", ENDLESS, tmp_path], stdout=subprocess.PIPE, text=True)
        assert child.stdout is not None
        for _ in range(delays.randrange(1, 30)):
            last = int(child.stdout.readline())
        child.send_signal(signal.SIGKILL)
        last = max([last, *(int(line) for line in child.communicate()[0].split())])
        folder = a_folder(tmp_path, keep=2)
        newest = folder.steps()[0]
        assert newest in {last, last + 1}
        assert folder.broken_files(newest) == []

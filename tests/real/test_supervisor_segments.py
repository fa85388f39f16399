"""What ranks leave in /dev/shm: theirs goes when they are ended by force, everybody else's stays."""

from __future__ import annotations

import mmap
import os
import shutil
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from drumbeat.node.supervisor import confinement

from .house import until
from .test_supervisor_holds import Kept, finish

pytestmark = pytest.mark.feature("F6")

SHARES = """
import mmap, os, sys, time
name, go = sys.argv[1:]
file = os.open(name, os.O_RDWR | os.O_CREAT, 0o600)
os.ftruncate(file, 4096)
shared = mmap.mmap(file, 4096)
print("up", flush=True)
while not os.path.exists(go):
    time.sleep(0.02)
"""


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[Kept]:
    (tmp_path / "shares.py").write_text(SHARES)
    supervisor = Kept(tmp_path / "keeper")
    yield supervisor
    finish(supervisor, tmp_path)


@pytest.fixture
def segment(tmp_path: Path) -> Iterator[Path]:
    path = Path(f"/dev/shm/drumbeat-test-{os.getpid()}-{tmp_path.name}")
    yield path
    path.unlink(missing_ok=True)


def shares(kept: Kept, segment: Path) -> str:
    """Until there is a file `go`."""
    return f"exec {sys.executable} -S {kept.folder.parent}/shares.py {segment} {kept.folder}/go"


def up(kept: Kept, segment: Path, ranks: int = 1) -> None:
    kept.start(*[shares(kept, segment)] * ranks)
    for rank in range(ranks):
        kept.wait_for_log("up", rank)


def is_noted(kept: Kept, segment: Path) -> bool:
    note = kept.folder / "segments.json"
    return note.exists() and str(segment) in note.read_text()


def test_a_segment_of_ranks_that_were_stopped_is_gone_with_them(kept: Kept, segment: Path):
    up(kept, segment, ranks=2)
    assert segment.exists()
    kept.stop(0)
    kept.over()
    assert not segment.exists()
    assert not (kept.folder / "segments.json").exists()


def test_a_segment_of_ranks_that_all_died_at_once_is_gone_with_them(kept: Kept, segment: Path):
    up(kept, segment, ranks=2)
    until(lambda: is_noted(kept, segment))
    for pid in Path(f"/proc/{kept.process.pid}/task/{kept.process.pid}/children").read_text().split():
        if b"shares.py" in Path(f"/proc/{pid}/cmdline").read_bytes():
            os.kill(int(pid), signal.SIGKILL)
    assert [ended["signal"] for ended in kept.over()] == [9, 9]
    assert not segment.exists()


def test_a_segment_of_a_rank_whose_supervisor_was_killed_goes_with_what_else_it_left(kept: Kept, segment: Path):
    up(kept, segment)
    until(lambda: is_noted(kept, segment))
    kept.process.kill()
    kept.process.wait(10)
    assert confinement.end_rest(str(kept.folder)) == []
    assert not segment.exists()


def test_what_a_rank_that_ended_well_has_left_stays(kept: Kept, segment: Path):
    kept.start(shares(kept, segment))
    until(lambda: is_noted(kept, segment))
    (kept.folder / "go").touch()
    assert kept.over()[0]["code"] == 0
    assert segment.exists()


def test_what_was_there_before_the_round_stays(kept: Kept, segment: Path):
    segment.touch()
    up(kept, segment)
    kept.stop(0)
    kept.over()
    assert segment.exists()


def test_what_another_process_has_mapped_stays(kept: Kept, segment: Path):
    up(kept, segment)
    with segment.open("r+b") as file, mmap.mmap(file.fileno(), 4096):
        kept.stop(0)
        kept.over()
        assert segment.exists()


SENDS = """
import os, sys, time
for pid in (os.getpid(), 1):
    open(f"/dev/shm/torch_{pid}_{sys.argv[1]}_0", "w").close()
print("up", os.getpid(), flush=True)
time.sleep(600)
"""
MANAGES = """
import os, sys, time
open(sys.argv[1], "w").close()
if os.fork() == 0:
    os.execv(sys.argv[2], [sys.argv[2], "-S", "-c", sys.argv[3], sys.argv[1], str(os.getppid())])
print("up", flush=True)
time.sleep(600)
"""
REMOVES = """
import os, sys, time
while os.path.exists("/proc/" + sys.argv[2]):
    time.sleep(0.01)
time.sleep(0.1)
os.unlink(sys.argv[1])
"""
"""As torch's manager does: it looks after the process that has made the file, and removes it then."""


def test_files_that_wait_in_a_queue_are_known_by_the_pid_in_their_names(kept: Kept):
    key = f"{os.getpid()}{id(kept)}"
    kept.start(f"exec {sys.executable} -S -c '{SENDS}' {key}")
    kept.wait_for_log("up")
    own, stranger = (Path(f"/dev/shm/torch_{pid}_{key}_0") for pid in (kept.log().split()[1], "1"))
    try:
        kept.stop(0)
        kept.over()
        assert (own.exists(), stranger.exists()) == (False, True)
    finally:
        stranger.unlink()


def test_torchs_manager_is_left_the_time_to_remove_what_a_killed_rank_has_shared(kept: Kept, segment: Path):
    manager = kept.folder / "torch_shm_manager"
    shutil.copy(Path(sys.executable).resolve(), manager)
    kept.start(f"exec {sys.executable} -S -c '{MANAGES}' {segment} {manager} '{REMOVES}'")
    kept.wait_for_log("up")
    kept.stop(5)
    kept.over()
    assert not segment.exists()

"""Logs with a limit: the oldest pieces are dropped, their space is given back, and a line says how much it was."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from drumbeat.model.logs import LogName
from drumbeat.server.home_folder import FolderArtifacts
from drumbeat.server.home_folder.log_ring import read_dropped
from drumbeat.server.jobs.log_reader import LogReader
from drumbeat.server.jobs.log_routes import read_tail

KEEP = 1 << 20
FIRST, SECOND = LogName(1, 1, 0, 0), LogName(1, 2, 0, 0)


class Job:
    """A job's logs, and everything that was ever written to them."""

    def __init__(self, root: Path) -> None:
        self.root, self.folder = root, root / "jobs" / "a"
        self.files = FolderArtifacts(root)
        self.written: dict[LogName, bytes] = {}

    def write(self, log: LogName, size: int, keep: int = KEEP) -> None:
        """Adds numbered lines of about this many bytes."""
        before = self.written.get(log, b"")
        lines = b"".join(f"{log.round} {len(before) + at:09} {'x' * 52}\n".encode() for at in range(0, size, 64))
        assert self.files.append_log("a", log.path, len(before), lines, keep=keep) == len(before) + len(lines)
        self.written[log] = before + lines

    def text(self, after: int = 0) -> str:
        reader, pieces = LogReader(self.files, "a", after), list[str]()
        while some := reader.read(100_000):
            pieces += [piece.text for piece in some]
        return "".join(pieces)

    def used(self) -> int:
        """Bytes on the disk."""
        return sum(file.stat().st_blocks * 512 for file in self.folder.rglob("*") if file.is_file())


@pytest.fixture
def job(tmp_path: Path) -> Job:
    made = Job(tmp_path / "files")
    made.folder.mkdir(parents=True)
    return made


def test_oldest_of_all_logs_are_dropped_and_a_line_says_how_much(job: Job):
    for _ in range(20):
        job.write(FIRST, 128 << 10)
    for _ in range(4):
        job.write(SECOND, 128 << 10)
    line, _, kept = job.text().partition("\n")
    everything = (job.written[FIRST] + job.written[SECOND]).decode()
    assert everything.endswith(kept)
    assert KEEP - (256 << 10) < len(kept) <= KEEP * 9 / 8
    assert line.startswith(f"drumbeat: {(len(everything) - len(kept)) / KEEP:,.1f} MiB of this job's logs before")
    assert job.used() < KEEP * 5 / 4


def test_follower_of_dropped_pieces_goes_on_after_them(job: Job):
    job.write(FIRST, 128 << 10)
    position = job.files.log_end("a")
    for _ in range(20):
        job.write(FIRST, 128 << 10)
    line, _, kept = job.text(position).partition("\n")
    assert line.startswith("drumbeat: ")
    assert job.written[FIRST].decode().endswith(kept)
    assert job.text(read_dropped(job.folder).position) == kept


def test_tail_longer_than_what_is_kept_begins_with_the_line(job: Job):
    for _ in range(20):
        job.write(FIRST, 128 << 10)
    short = "".join(piece.text for piece in read_tail(job.files, "a", 1000).pieces)
    assert job.written[FIRST].decode().endswith(short)
    assert 900 < len(short) <= 1000
    assert "".join(piece.text for piece in read_tail(job.files, "a", 4 << 20).pieces) == job.text()


def test_log_whose_pieces_were_all_dropped_goes_on_at_its_end_after_a_restart(job: Job):
    job.write(SECOND, 64 << 10)
    for _ in range(20):
        job.write(FIRST, 128 << 10)
    job.files = FolderArtifacts(job.root)
    job.write(SECOND, 640)
    assert "\0" not in job.text()
    assert job.text().endswith(job.written[SECOND].decode()[-640:])


def test_many_short_pieces_count_with_their_records(job: Job):
    for _ in range(200):
        job.write(FIRST, 64, keep=4096)
    assert len(job.text()) < 4096 * 9 / 8
    assert job.written[FIRST].decode().endswith(job.text().partition("\n")[2])


def test_logs_without_a_limit_are_kept_and_removed_ones_begin_anew(job: Job):
    for _ in range(20):
        job.write(FIRST, 128 << 10, keep=0)
    assert job.text() == job.written[FIRST].decode()
    job.write(FIRST, 128 << 10)
    assert read_dropped(job.folder).position
    job.files.remove_logs("a")
    job.written.clear()
    job.files = FolderArtifacts(job.root)
    job.write(FIRST, 128)
    assert job.text() == job.written[FIRST].decode()


def test_crash_before_the_space_is_given_back_costs_space_until_the_next_time(
    job: Job, monkeypatch: pytest.MonkeyPatch
):
    with monkeypatch.context() as patch:
        patch.setattr("drumbeat.server.home_folder.log_ring.drop_beginning", _crash)
        for _ in range(20):
            job.write(FIRST, 128 << 10)
    assert job.used() > 2 * KEEP
    assert job.written[FIRST].decode().endswith(job.text().partition("\n")[2])
    for _ in range(4):
        job.write(SECOND, 128 << 10)
    assert job.used() < KEEP * 5 / 4


def _crash(_descriptor: int, _size: int) -> None:
    os.fstat(-1)  # Raises OSError, which also a file system without holes does.

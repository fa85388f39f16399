"""How much of a job's logs is read for their end."""

from __future__ import annotations

from pathlib import Path

import pytest

from drumbeat.model.logs import LogName
from drumbeat.server.home_folder.artifacts import FolderArtifacts
from drumbeat.server.home_folder.stored_files import LogChunk
from drumbeat.server.jobs.log_routes import read_tail

pytestmark = pytest.mark.feature("M1")
LOG = LogName(1, 1, 0, 0).path
BIG = (b"x" * 1023 + b"\n") * 256


class CountingArtifacts(FolderArtifacts):
    """Counts the bytes of logs that are read."""

    bytes_read = 0

    def log_chunks(self, job: str, *, after: int = 0, limit: int = 1 << 20) -> list[LogChunk]:
        chunks = super().log_chunks(job, after=after, limit=limit)
        self.bytes_read += sum(len(chunk.data) for chunk in chunks)
        return chunks


@pytest.fixture
def artifacts(tmp_path: Path) -> CountingArtifacts:
    return CountingArtifacts(tmp_path / "files")


def print_pieces(artifacts: FolderArtifacts, *pieces: bytes) -> None:
    offset = 0
    for piece in pieces:
        offset = artifacts.append_log("a", LOG, offset, piece)


def test_tail_of_tiny_pieces_does_not_read_the_big_ones_before_them(artifacts: CountingArtifacts):
    tiny = [b"%04d\n" % n for n in range(3000)]
    print_pieces(artifacts, *([BIG] * 20), *tiny)
    tail = read_tail(artifacts, "a", 10_000)
    assert "".join(piece.text for piece in tail.pieces) == b"".join(tiny[1000:]).decode()
    assert (tail.first, tail.end, artifacts.bytes_read) == (1020, 3020, 10_000)
    artifacts.bytes_read = 0
    assert 64500 < sum(len(piece.text) for piece in read_tail(artifacts, "a", 65536).pieces) <= 65536
    assert artifacts.bytes_read == len(BIG) + 15_000


def test_tail_has_so_many_bytes_of_what_is_no_ascii(artifacts: CountingArtifacts):
    print_pieces(artifacts, *("損失\n".encode() for _ in range(100)))
    assert len(read_tail(artifacts, "a", 70).pieces) == 10


def test_tail_fills_a_part_lost_in_a_crash_with_older_lines(artifacts: CountingArtifacts, tmp_path: Path):
    print_pieces(artifacts, *(b"%04d\n" % n for n in range(100)))
    second = LogName(1, 1, 0, 1).path
    artifacts.append_log("a", second, 0, BIG)
    artifacts.open_file("a", second).write_bytes(b"")
    tail = read_tail(artifacts, "a", 50)
    assert ("".join(piece.text for piece in tail.pieces)[:5], tail.first) == ("0090\n", 90)


def test_tail_of_very_many_pieces_is_bounded(artifacts: CountingArtifacts, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("drumbeat.server.jobs.log_routes.MAX_PIECES", 50)
    print_pieces(artifacts, *(b"x\n" for _ in range(100)))
    tail = read_tail(artifacts, "a", 1000)
    assert (len(tail.pieces), tail.first) == (50, 50)

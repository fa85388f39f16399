"""Holes of files are found, and kept wherever a file is written."""

from __future__ import annotations

import hashlib
import io
import os
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from drumbeat.model import sparse_files
from drumbeat.model.input_listing import ListedFile
from drumbeat.node.inputs.cache.files import Files
from drumbeat.node.inputs.cache.partial_file import PIECE, Part, claim
from drumbeat.node.platform import snapshot_archive
from drumbeat.server.home_folder.atomic_files import put_whole
from drumbeat.server.home_folder.logs import append_beyond

MIB = 1 << 20
CONTENT = b"begin" + bytes(3 * MIB) + b"x" * 5000 + bytes(2 * MIB + 3)


def sparse_file(place: Path) -> Path:
    with place.open("wb") as file:
        file.write(b"begin")
        file.seek(3 * MIB + 5)
        file.write(b"x" * 5000)
        file.truncate(len(CONTENT))
    return place


def in_pieces(write: Callable[[bytes, int], object]) -> None:
    for offset in range(0, len(CONTENT), MIB):
        write(CONTENT[offset : offset + MIB], offset)


def written_at(place: Path, _folder: Path) -> None:
    with place.open("wb") as file:
        in_pieces(lambda piece, offset: sparse_files.write_at(file.fileno(), piece, offset))


def appended(place: Path, _folder: Path) -> None:
    with place.open("wb") as file:
        in_pieces(lambda piece, _: sparse_files.append(file, piece))


def kept_by_a_server(place: Path, _folder: Path) -> None:
    in_pieces(lambda piece, offset: append_beyond(place, offset, piece))


def told_to_a_server(place: Path, _folder: Path) -> None:
    append_beyond(place, 0, CONTENT[:5], 3 * MIB)
    append_beyond(place, 0, CONTENT[:5], 3 * MIB)
    append_beyond(place, 3 * MIB + 5, b"x" * 5000, 2 * MIB + 3)


def put_by_a_server(place: Path, folder: Path) -> None:
    put_whole(place, (CONTENT[at : at + MIB] for at in range(0, len(CONTENT), MIB)), folder / "aside")


def fetched_to_the_cache(place: Path, folder: Path) -> None:
    digest = hashlib.sha256(CONTENT).hexdigest()
    part = claim(Files(str(folder)), ListedFile("a", len(CONTENT), digest, digest))
    assert isinstance(part, Part)
    for number in part.missing():
        part.write(number * PIECE, CONTENT[number * PIECE : (number + 1) * PIECE])
        part.have(number)
    assert part.finish()
    os.link(Files(str(folder)).place(digest), place)


def copied_on_a_node(place: Path, folder: Path) -> None:
    sparse_files.copy(str(sparse_file(folder / "source")), str(place))


def unpacked_from_a_snapshot(place: Path, folder: Path) -> None:
    stream: Any = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as archive:
        info = tarfile.TarInfo("a")
        info.size = len(CONTENT)
        archive.addfile(info, io.BytesIO(CONTENT))
    stream.seek(0)
    snapshot_archive.unpack(stream, hashlib.sha256(stream.getvalue()).hexdigest(), str(folder / "code"))
    (folder / "code/a").rename(place)


WAYS = [
    written_at, appended, kept_by_a_server, told_to_a_server, put_by_a_server, fetched_to_the_cache, copied_on_a_node,
    unpacked_from_a_snapshot,
]  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
def test_file_with_holes_is_as_it_was_and_takes_no_more_space_on(way: Callable[[Path, Path], None], tmp_path: Path):
    place = tmp_path / "place"
    (tmp_path / "folder").mkdir()
    way(place, tmp_path / "folder")
    assert place.read_bytes() == CONTENT
    assert place.stat().st_blocks * 512 < MIB // 4


def test_zeros_that_replace_data_are_written(tmp_path: Path):
    with (tmp_path / "a").open("wb+", buffering=0) as file:
        file.write(b"x" * 3 * sparse_files.BLOCK)
        sparse_files.write_at(file.fileno(), bytes(2 * sparse_files.BLOCK), 0)
    assert (tmp_path / "a").read_bytes() == bytes(2 * sparse_files.BLOCK) + b"x" * sparse_files.BLOCK


def test_large_holes_of_a_file_are_named_in_order(tmp_path: Path):
    with sparse_file(tmp_path / "a").open("rb") as file:
        holes = sparse_files.large_holes(file.fileno(), len(CONTENT))
    assert [start // MIB for start, _ in holes] == [0, 3]
    assert all(CONTENT[start:end] == bytes(end - start) for start, end in holes)
    assert holes[-1][1] == len(CONTENT)


def test_file_that_was_cut_off_has_no_hole_behind_its_end(tmp_path: Path):
    with sparse_file(tmp_path / "a").open("rb") as file:
        os.truncate(tmp_path / "a", MIB)
        assert sparse_files.hole_length(file.fileno(), MIB // 2, len(CONTENT)) == MIB // 2
        assert sparse_files.hole_length(file.fileno(), MIB, len(CONTENT)) == 0

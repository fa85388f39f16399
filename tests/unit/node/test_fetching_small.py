"""Small files: many in one answer, each whole or not there at all."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drumbeat.model import small_file_bundles
from drumbeat.model.input_listing import ListedFile
from drumbeat.node.inputs.cache.files import Files, name_of
from drumbeat.node.inputs.cache.partial_file import PIECE, Claim
from drumbeat.node.inputs.cache.small_file import SMALL, Small, claim_small
from drumbeat.node.inputs.fetching.piece_queue import BATCH, Batch, FetchQueue, FilePiece, Want

pytestmark = pytest.mark.feature("D5")


def named(content: bytes) -> ListedFile:
    digest = hashlib.sha256(content).hexdigest()
    return ListedFile("f", len(content), digest, digest)


# --- bundles ----------------------------------------------------------------------------------------------------
@given(st.lists(st.tuples(st.binary(max_size=50), st.booleans()), min_size=1, max_size=20))
def test_what_is_asked_for_comes_out_again(asked: list[tuple[bytes, bool]]):
    contents = {hashlib.sha256(bytes([at])).hexdigest(): one for at, (one, _) in enumerate(asked)}
    there = {name: content for (name, content), (_, is_there) in zip(contents.items(), asked, strict=True) if is_there}
    sizes = small_file_bundles.names(
        small_file_bundles.request({name: len(content) for name, content in contents.items()})
    )
    assert list(sizes) == list(contents)
    if there:
        assert small_file_bundles.opened(sizes, small_file_bundles.answer(sizes, there)) == there


@pytest.mark.parametrize("body", [b"", b"00", b"1", b"10x", b"11abc", b"11abcdef", b"21abcdef"])
def test_an_answer_that_doesnt_fit_the_request_isnt_taken(body: bytes):
    with pytest.raises(ValueError, match="isn't an answer"):
        small_file_bundles.opened({"a" * 64: 2, "b" * 64: 3}, body)


@pytest.mark.parametrize(
    "asked",
    [
        b"",
        b"../../etc/passwd 5",
        b"a" * 64,
        b"a" * 64 + b" -1",
        f"{'a' * 64} {SMALL + 1}".encode(),
        b"\n".join(f"{at:064x} {SMALL}".encode() for at in range(PIECE // SMALL + 1)),
        b"\n".join(f"{at:064x} 1".encode() for at in range(small_file_bundles.MOST + 1)),
        b"\n".join([b"a" * 64 + b" 1"] * 2),
    ],
)
def test_a_request_for_something_else_is_refused(asked: bytes):
    with pytest.raises(ValueError, match=r"small files|too much"):
        small_file_bundles.names(asked)


def test_a_batch_fits_into_one_request():
    sizes = {f"{at:064x}": SMALL for at in range(PIECE // SMALL)}
    assert small_file_bundles.names(small_file_bundles.request(sizes)) == sizes
    assert small_file_bundles.MOST >= BATCH


# --- in the cache -----------------------------------------------------------------------------------------------
@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(str(tmp_path))


def claimed(files: Files, content: bytes) -> Small:
    found = claim_small(files, named(content))
    assert isinstance(found, Small)
    return found


def parts(files: Files) -> list[str]:
    return [path.name for path in Path(files.folder, "parts").iterdir()]


@pytest.mark.parametrize("content", [b"", b"some bytes"])
def test_the_right_bytes_make_a_whole_file(files: Files, content: bytes):
    assert claimed(files, content).finish(content)
    assert Path(files.place(name_of(named(content)))).read_bytes() == content
    assert claim_small(files, named(content)) is Claim.WHOLE
    assert parts(files) == []


@pytest.mark.parametrize("came", [b"", b"some byte", b"some bytez", b"some bytes and more"])
def test_other_bytes_are_never_shown(files: Files, came: bytes):
    small = claimed(files, b"some bytes")
    assert not small.finish(came)
    assert not files.has(small.name, 10)
    small.drop()
    assert parts(files) == []


def test_two_dont_bring_the_same_and_who_drops_it_lets_the_other(files: Files):
    first = claimed(files, b"x")
    assert claim_small(files, named(b"x")) is Claim.TAKEN
    first.drop()
    assert claimed(files, b"x").finish(b"x")


def test_what_a_killed_process_left_is_written_over(files: Files):
    Path(files.part(name_of(named(b"new")))).write_bytes(b"older and longer")
    assert claimed(files, b"new").finish(b"new")
    assert Path(files.place(name_of(named(b"new")))).read_bytes() == b"new"


# --- who gets what ----------------------------------------------------------------------------------------------
def test_small_files_are_handed_out_many_at_a_time_and_large_ones_by_piece(files: Files):
    small = [Want("in", ListedFile(str(at), 10, f"{at:064x}")) for at in range(BATCH + 1)]
    large = Want("in", ListedFile("large", PIECE * 2, "f" * 64))
    work = FetchQueue(files, [small[0], large, *small[1:]], lambda _size: None)
    first, second, third = work.next(), work.next(), work.next()
    assert isinstance(first, Batch)
    assert isinstance(second, Batch)
    assert [*first.wants, *second.wants] == small
    assert len(first.wants) == BATCH
    assert third == FilePiece(large, 0)
    work.close()


def test_a_batch_is_no_larger_than_a_piece(files: Files):
    wants = [Want("in", ListedFile(str(at), SMALL, f"{at:064x}")) for at in range(20)]
    work, seen = FetchQueue(files, wants, lambda _size: None), list[Want]()
    while isinstance(found := work.next(), Batch):
        assert sum(want.file.size for want in found.wants) <= PIECE
        seen += found.wants
    assert seen == wants


def test_a_piece_of_a_huge_file_is_told_without_all_the_others():
    huge = Want("in", ListedFile("huge", (1 << 60) + 7, "f" * 64))  # A list of its pieces fits into no memory.
    assert huge.piece(0) == (0, PIECE)
    assert huge.piece((1 << 60) // PIECE) == (1 << 60, 7)

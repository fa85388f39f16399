"""What every `DataAccess` promises: the sentences of `drumbeat.ports.DataAccess`, over one kind of store."""

from __future__ import annotations

import hashlib
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pytest

from drumbeat.model.errors import (
    ConflictError,
    DrumbeatError,
    ForbiddenError,
    NotFoundError,
    RefusedError,
    StorageError,
)
from drumbeat.model.input_listing import Link, ListedFile, Listing
from drumbeat.ports.data import DataAccess

ODD = ("a b", "#1", "why?", "100%", "%41", "a+b&c=d", "Größe-東京", "it's", "semi;colon", ".hidden", "[x]{y}", "~t")
"""Names that somebody's URL handling breaks on."""
OUTSIDE = ("../x", "a/../../x", "/x", "a//b", "", ".", "a/./b", "a\0b", "n" * 10_000, "half\ud800")


@dataclass(frozen=True)
class Store:
    """A folder of a store for one test.

    uri: of the folder. put: makes or replaces a file in it. is_writable: through the access itself. has_links: nodes
    can fetch from it. refuses_other_content: a link can be asked for just the content that was listed. large: bytes of
    a file that it takes in several parts. secrets: what mustn't be seen.
    """

    access: DataAccess
    uri: str
    put: Callable[[str, bytes], object]
    is_writable: bool = True
    has_links: bool = True
    refuses_other_content: bool = True
    large: int = 3 << 20
    secrets: tuple[str, ...] = ()

    def listing(self) -> Listing:
        """All of it."""
        return self.access.listing(self.uri, is_file=False)

    def alone(self, path: str) -> ListedFile:
        """One file, as an input of its own."""
        return self.access.listing(f"{self.uri}/{path}", is_file=True).files[0]

    def whole(self, file: ListedFile) -> bytes:
        """What is read of a file of the folder's listing."""
        return b"".join(self.access.read(self.uri, file))


def fetched(link: Link) -> bytes:
    """What anybody gets at a link."""
    request = urllib.request.Request(link.url, headers=link.headers)
    with urllib.request.urlopen(request, timeout=30) as answer:
        return answer.read()


def refused_link(link: Link) -> int:
    """The status that a link is refused with."""
    with pytest.raises(urllib.error.HTTPError) as refused:
        fetched(link)
    refused.value.close()
    return refused.value.code


class DataReading:
    """Listings, links, reading: what also read-only stores do."""

    def test_a_listing_has_every_file_with_its_size_in_order(self, store: Store) -> None:
        store.put("b/two.bin", b"22")
        store.put("a.txt", b"1")
        store.put("b/c/deep/three", b"333")
        found = store.listing()
        assert [(one.path, one.size) for one in found.files] == [("a.txt", 1), ("b/c/deep/three", 3), ("b/two.bin", 2)]
        assert (found.is_file, found.size) == (False, 6)
        assert len({one.key for one in found.files}) == 3
        assert store.listing() == found

    def test_names_that_urls_break_on(self, store: Store) -> None:
        for name in ODD:
            store.put(f"{name}/{name}.txt", name.encode())
        found = store.listing()
        assert sorted(one.path for one in found.files) == sorted(f"{name}/{name}.txt" for name in ODD)
        for file in found.files:
            said = file.path.partition("/")[0].encode()
            assert store.whole(file) == said
            (link,) = store.access.links(store.uri, [file], 60)
            assert link is None or fetched(link) == said

    def test_a_file_alone(self, store: Store) -> None:
        store.put("b/train.csv", b"x,y\n")
        store.put("b/other.csv", b"no")
        found = store.access.listing(f"{store.uri}/b/train.csv", is_file=True)
        (file,) = found.files
        assert (found.is_file, file.alone, file.path, file.size) == (True, True, "train.csv", 4)
        assert b"".join(store.access.read(f"{store.uri}/b/train.csv", file)) == b"x,y\n"
        (link,) = store.access.links(f"{store.uri}/b/train.csv", [file], 60)
        assert link is None or fetched(link) == b"x,y\n"

    def test_an_empty_file(self, store: Store) -> None:
        store.put("none", b"")
        (file,) = store.listing().files
        assert (file.size, store.whole(file)) == (0, b"")
        (link,) = store.access.links(store.uri, [file], 60)
        assert link is None or fetched(link) == b""

    def test_a_part_of_a_file(self, store: Store) -> None:
        content = bytes(range(256)) * 40
        store.put("f", content)
        (file,) = store.listing().files
        for offset, length in ((0, 10), (5, None), (5, 0), (9_999, 1_000), (10_240, None), (0, None), (10_239, 1)):
            end = None if length is None else offset + length
            assert b"".join(store.access.read(store.uri, file, offset, length)) == content[offset:end], (offset, length)

    def test_a_large_file_comes_whole_by_reading_and_by_link(self, store: Store) -> None:
        content = hashlib.shake_256(b"large").digest(store.large)
        store.put("large", content)
        (file,) = store.listing().files
        assert file.size == len(content)
        assert file.sha256 in ("", hashlib.sha256(content).hexdigest())
        assert store.whole(file) == content
        assert b"".join(store.access.read(store.uri, file, store.large - 70_000)) == content[-70_000:]
        (link,) = store.access.links(store.uri, [file], 60)
        assert link is None or fetched(link) == content

    def test_other_content_has_another_key_and_isnt_given_for_the_one_that_was_listed(self, store: Store) -> None:
        store.put("f", b"first")
        (before,) = store.listing().files
        (link,) = store.access.links(store.uri, [before], 60)
        store.put("f", b"second one")
        (after,) = store.listing().files
        assert before.key != after.key
        for offset, length in ((0, None), (2, 2)):
            with pytest.raises(ConflictError, match="f` has changed"):
                list(store.access.read(store.uri, before, offset, length))
        assert store.whole(after) == b"second one"
        if link is not None and store.refuses_other_content:
            assert refused_link(link) == 412

    def test_an_empty_file_that_has_grown_is_other_content(self, store: Store) -> None:
        store.put("f", b"")
        (before,) = store.listing().files
        store.put("f", b"now")
        with pytest.raises(ConflictError, match="f` has changed"):
            store.whole(before)

    def test_what_isnt_there_is_said(self, store: Store) -> None:
        store.put("f", b"1")
        (file,) = store.listing().files
        with pytest.raises(NotFoundError, match="nope"):
            store.alone("nope")
        with pytest.raises(NotFoundError, match="nope"):
            store.access.listing(f"{store.uri}/nope", is_file=False)
        with pytest.raises(NotFoundError, match="nope"):
            store.access.entries(f"{store.uri}/nope")
        gone = ListedFile("gone", file.size, file.key, file.sha256, file.tag)
        with pytest.raises((NotFoundError, ConflictError), match="gone"):
            store.whole(gone)

    def test_a_file_that_was_called_a_folder_is_said_to_be_one(self, store: Store) -> None:
        store.put("d/f", b"1")
        with pytest.raises(RefusedError, match="uri_file"):
            store.access.listing(f"{store.uri}/d/f", is_file=False)

    def test_a_beginning_of_a_name_isnt_a_folder(self, store: Store) -> None:
        store.put("data/f", b"1")
        store.put("data2/f", b"2")
        assert [one.path for one in store.access.listing(f"{store.uri}/data", is_file=False).files] == ["f"]
        assert [one.path for one in store.access.listing(f"{store.uri}/data/", is_file=False).files] == ["f"]

    def test_a_link_opens_its_file_alone(self, store: Store) -> None:
        store.put("one", b"1")
        store.put("two", b"2")
        one = store.listing().files[0]
        (link,) = store.access.links(store.uri, [one], 60)
        assert (link is not None) == store.has_links
        if link is None or "?" not in link.url:
            return
        address, _, signature = link.url.partition("?")
        assert fetched(link) == b"1"
        assert refused_link(Link(f"{address.removesuffix('one')}two?{signature}")) == 403
        assert refused_link(Link(address)) in (401, 403, 404)

    def test_entries_are_what_lies_directly_in_a_folder(self, store: Store) -> None:
        store.put("a.txt", b"1")
        store.put("b/two", b"22")
        store.put("b/c/three", b"333")
        found = store.access.entries(store.uri)
        assert [(one.path, one.is_folder, one.size) for one in found] == [("a.txt", False, 1), ("b", True, 0)]
        assert [one.path for one in store.access.entries(f"{store.uri}/b")] == ["c", "two"]

    def test_several_threads_read_at_once(self, store: Store) -> None:
        for number in range(8):
            store.put(f"{number}", f"{number}".encode() * 100_000)
        with ThreadPoolExecutor(8) as pool:
            read = list(pool.map(store.whole, store.listing().files))
        assert read == [f"{number}".encode() * 100_000 for number in range(8)]

    def test_a_path_that_leaves_the_folder_is_refused(self, store: Store) -> None:
        for path in OUTSIDE:
            file = ListedFile(path, 1, "k", tag="t")
            with pytest.raises(ForbiddenError):
                store.whole(file)
            with pytest.raises(ForbiddenError):
                store.access.links(store.uri, [file], 60)

    def test_no_secret_is_in_what_is_said_or_kept(self, store: Store) -> None:
        store.put("f", b"1")
        found = store.listing()
        said = [repr(found), repr(store.access), repr(store.access.entries(store.uri))]
        said.append(repr(store.access.links(store.uri, found.files[:1], 60)))
        for what in (lambda: store.alone("nope"), lambda: store.access.listing(f"{store.uri}/nope", is_file=False)):
            with pytest.raises(DrumbeatError) as refused:
                what()
            said += [str(refused.value), repr(refused.value), repr(refused.value.__cause__)]
        assert not [secret for secret in store.secrets for text in said if secret in text]


class DataContract(DataReading):
    """And what those do that are written to."""

    def test_what_is_written_is_there(self, store: Store) -> None:
        done = store.access.write(store.uri, "new/place/f.bin", iter([b"ab", b"", b"cd"]), 4)
        assert (done.path, done.size, done.sha256) == ("new/place/f.bin", 4, hashlib.sha256(b"abcd").hexdigest())
        (file,) = store.listing().files
        assert (file.path, file.tag) == ("new/place/f.bin", done.tag)
        assert store.whole(file) == b"abcd"

    def test_writing_again_replaces(self, store: Store) -> None:
        store.access.write(store.uri, "f", [b"old content"], 11)
        store.access.write(store.uri, "f", [b"new"], 3)
        (file,) = store.listing().files
        assert store.whole(file) == b"new"

    @pytest.mark.parametrize("size", [None, 2, 400])
    def test_a_write_that_breaks_off_leaves_what_was_there(self, store: Store, size: int | None) -> None:
        store.access.write(store.uri, "f", [b"old"], 3)

        def broken() -> Iterator[bytes]:
            yield b"half of it"
            if size is None:
                raise ConnectionAbortedError("the sender has gone")

        with pytest.raises((StorageError, ConnectionAbortedError, DrumbeatError)):
            store.access.write(store.uri, "f", broken(), size or 10)
        with pytest.raises((StorageError, ConnectionAbortedError, DrumbeatError)):
            store.access.write(store.uri, "other", broken(), size or 10)
        (file,) = store.listing().files
        assert (file.path, store.whole(file)) == ("f", b"old")

    def test_a_large_write_that_breaks_off_leaves_nothing(self, store: Store) -> None:
        piece = b"x" * (1 << 20)
        count = store.large // len(piece)

        def broken() -> Iterator[bytes]:
            yield from (piece for _ in range(count - 1))
            raise ConnectionAbortedError("the sender has gone")

        with pytest.raises((ConnectionAbortedError, DrumbeatError)):
            store.access.write(store.uri, "d/large", broken(), count * len(piece))
        store.access.write(store.uri, "d/small", [b"1"], 1)
        assert [one.path for one in store.listing().files] == ["d/small"]

    def test_removing_and_again(self, store: Store) -> None:
        store.access.write(store.uri, "d/a", [b"1"], 1)
        store.access.write(store.uri, "d/b", [b"2"], 1)
        store.access.remove(store.uri, "d/a")
        store.access.remove(store.uri, "d/a")
        assert [one.path for one in store.listing().files] == ["d/b"]

    def test_nothing_is_written_or_removed_outside(self, store: Store) -> None:
        for path in OUTSIDE:
            with pytest.raises(ForbiddenError):
                store.access.write(store.uri, path, [b"1"], 1)
            with pytest.raises(ForbiddenError):
                store.access.remove(store.uri, path)

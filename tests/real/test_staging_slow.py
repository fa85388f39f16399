"""Stores that are slow, or stop in the middle: said, gone on with, or given up in a sentence that names them."""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import tarfile
import threading
from collections.abc import Generator, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from drumbeat.model import wire
from drumbeat.model.errors import ConflictError, NoConnectionError, StorageError, UnreachableError
from drumbeat.model.input_listing import Link
from drumbeat.node.inputs.cache.files import Files, name_of
from drumbeat.node.inputs.cache.partial_file import PIECE
from drumbeat.node.inputs.cache.small_file import SMALL
from drumbeat.node.inputs.fetching.fetch_context import Means
from drumbeat.node.inputs.fetching.fetch_threads import Fetch
from drumbeat.node.inputs.fetching.http_client import FetchTimeouts
from drumbeat.node.inputs.fetching.piece_queue import Want
from drumbeat.node.inputs.fetching.progress import Meter
from drumbeat.node.inputs.mounting.input_reader import RangeReader
from drumbeat.node.inputs.snapshots import bring
from tests.support.memory_data import ROOT, Answer, Asked, MemoryData

from .depot import a_depot, remote
from .house import until
from .relays import a_relay

pytestmark = [pytest.mark.feature("D2")]

BLOCK = 1 << 16
"""What the store in memory sends at a time."""
LARGE = os.urandom(12 * BLOCK)


@pytest.mark.feature("F10")
@pytest.mark.thorough
def test_a_job_whose_store_is_slow_says_how_slow_and_when_it_stands_still(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("DRUMBEAT_CACHE", str(tmp_path / "cache"))
    slow = os.urandom(400_000)  # More than a small file, which counts when it is whole.
    with MemoryData({"set/slow": slow}) as data, a_relay(data.url) as relay, a_depot(tmp_path, data) as depot:
        data.url = f"http://127.0.0.1:{relay.port}"
        relay.bytes_s = 10_000
        depot.submit("slow", "sha256sum ${{inputs.train}}/slow", remote("train", "set"))
        said = " kB of 400.0 kB, ", " kB/s, ", " s left"
        until(lambda: all(word in depot.detail("slow") for word in said), what="its rate and the time left")
        relay.bytes_s = 0
        until(lambda: "; no byte for " in depot.detail("slow"), what="a word of it")
        assert depot.job("slow").state == "staging"
        relay.bytes_s = None
        assert depot.completed("slow").split()[0] == hashlib.sha256(slow).hexdigest()
        assert data.sent == len(slow)


# --- the same with shorter timeouts -----------------------------------------------------------------------------
class Stalling:
    """A store that stops after `blocks` of the first answer, or of all."""

    def __init__(self, data: MemoryData, *, blocks: int, always: bool = False) -> None:
        self.is_over = threading.Event()
        self._blocks, self._always = blocks, always
        data.spoil = self._spoil

    def _spoil(self, asked: Asked) -> Answer | None:
        left = self._blocks
        if asked.offset and not self._always:
            return None

        def pause() -> None:
            nonlocal left
            left -= 1
            if left < 0:
                self.is_over.wait(60)

        return Answer(200 if asked.length == len(LARGE) else 206, pause=pause)


@pytest.fixture
def data() -> Iterator[MemoryData]:
    with MemoryData({"set/large": LARGE}) as data:
        yield data


class Server:
    """As much of the agent's link to the server as is asked for."""

    def __init__(self, data: MemoryData, refusals: int = 0, where: str = "/home") -> None:
        """refusals: how often a disk is full. where: its own, or a store's."""
        self._data, self._refusals, self._where = data, refusals, where

    def links(self, _name: str, paths: list[str]) -> list[Any]:
        self._refuse()
        listed = {one.path: one for one in self._data.listing(f"{ROOT}/set", is_file=False).files}
        return [wire.to_wire(self._data.link(f"{ROOT}/set", listed[path], 60)) for path in paths]

    def input_file(self, name: str, path: str, *_span: int) -> Any:
        raise ConflictError(f"input {name}: {path} isn't what it was")

    @contextlib.contextmanager
    def snapshot(self, digest: str) -> Generator[io.BytesIO]:
        self._refuse()
        yield io.BytesIO(self._data.files[digest])

    def _refuse(self) -> None:
        if self._refusals > 0:
            self._refusals -= 1
            raise StorageError("the disk is full", where=self._where, fix="Make room on it.")


def fetch(
    folder: Path, data: MemoryData, timeouts: FetchTimeouts, server: Server | None = None, tag: str = ""
) -> bytes:
    files = Files(str(folder))
    file = replace(data.listing(f"{ROOT}/set", is_file=False).files[0], tag=tag)
    link: Any = server or Server(data)
    meter = Meter("input train", file.size, lambda _sentence: None)
    Fetch(Means(files, lambda: link, meter, timeouts), [Want("train", file)]).run()
    return Path(files.place(name_of(file))).read_bytes()


@pytest.mark.thorough
def test_an_answer_that_stops_is_gone_on_with_where_it_stopped(tmp_path: Path, data: MemoryData):
    stalling = Stalling(data, blocks=5)
    try:
        assert fetch(tmp_path, data, FetchTimeouts(timeout_s=15)) == LARGE
    finally:
        stalling.is_over.set()
    assert [one.offset for one in data.asked] == [0, 5 * BLOCK]


def test_a_small_file_whose_store_breaks_off_again_and_again_is_gone_on_with(tmp_path: Path, data: MemoryData):
    small = data.files["set/large"] = LARGE[: 3 * BLOCK + 1000]
    data.spoil = lambda asked: Answer(206 if asked.offset else 200, cut=BLOCK) if asked.length > BLOCK else None
    assert fetch(tmp_path, data, FetchTimeouts()) == small
    # The first answer was of the kept connections, which take a small file whole or not at all.
    assert [one.offset for one in data.asked] == [0, 0, BLOCK, 2 * BLOCK, 3 * BLOCK]


def test_a_file_that_is_replaced_while_it_comes_isnt_put_together_of_two(tmp_path: Path, data: MemoryData):
    data.tells_sha256 = False
    content = data.files["set/large"] = os.urandom(3 * PIECE)
    tag = f'W/"{hashlib.md5(content, usedforsecurity=False).hexdigest()}"'

    def replaced(_asked: Asked) -> None:  # The first answer has its bytes already.
        data.files["set/large"] = bytes(len(content))

    data.spoil = replaced
    with pytest.raises(ConflictError, match="isn't what it was"):
        fetch(tmp_path, data, FetchTimeouts(), tag=tag)


class Relaying(Server):
    """A server that hands on what the store keeps, byte for byte."""

    @contextlib.contextmanager
    def input_file(self, name: str, path: str, *span: int) -> Generator[Any]:
        offset, length = span
        body = io.BytesIO(self._data.files[f"set/{path}"][offset : offset + length])
        yield SimpleNamespace(length=None, read1=body.read1, read=body.read)


@pytest.mark.parametrize("size", [SMALL - 1, SMALL + 1], ids=["small", "large"])
def test_a_file_that_its_store_unpacks_on_the_way_comes_as_it_is_kept(tmp_path: Path, data: MemoryData, size: int):
    data.tells_sha256 = False
    packed = data.files["set/large"] = os.urandom(size)
    unpacked = os.urandom(2 * size)
    data.spoil = lambda _asked: Answer(200, unpacked, is_chunked=True)
    assert fetch(tmp_path, data, FetchTimeouts(), Relaying(data), tag="1700000000000001") == packed


def test_a_mounted_file_that_its_store_unpacks_is_read_as_it_is_kept(data: MemoryData):
    data.tells_sha256 = False
    data.spoil = lambda _asked: Answer(200, os.urandom(2 * len(LARGE)), is_chunked=True)
    file = data.listing(f"{ROOT}/set", is_file=False).files[0]
    link: Any = Relaying(data)
    reader = RangeReader("train", [file], lambda: link, FetchTimeouts())
    with contextlib.closing(reader.store()) as store:
        assert b"".join(reader.read(store, file, BLOCK, 1000)) == LARGE[BLOCK : BLOCK + 1000]


@pytest.mark.parametrize("moved", ["set/größe 中", "set/gr%C3%B6%C3%9Fe%20%E4%B8%AD"], ids=["as it is", "encoded"])
def test_a_redirect_to_an_address_beyond_ascii_is_followed(tmp_path: Path, data: MemoryData, moved: str):
    content = data.files["set/größe 中"] = data.files["set/large"] = os.urandom(1000)
    location = f"/{moved}?token=first".encode().decode("latin-1")
    data.spoil = lambda asked: Answer(302, b"", headers={"Location": location}) if asked.path == "set/large" else None
    assert fetch(tmp_path, data, FetchTimeouts()) == content


@pytest.mark.parametrize("url", ["http://127.0.0.1:9/größe", "http://127.0.0.1:port", "http://[::1", "http://a..b"])
def test_an_address_that_cannot_be_sent_is_left_for_the_server(tmp_path: Path, data: MemoryData, url: str):
    content = data.files["set/large"]
    data.link = lambda *_: Link(url)  # pyright: ignore[reportAttributeAccessIssue]
    assert fetch(tmp_path, data, FetchTimeouts(), Relaying(data)) == content


@pytest.mark.feature("F10")
def test_a_store_that_always_stops_is_named_in_the_end(tmp_path: Path, data: MemoryData):
    stalling = Stalling(data, blocks=0, always=True)
    host = data.url.removeprefix("http://")
    try:
        with pytest.raises(UnreachableError) as raised:
            fetch(tmp_path, data, FetchTimeouts(timeout_s=2, give_up_s=5))
    finally:
        stalling.is_over.set()
    # Its last try may have been cut off before the first byte of the answer.
    ways = (f"nothing came for 2 s ({host})", f"{host} doesn't answer: timed out")
    assert raised.value.what in [f"input train: {way}; no byte came for 5 s" for way in ways]
    assert raised.value.fix == "See whether the nodes and the server reach it, and run the job again."


@pytest.mark.feature("F10")
@pytest.mark.parametrize("size", [SMALL - 1, SMALL + 1], ids=["small", "large"])
@pytest.mark.parametrize(
    ("url", "reason"),
    [("https://store.invalid", "its host name cannot be resolved"), ("http://127.0.0.1:9", "connection refused")],
    ids=["no such host", "refused"],
)
def test_store_that_cannot_be_connected_to_is_given_up_early(
    tmp_path: Path, data: MemoryData, size: int, url: str, reason: str
):
    data.files["set/large"] = os.urandom(size)

    class Relaying(Server):
        def input_file(self, name: str, path: str, *_span: int) -> Any:
            raise NoConnectionError(f"input {name}: `{path}` can't be read: {reason}", where=f"inputs.{name}")

    server = Relaying(data)
    data.url, own = url, data.url
    with pytest.raises(UnreachableError) as raised:
        fetch(tmp_path, data, FetchTimeouts(no_connection_s=0.5, give_up_s=600), server)
    data.url = own
    assert raised.value.what.startswith("input train: ")
    assert reason in raised.value.what
    assert raised.value.what.endswith("; no byte came for 0 s")
    assert raised.value.fix == "See whether the nodes and the server reach it, and run the job again."


@pytest.mark.feature("F10")
def test_store_that_only_does_not_answer_is_waited_for_longer_than_one_that_is_not_there():
    timeouts = FetchTimeouts()
    assert 60 <= timeouts.limit_s(NoConnectionError("")) <= 120
    assert timeouts.limit_s(UnreachableError("")) == 600
    assert FetchTimeouts(give_up_s=60).limit_s(NoConnectionError("")) == 60


@pytest.mark.feature("F10")
@pytest.mark.parametrize("size", [SMALL - 1, SMALL + 1], ids=["small", "large"])
def test_a_server_whose_own_disk_refuses_is_waited_for(tmp_path: Path, data: MemoryData, size: int):
    data.files["set/large"] = os.urandom(size)
    assert fetch(tmp_path, data, FetchTimeouts(), Server(data, 4)) == data.files["set/large"]


@pytest.mark.feature("F10")
@pytest.mark.parametrize("size", [SMALL - 1, SMALL + 1], ids=["small", "large"])
def test_a_server_whose_disk_always_refuses_is_given_up_in_its_words(tmp_path: Path, data: MemoryData, size: int):
    data.files["set/large"] = os.urandom(size)
    with pytest.raises(UnreachableError) as raised:
        fetch(tmp_path, data, FetchTimeouts(give_up_s=1), Server(data, 1000))
    assert str(raised.value) == "/home: the disk is full; no byte came for 1 s. Make room on it."


@pytest.mark.feature("F10")
@pytest.mark.parametrize("size", [SMALL - 1, SMALL + 1], ids=["small", "large"])
def test_what_a_store_refuses_for_good_is_told_at_once(tmp_path: Path, data: MemoryData, size: int):
    data.files["set/large"] = os.urandom(size)
    with pytest.raises(StorageError) as raised:
        fetch(tmp_path, data, FetchTimeouts(), Server(data, 1000, "inputs.train"))
    assert str(raised.value) == "inputs.train: the disk is full. Make room on it."


@pytest.mark.thorough
def test_code_is_waited_for_longer_than_wrong_content_is_while_the_servers_disk_refuses(
    tmp_path: Path, data: MemoryData
):
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        tar.addfile(tarfile.TarInfo("a"))
    digest, said = hashlib.sha256(archive.getvalue()).hexdigest(), list[str]()
    data.files[digest] = archive.getvalue()
    server: Any = Server(data, refusals=9)
    bring(server, digest, str(tmp_path / "code"), said.append)
    assert (tmp_path / "code" / "a").is_file()
    assert said == ["staging waits: the disk is full"] * 9
    data.files[digest] += b"x"
    with pytest.raises(StorageError, match="arrived damaged"):
        bring(server, digest, str(tmp_path / "again"), said.append)

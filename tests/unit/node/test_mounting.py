"""Mounts without a mount: the tree, what WebDAV tells, the measurement's words, and when a folder is the same."""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import xml.etree.ElementTree as ET
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from drumbeat.model import folder_layout
from drumbeat.model.agent import Enrolment, NodeMessage
from drumbeat.model.errors import RefusedError, StorageError
from drumbeat.model.input_listing import ListedFile, Listing
from drumbeat.model.plan import InputPlan, OutputPlan, Plan
from drumbeat.node.host import processes
from drumbeat.node.inputs.fetching.http_client import FetchTimeouts
from drumbeat.node.inputs.input_ways import Ways, format_rates, sees
from drumbeat.node.inputs.mounting import input_reader, unmounting
from drumbeat.node.inputs.mounting.in_place_record import as_seen, note
from drumbeat.node.inputs.mounting.mounts import Mounts
from drumbeat.node.inputs.mounting.read_rates import Rates, measure
from drumbeat.node.inputs.mounting.webdav_server import Dav
from drumbeat.node.inputs.mounting.webdav_tree import Tree
from drumbeat.node.inputs.path_on_compute import appear, vanish

pytestmark = pytest.mark.feature("D2")

CONTENT = {"a": b"0123456789", "d/ü #?%41": b"odd", "d/e/f": b"", "bad": b"???"}
FILES = {path: ListedFile(path, len(content), path) for path, content in CONTENT.items()}
DAV = "{DAV:}"


class RangeReader:
    """As much of the real one as is used."""

    def store(self) -> Any:
        return self

    def close(self) -> None:
        pass

    def read(self, store: Any, file: ListedFile, offset: int, length: int) -> Generator[bytes]:
        if file.path == "bad":
            raise StorageError("it isn't what was listed")
        part = CONTENT[file.path][offset : offset + length]
        yield from (part[at : at + 4] for at in range(0, len(part), 4))


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def dav(said: list[str]) -> Iterator[Dav]:
    made = Dav(Tree(FILES), RangeReader(), "secret", said.append)  # pyright: ignore[reportArgumentType]
    yield made
    made.close()


def ask(dav: Dav, method: str, path: str, token: str = "secret", **headers: str) -> tuple[int, bytes, Any]:
    line = http.client.HTTPConnection(dav.url.removeprefix("http://"), timeout=10)
    try:
        line.request(method, path, headers={"Authorization": f"Bearer {token}", **headers})
        answer = line.getresponse()
        return answer.status, answer.read(), answer.headers
    finally:
        line.close()


def listed(body: bytes) -> dict[str, int | None]:
    """Path to size, None = a folder."""
    found: dict[str, int | None] = {}
    for one in ET.fromstring(body).iter(f"{DAV}response"):
        size = one.findtext(f".//{DAV}getcontentlength")
        found[unquote(one.findtext(f"{DAV}href") or "")] = None if size is None else int(size)
    return found


def test_a_folder_tells_its_entries_with_their_sizes(dav: Dav):
    status, body, _ = ask(dav, "PROPFIND", "/", Depth="1")
    assert status == 207
    assert listed(body) == {"/": None, "/a": 10, "/d/": None, "/bad": 3}
    assert listed(ask(dav, "PROPFIND", "/d/", Depth="1")[1]) == {"/d/": None, "/d/ü #?%41": 3, "/d/e/": None}
    assert listed(ask(dav, "PROPFIND", "/a", Depth="1")[1]) == {"/a": 10}
    assert listed(ask(dav, "PROPFIND", "/d", Depth="0")[1]) == {"/d/": None}
    assert ask(dav, "PROPFIND", "/nope", Depth="0")[0] == 404


@pytest.mark.parametrize(
    ("wanted", "status", "body", "where"),
    [
        ("", 200, b"0123456789", None),
        ("bytes=0-", 206, b"0123456789", "bytes 0-9/10"),
        ("bytes=3-5", 206, b"345", "bytes 3-5/10"),
        ("bytes=8-99", 206, b"89", "bytes 8-9/10"),
        ("bytes=10-", 416, b"", "bytes */10"),
        ("bytes=5-3", 416, b"", "bytes */10"),
    ],
)
def test_ranges(dav: Dav, wanted: str, status: int, body: bytes, where: str | None):
    found = ask(dav, "GET", "/a", **({"Range": wanted} if wanted else {}))
    assert found[:2] == (status, body)
    assert found[2]["Content-Range"] == where


def test_odd_names_and_empty_files(dav: Dav):
    assert ask(dav, "GET", "/d/%C3%BC%20%23%3F%2541")[:2] == (200, b"odd")
    assert ask(dav, "GET", "/d/e/f")[:2] == (200, b"")
    assert ask(dav, "GET", "/d")[0] == 404


@pytest.mark.parametrize("method", ["GET", "PROPFIND", "HEAD"])
def test_metrics_need_the_secret_of_the_address(dav: Dav, method: str):
    assert ask(dav, method, "/a", token="other")[:2] == (403, b"")


@pytest.mark.parametrize("method", ["PUT", "DELETE", "MKCOL", "MOVE"])
def test_nothing_can_be_written(dav: Dav, method: str):
    assert ask(dav, method, "/a")[0] == 501


def test_unreadable_answer_is_reported(dav: Dav, said: list[str]):
    assert ask(dav, "GET", "/bad")[:2] == (410, b"")
    assert said == ["bad can't be read: it isn't what was listed"]


DISK = ", and 800.0 MB/s from this node's disk"
SLOW = "; for data that is read more than once, `mode: download` is faster"


# --- how fast ---------------------------------------------------------------------------------------------------
@pytest.mark.feature("D6")
def test_a_measurement_reads_the_files_and_the_disk(tmp_path: Path):
    (tmp_path / "x").write_bytes(b"x" * 300_000)
    found = measure([str(tmp_path / "x")], str(tmp_path))
    assert found
    assert (found.size, found.files) == (300_000, 1)
    assert found.mount > 0
    assert found.disk > 0
    assert [path.name for path in tmp_path.iterdir()] == ["x"]
    assert measure([], str(tmp_path)) is None


@pytest.mark.feature("D6")
@pytest.mark.parametrize(
    ("rates", "sentence"),
    [
        (Rates(2.5e6, 8e8, 5 << 20, 1), f"is mounted: 2.5 MB/s were read through it (5.2 MB in 1 file){DISK}{SLOW}"),
        (Rates(9e8, 8e8, 16 << 20, 9), f"is mounted: 900.0 MB/s were read through it (16.8 MB in 9 files){DISK}"),
        (Rates(44, 8e8, 2, 1), "is mounted; there is too little of it to measure a rate"),
        (None, "is mounted; there is too little of it to measure a rate"),
    ],
)
def test_the_advice_follows_from_the_measurement(rates: Rates | None, sentence: str):
    assert format_rates(rates) == sentence


# --- the same folder --------------------------------------------------------------------------------------------
def listing_of(folder: Path) -> Listing:
    found = [
        ListedFile(str(path.relative_to(folder)), path.stat().st_size, "k", tag=str(path.stat().st_mtime_ns))
        for path in folder.rglob("*")
        if path.is_file()
    ]
    return Listing(tuple(found))


def test_a_folder_is_the_same_only_with_just_the_same_files(tmp_path: Path):
    (tmp_path / "d").mkdir()
    for name in ("a", "d/b"):
        (tmp_path / name).write_text(name)
    listing = listing_of(tmp_path)
    assert sees(str(tmp_path), listing)
    assert sees(f"{tmp_path}/", listing)
    assert not sees(str(tmp_path / "d"), listing)
    assert not sees(str(tmp_path / "nope"), listing)
    (tmp_path / "more").write_text("more")
    assert not sees(str(tmp_path), listing), "one more"
    (tmp_path / "more").unlink()
    os.utime(tmp_path / "a", ns=(1, 1))
    assert not sees(str(tmp_path), listing), "another time of change"
    assert not sees(str(tmp_path / "empty"), Listing(())), "nothing is no evidence"


def a_plan(*inputs: InputPlan, outputs: tuple[OutputPlan, ...] = ()) -> Plan:
    return Plan("j", "e", "pytorch", 1, 1, "true", (), inputs=inputs, outputs=outputs)


def test_what_is_used_in_place_is_a_path_to_the_ranks(tmp_path: Path):
    one, other = (InputPlan(name, "uri_folder", "azureml://datastores/s/paths/x", "ro_mount") for name in "ab")
    assert as_seen(a_plan(one, other), str(tmp_path)) == a_plan(one, other)
    note(str(tmp_path), "a", "/data/ü x")
    assert [i.uri for i in as_seen(a_plan(one, other), str(tmp_path)).inputs] == ["file:///data/%C3%BC%20x", other.uri]


# --- after an earlier agent ---------------------------------------------------------------------------------------
TRAIN = InputPlan("train", "uri_folder", "azureml://datastores/s/paths/x", "ro_mount", mount=True)
ONE = InputPlan("train", "uri_file", "azureml://datastores/s/paths/x.csv", "ro_mount", "x.csv", mount=True)


def ways(root: Path, said: list[NodeMessage]) -> tuple[Ways, Mounts]:
    enrolment = Enrolment("j", 1, 0, (), "s", str(root), str(root.parent / "keep"), a_plan(TRAIN))
    mounts = Mounts(enrolment, lambda _: None, said.append)
    return Ways(enrolment, lambda: mounts, said.append), mounts


def mounted_before(root: Path, pid: int, born: str) -> Path:
    """An input's folder, and what the one that mounted it wrote of itself."""
    place, folder = root / "inputs" / "train", root / "mounts" / "train"
    for each in (place, folder):
        each.mkdir(parents=True)
    (folder / "state.json").write_text(json.dumps({"pid": pid, "born": born, "is_mounted": True}))
    return place


@pytest.mark.parametrize("planned", [TRAIN, ONE], ids=["folder", "file"])
def test_what_cannot_be_mounted_after_another_start_of_the_machine_leaves_room_for_its_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, planned: InputPlan
):
    """Else the folder that it was mounted on would be taken for the input, empty as it is."""
    monkeypatch.setenv("PATH", str(tmp_path))
    root, said = tmp_path / "root", list[NodeMessage]()
    mounted_before(root, os.getppid(), "another boot 1")
    files = Listing((ListedFile("x.csv", 1, "k"),), is_file=planned.type == "uri_file")
    assert not ways(root, said)[0].has(planned, files, "")
    assert [one.sentence for one in said] == [
        "input train isn't mounted but fetched to the node's disk: this node has no rclone"
    ]
    assert not os.path.lexists(folder_layout.input_path(str(root), planned))
    assert list((root / "inputs").iterdir()) == list((root / "mounts").iterdir()) == []


def test_a_mount_that_is_held_stays_when_the_next_agent_finds_no_rclone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    root, said = tmp_path / "root", list[NodeMessage]()
    with subprocess.Popen(["sleep", "60"]) as holder:
        place = mounted_before(root, holder.pid, processes.birth(holder.pid))
        (place / "x.csv").write_text("1")
        monkeypatch.setenv("PATH", str(tmp_path))
        found, mounts = ways(root, said)
        assert found.has(TRAIN, Listing((ListedFile("x.csv", 1, "k"),)), "")
        mounts.end()
        assert holder.wait(10) != 0
    assert [one.sentence for one in said] == ["input train " + format_rates(None)]


def test_what_is_no_longer_seen_in_place_is_no_longer_used_there(tmp_path: Path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a").write_text("a")
    listing, root = listing_of(tmp_path / "data"), tmp_path / "root"
    root.mkdir()
    one = InputPlan("a", "uri_folder", "azureml://datastores/s/paths/x", "ro_mount")
    found, _ = ways(root, [])
    assert found.has(one, listing, str(tmp_path / "data"))
    assert as_seen(a_plan(one), str(root)) != a_plan(one)
    (tmp_path / "data" / "a").unlink()
    assert not found.has(one, listing, str(tmp_path / "data"))
    assert as_seen(a_plan(one), str(root)) == a_plan(one)


# --- path_on_compute --------------------------------------------------------------------------------------------
@pytest.fixture
def roots(tmp_path: Path) -> list[str]:
    """Of two nodes of one gang."""
    found = [tmp_path / "j.1" / str(node) / "root" for node in (0, 1)]
    for root in found:
        (root / "outputs" / "o").mkdir(parents=True)
    return [str(root) for root in found]


def out(path: Path) -> Plan:
    return a_plan(outputs=(OutputPlan("o", "uri_folder", "rw_mount", appears=str(path)),))


def test_nodes_of_one_machine_share_a_path_and_it_goes_with_the_one_that_made_it(roots: list[str], tmp_path: Path):
    path = tmp_path / "new" / "deep" / "here"
    for root in (*roots, roots[0]):
        appear(out(path), root)
    assert path.resolve() == Path(roots[0], "outputs", "o").resolve()
    vanish(roots[1])
    assert path.is_dir()
    vanish(roots[0])
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_folder_that_nodes_have_links_in_goes_with_the_last_of_them(
    roots: list[str], tmp_path: Path, order: tuple[int, int]
):
    """Each was quicker with one of the links, the first with the folder."""
    folder = tmp_path / "new" / "deep"
    appear(out(folder / "here"), roots[0])
    appear(out(folder / "there"), roots[1])
    for node in order:
        assert folder.is_dir()
        vanish(roots[node])
    assert not (tmp_path / "new").exists()


def test_a_link_that_another_node_makes_at_that_moment_is_shared(
    roots: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    path, lexists, quicker = tmp_path / "here", os.path.lexists, [roots[0]]

    def looked(at: str) -> bool:
        if at == str(path) and quicker:
            appear(out(path), quicker.pop())
        return lexists(at)

    monkeypatch.setattr("os.path.lexists", looked)
    appear(out(path), roots[1])
    assert path.resolve() == Path(roots[0], "outputs", "o").resolve()


def test_a_link_of_a_gang_that_is_gone_is_taken_over_and_one_of_a_living_gang_is_not(roots: list[str], tmp_path: Path):
    path, other = tmp_path / "here", tmp_path / "k.1" / "0" / "root"
    (other / "outputs" / "o").mkdir(parents=True)
    appear(out(path), str(other))
    with pytest.raises(RefusedError, match="there is something at"):
        appear(out(path), roots[0])
    other.rename(tmp_path / "gone")
    appear(out(path), roots[0])
    assert path.resolve() == Path(roots[0], "outputs", "o").resolve()


def test_a_link_of_another_machine_on_a_shared_disk_is_left_alone(
    roots: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    path, other = tmp_path / "here", tmp_path / "k.1" / "0" / "root"
    (other / "outputs" / "o").mkdir(parents=True)
    with monkeypatch.context() as there:
        there.setattr("drumbeat.node.inputs.path_on_compute._ours", lambda: "appears/another-host")
        appear(out(path), str(other))
    other.rename(tmp_path / "on its own disk")
    with pytest.raises(RefusedError, match="there is something at"):
        appear(out(path), roots[0])
    assert path.readlink() == other / "appears" / "another-host" / "outputs.o"


def test_folders_that_something_was_put_into_stay(roots: list[str], tmp_path: Path):
    path = tmp_path / "new" / "here"
    appear(out(path), roots[0])
    (tmp_path / "new" / "mine").write_text("mine")
    vanish(roots[0])
    assert [one.name for one in (tmp_path / "new").iterdir()] == ["mine"]


# --- clearing ---------------------------------------------------------------------------------------------------
def test_clearing_a_folder_without_mounts_touches_nothing(tmp_path: Path):
    assert unmounting.clear(str(tmp_path)) == []
    assert unmounting.mounted(str(tmp_path)) == []
    assert "/proc" in unmounting.mounted("/")


def test_a_holder_whose_pid_is_somebody_else_s_now_is_left_alone(tmp_path: Path):
    held = tmp_path / "mounts" / "data"
    held.mkdir(parents=True)
    (held / "state.json").write_text(json.dumps({"pid": os.getppid(), "born": "another boot 1"}))
    assert unmounting.clear(str(tmp_path), 5.0) == []
    assert not held.exists()


class TroubledStore:
    """Raises these, one for each read, before it gives the bytes."""

    def __init__(self, *troubles: StorageError) -> None:
        self._troubles = list(troubles)

    def read(self, _want: Any, offset: int, length: int, on_answer: Any) -> Generator[bytes]:
        if self._troubles:
            raise self._troubles.pop(0)
        on_answer(True)
        yield CONTENT["a"][offset : offset + length]


def read_mounted(store: Any) -> bytes:
    reader = input_reader.RangeReader("train", [FILES["a"]], lambda: store, FetchTimeouts())
    return b"".join(reader.read(store, FILES["a"], 2, 3))


def test_mount_waits_for_a_server_whose_own_disk_fails_as_staging_does():
    full = StorageError("the server's disk is full", where="/srv/drumbeat")
    assert read_mounted(TroubledStore(full, full)) == b"234"


def test_mount_doesnt_wait_for_a_store_that_refuses():
    with pytest.raises(StorageError, match="has changed"):
        read_mounted(TroubledStore(StorageError("a has changed", where="inputs.train")))

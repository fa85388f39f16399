"""Inputs that lie in a store come to the nodes: whole, once, checked, read-only; and what a store can do wrong."""

from __future__ import annotations

import contextlib
import hashlib
import os
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from drumbeat.model.errors import AwayError, StorageError
from drumbeat.model.failpoints import ELSEWHERE
from drumbeat.model.input_listing import Link, ListedFile
from tests.support.memory_data import Answer, Asked, MemoryData

from .depot import Depot, a_depot, remote
from .house import until

BIG = os.urandom(5 << 20)
FILES = {"set/a.txt": b"first\n", "set/deep/er/b.bin": BIG, "set/empty": b"", "set/ü &#?%.txt": b"odd name", "x": b"-"}
SHOW = "find . -type f -printf '%P %s %m\\n' | LC_ALL=C sort"


@pytest.fixture
def data() -> Iterator[MemoryData]:
    with MemoryData(FILES) as data:
        yield data


@pytest.fixture
def depot(tmp_path: Path, data: MemoryData, monkeypatch: pytest.MonkeyPatch) -> Iterator[Depot]:
    monkeypatch.setenv("DRUMBEAT_CACHE", str(tmp_path / "cache"))
    with a_depot(tmp_path, data) as depot:
        yield depot


@pytest.mark.feature("D2", "D5")
@pytest.mark.parametrize("is_linked", [True, False], ids=["by links", "through the server"])
def test_a_folder_comes_whole_and_read_only_and_only_once(depot: Depot, is_linked: bool):
    depot.data.is_linked = is_linked
    show = "cd ${{inputs.train}} && " + SHOW + " && sha256sum deep/er/b.bin && stat -c %a . deep"
    first = depot.completed(depot.submit("one", show, remote("train", "set")))
    assert first.splitlines()[:4] == ["a.txt 6 444", f"deep/er/b.bin {len(BIG)} 444", "empty 0 444", "ü &#?%.txt 8 444"]
    assert first.splitlines()[-2:] == ["555", "555"]
    fetched, listings = len(depot.data.asked), depot.data.listings
    assert (fetched > 0) is is_linked
    assert depot.completed(depot.submit("two", show, remote("train", "set"))) == first
    assert (len(depot.data.asked), depot.data.listings) == (fetched, listings + 1)
    assert depot.parts() == []
    until(lambda: not depot.root("one").parent.parent.exists(), what="the end of its folder")


@pytest.mark.feature("D2")
def test_a_file_has_its_own_name_and_an_address_is_given_as_it_is(depot: Depot):
    command = "echo ${{inputs.one}}; cat ${{inputs.one}}; echo ${{inputs.there}} $AZURE_ML_INPUT_there"
    inputs = remote("one", "set/a.txt", type="uri_file"), remote("there", "nowhere", mode="direct")
    said = depot.completed(depot.submit("file", command, *inputs))
    address = "memory://store/nowhere"
    assert said.splitlines() == [f"{depot.root('file')}/inputs/one/a.txt", "first", f"{address} {address}"]


def hash_of(depot: Depot, name: str, path: str = "set") -> None:
    """Runs a job to its good end, which has the right bytes."""
    said = depot.completed(depot.submit(name, "cat ${{inputs.train}}/deep/er/b.bin | sha256sum", remote("train", path)))
    assert said.split()[0] == hashlib.sha256(BIG).hexdigest()
    assert depot.parts() == []


@pytest.mark.feature("D2")
def test_a_store_that_breaks_off_is_gone_on_with_where_it_stopped(depot: Depot):
    broken = 0

    def spoil(asked: Asked) -> Answer | None:
        nonlocal broken
        broken += asked.length > 500_000
        return Answer(206, cut=400_000) if asked.length > 500_000 else None

    depot.data.spoil = spoil
    hash_of(depot, "half")
    assert broken >= 10
    assert depot.data.sent < len(BIG) * 1.2, "what had come wasn't fetched again"


@pytest.mark.feature("F10")
@pytest.mark.parametrize("status", [503, 429, 500])
def test_a_store_in_trouble_is_waited_for_and_said(depot: Depot, status: int):
    is_well = threading.Event()
    depot.data.spoil = lambda _asked: None if is_well.is_set() else Answer(status, b"busy")
    depot.submit("busy", "cat ${{inputs.train}}/a.txt", remote("train", "set"))
    until(lambda: f"waits: input train: the store answers {status}" in depot.detail("busy"), what="a word of it")
    assert depot.job("busy").state == "staging"
    is_well.set()
    assert depot.completed("busy") == "first\n"


@pytest.mark.feature("F5", "F10")
@pytest.mark.parametrize("error", [AwayError, StorageError], ids=["database", "disk"])
def test_a_server_whose_own_store_cannot_answer_is_waited_for(
    depot: Depot, monkeypatch: pytest.MonkeyPatch, error: type[StorageError]
):
    keep, refused = depot.control.artifacts.keep_text, list[str]()

    def refuse(job: str, path: str, text: str) -> str:
        if len(refused) < 3:
            refused.append(path)
            raise error("it refused")
        return keep(job, path, text)

    monkeypatch.setattr(depot.control.artifacts, "keep_text", refuse)
    hash_of(depot, "patient")
    assert len(refused) == 3


@pytest.mark.feature("D2")
def test_wrong_bytes_are_fetched_again(depot: Depot):
    wrong = iter([True, True])
    bad = lambda asked: Answer(body=b"?" * asked.length) if asked.length > 1000 and next(wrong, False) else None  # noqa: E731
    depot.data.spoil = bad
    hash_of(depot, "wrong")


@pytest.mark.feature("D2")
def test_bytes_that_are_always_wrong_are_never_shown_as_whole(depot: Depot):
    depot.data.is_linked = True
    depot.data.spoil = lambda asked: Answer(body=b"?" * asked.length) if asked.path.endswith("a.txt") else None
    depot.data.read = lambda *_asked: iter([b"wrong!"])  # pyright: ignore[reportAttributeAccessIssue]
    job = depot.ended(depot.submit("bad", "true", remote("train", "set")))
    assert job.state == "failed"
    assert "input train: a.txt came 4 times with other bytes than were listed" in job.sentence
    names = {path.name for path in depot.kept()}
    assert hashlib.sha256(b"first\n").hexdigest() not in names
    assert all(hashlib.sha256(path.read_bytes()).hexdigest() == path.name for path in depot.kept())


@pytest.mark.feature("D2")
def test_a_link_that_has_expired_is_asked_for_anew(depot: Depot):
    def spoil(asked: Asked) -> None:
        depot.data.token = "second"

    depot.data.spoil = spoil
    hash_of(depot, "late")
    assert {asked.token for asked in depot.data.asked} == {"first", "second"}


@pytest.mark.feature("D2")
@pytest.mark.parametrize("change", ["other bytes", "shorter", "gone"])
def test_content_that_has_changed_since_it_was_listed_is_refused(depot: Depot, change: str):
    link = depot.data.link

    def change_it(uri: str, file: ListedFile, lifetime_s: float) -> Link | None:
        if change == "gone":
            depot.data.files.pop("set/a.txt", None)
        else:
            depot.data.files["set/a.txt"] = b"other!" if change == "other bytes" else b"o"
        return link(uri, file, lifetime_s)

    depot.data.link = change_it
    job = depot.ended(depot.submit("changed", "true", remote("train", "set")))
    assert job.state == "failed"
    said = "there is nothing at" if change == "gone" else "a.txt isn't what it was when the job was made"
    assert f"input train: {said}" in job.sentence


@pytest.mark.feature("D2")
def test_nothing_there_fails_the_job_in_a_sentence(depot: Depot):
    job = depot.ended(depot.submit("none", "true", remote("train", "nothing")))
    assert job.state == "failed"
    assert "input train: there is nothing at memory://store/nothing" in job.sentence


# --- several jobs, one cache ------------------------------------------------------------------------------------
@pytest.mark.feature("D5")
def test_two_jobs_at_once_fetch_the_same_input_once(depot: Depot):
    go = threading.Event()
    depot.data.spoil = lambda asked: Answer(pause=lambda: go.wait(60)) if asked.length > 1000 else None
    inputs = remote("train", "set/deep")
    for name in ("one", "two"):
        depot.submit(name, "cat ${{inputs.train}}/er/b.bin | wc -c", inputs)
    until(lambda: depot.data.listings == 2, what="both jobs' staging")
    until(lambda: len(list((depot.cache / "pins").glob("*"))) == 2, what="both jobs' pins")
    go.set()
    for name in ("one", "two"):
        assert depot.completed(name).split() == [str(len(BIG))]
    assert depot.data.sent == len(BIG)
    until(lambda: not list((depot.cache / "pins").glob("*")), what="the end of the pins of jobs that have ended")


HOLD = "touch {0}/held; until test -e {0}/go; do sleep 0.05; done; sha256sum ${{{{inputs.train}}}}/b"


@pytest.mark.feature("D5")
def test_what_a_running_job_uses_stays_and_what_nobody_uses_makes_way(
    depot: Depot, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    for name in ("one", "two", "three"):
        depot.data.files[f"{name}/b"] = name.encode() * 1000
    monkeypatch.setenv("DRUMBEAT_CACHE_BYTES", "9000")
    depot.submit("holds", HOLD.format(tmp_path), remote("train", "three"))  # 5,000 of them.
    until((tmp_path / "held").exists, what="its ranks")
    size = "wc -c < ${{inputs.train}}/b"
    assert depot.completed(depot.submit("first", size, remote("train", "one"))) == "3000\n"
    until(lambda: not depot.root("first").exists(), what="the end of its folder")
    assert depot.completed(depot.submit("second", size, remote("train", "two"))) == "3000\n"
    held, kept = {len(b"three") * 1000, 3000}, sorted(path.stat().st_size for path in depot.kept())
    assert set(kept) == held
    assert len(kept) == 2, "the first job's made way"
    (tmp_path / "go").touch()
    assert depot.completed("holds").split()[0] == hashlib.sha256(b"three" * 1000).hexdigest()


@pytest.mark.feature("D5")
def test_a_full_cache_is_waited_for_and_said_and_too_much_is_refused(
    depot: Depot, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    depot.data.files.update({"three/b": b"three" * 1000, "other/b": b"other" * 1000, "huge/b": b"x" * 20000})
    monkeypatch.setenv("DRUMBEAT_CACHE_BYTES", "9000")
    job = depot.ended(depot.submit("huge", "true", remote("train", "huge")))
    assert "20.0 kB of inputs are more than the cache may hold, 9.0 kB" in job.sentence
    assert depot.data.asked == [], "before anything is fetched"
    depot.submit("holds", HOLD.format(tmp_path), remote("train", "three"))
    until((tmp_path / "held").exists, what="its ranks")
    depot.submit("waits", "wc -c < ${{inputs.train}}/b", remote("train", "other"))
    until(lambda: "the cache is full: 5.0 kB of it are in use by holds" in depot.detail("waits"), what="a word of it")
    (tmp_path / "go").touch()
    depot.completed("holds")
    assert depot.completed("waits") == "5000\n"


@pytest.mark.feature("D5")
def test_what_somebody_wrote_into_is_fetched_again(depot: Depot):
    hash_of(depot, "one")
    (big,) = [path for path in depot.kept() if path.stat().st_size == len(BIG)]
    big.chmod(0o600)
    big.write_bytes(b"?" * len(BIG))
    hash_of(depot, "two")


# --- the node's disk, and kill -9 -------------------------------------------------------------------------------
@pytest.fixture
def small_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """16 MiB, as the cache's disk."""
    if os.geteuid() != 0:
        pytest.skip("mounting a small disk needs root")
    place = tmp_path / "small"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m", "drumbeat-test", place], check=True)
    monkeypatch.setenv("DRUMBEAT_CACHE", str(place))
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", place], check=True)


@pytest.mark.feature("F10")
def test_a_disk_that_fills_up_meanwhile_is_named_and_nothing_partial_stays(
    tmp_path: Path, small_disk: Path, data: MemoryData, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("DRUMBEAT_CACHE_BYTES", "16000000")

    def spoil(asked: Asked) -> None:
        with contextlib.suppress(OSError), (small_disk / "filler").open("ab") as filler:
            for _ in range(16):
                filler.write(b"x" * (1 << 20))

    with a_depot(tmp_path, data) as depot:
        data.spoil = spoil
        job = depot.ended(depot.submit("full", "true", remote("train", "set")))
        assert job.state == "failed"
        assert "the cache can't be written: No space left on device" in job.sentence
        assert [path.name for path in depot.parts() if path.stat().st_size == len(BIG)] == []
        (small_disk / "filler").unlink()
        data.spoil = lambda _asked: None
        hash_of(depot, "room")


@pytest.mark.feature("F10")
def test_a_disk_that_is_too_small_is_refused_before_anything_is_fetched(
    tmp_path: Path, small_disk: Path, data: MemoryData, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("DRUMBEAT_CACHE_BYTES", "100000000")
    data.files["set/more"] = b"m" * (12 << 20)
    with a_depot(tmp_path, data) as depot:
        job = depot.ended(depot.submit("small", "true", remote("train", "set")))
        assert "17.8 MB are still to be fetched, and the disk has room for" in job.sentence
        assert data.asked == []


SHOWN = ("cache.piece", "cache.renamed")
"""Points at which `make test` kills an agent; `make thorough` does so at each."""


@pytest.mark.feature("D5")
@pytest.mark.parametrize(
    "point",
    [
        pytest.param(point, marks=() if point in SHOWN else pytest.mark.thorough)
        for point in ELSEWHERE
        if point.startswith("cache.")
    ],
)
def test_an_agent_that_is_killed_at_a_point_is_followed_by_one_that_goes_on(
    depot: Depot, point: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    depot.data.files["old/b"] = b"old"
    monkeypatch.setenv("DRUMBEAT_CACHE_BYTES", str(len(BIG) + 1000))
    for name in ("filler", "old"):
        depot.data.files[f"{name}/b"] = name.encode() * 150_000
        depot.completed(depot.submit(name, "true", remote("train", name)))
        until(lambda done=name: not depot.root(done).exists(), what="the end of its folder")
    fault = tmp_path / "fault"
    # Each file is checked and renamed: at the last one the large one has come.
    times = {"cache.piece": 2, "cache.checked": 4, "cache.renamed": 4}
    fault.write_text(f"{point}:{times.get(point, 1)}")
    monkeypatch.setenv("DRUMBEAT_FAULT", f"@{fault}")
    sent = depot.data.sent
    hash_of(depot, "killed")
    assert not fault.exists(), "it was never passed"
    assert depot.data.sent - sent < len(BIG) + (5 << 20), "what was there wasn't fetched again"
    assert sum(path.stat().st_size for path in depot.kept()) <= len(BIG) + 1000

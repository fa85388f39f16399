"""Inputs that are mounted: what the ranks see, how fast it is said to be, and that no mount outlives anything."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from drumbeat.model.failpoints import ELSEWHERE
from drumbeat.node.host.processes import is_alive, kill_all
from drumbeat.node.inputs.mounting.unmounting import mounted, state, unmount
from tests.support.memory_data import Answer, Asked, MemoryData
from tools import debian_packages

from .depot import Depot, a_depot, remote
from .house import until

pytestmark = [pytest.mark.feature("D2"), pytest.mark.xdist_group("mounts")]

BIG = os.urandom(5 << 20)
FILES = {
    "set/a.txt": b"first\n", "set/deep/er/b.bin": BIG, "set/empty": b"", "set/ü &#?%41.txt": b"odd name",
    "set/odd/ lead": b"1", "set/odd/trail ": b"2", "set/odd/a:b*c|d<e>\"f'": b"3", "set/odd/tab\there": b"4",
    "set/odd/back\\slash": b"5", "set/odd/e\u0301": b"6", "set/odd/\u00e9": b"7", "set/odd/\u201bq\uff1a": b"8",
    "set/odd/~+;&=": b"9", "set/odd/.hidden": b"0",
}  # fmt: skip
SHOW = "find . -type f -printf '%P %s %m\\n' | LC_ALL=C sort"
HOLD = "touch {0}/held; until test -e {0}/go; do sleep 0.05; done; sha256sum ${{{{inputs.train}}}}/deep/er/b.bin"


@pytest.fixture(scope="module", autouse=True)
def tools() -> None:
    """rclone and FUSE, installed where the tests may."""
    if not (Path("/dev/fuse").exists() and os.access("/dev/fuse", os.R_OK | os.W_OK)):
        pytest.skip("mounting needs /dev/fuse, which this user can open")
    if not (shutil.which("rclone") and shutil.which("fusermount3")):
        debian_packages.install("rclone", "fuse3")
    if not (shutil.which("rclone") and shutil.which("fusermount3")):
        pytest.skip("mounting needs rclone and fusermount3 (Debian: apt-get install rclone fuse3)")


@pytest.fixture
def data() -> Iterator[MemoryData]:
    with MemoryData(FILES) as data:
        yield data


@pytest.fixture
def depot(tmp_path: Path, data: MemoryData, monkeypatch: pytest.MonkeyPatch) -> Iterator[Depot]:
    monkeypatch.setenv("DRUMBEAT_CACHE", str(tmp_path / "cache"))
    try:
        with a_depot(tmp_path, data) as depot:
            yield depot
        assert mounted(str(tmp_path)) == [], "a mount outlived its job"
    finally:
        for point in mounted(str(tmp_path)):
            unmount(point)


def story(depot: Depot, name: str) -> list[str]:
    return [entry.sentence for entry in depot.control.store.events(name)]


def gone(depot: Depot, name: str) -> None:
    until(lambda: not depot.root(name).parent.parent.exists(), what="the end of its folder")
    assert mounted(str(depot.folder)) == []


@pytest.mark.parametrize("is_linked", [True, False], ids=["by links", "through the server"])
def test_a_mount_shows_every_name_read_only_and_fetches_nothing(depot: Depot, is_linked: bool):
    depot.data.is_linked = is_linked
    show = "cd ${{inputs.train}} && " + SHOW + " && sha256sum deep/er/b.bin && stat -c %a . deep && cat odd/*q* && "
    show += "if touch x 2>/dev/null; then echo written; fi"
    said = depot.completed(depot.submit("one", show, remote("train", "set", mount=True))).splitlines()
    listed = sorted(f"{path.removeprefix('set/')} {len(content)} 444" for path, content in FILES.items())
    assert sorted(said[: len(FILES)]) == listed
    assert said[len(FILES)].split()[0] == hashlib.sha256(BIG).hexdigest()
    assert said[len(FILES) + 1 :] == ["555", "555", "8"]
    assert depot.kept() == [], "nothing lies in the cache"
    gone(depot, "one")


def test_a_file_has_its_own_name_and_a_part_of_it_is_read_without_the_rest(depot: Depot):
    command = "echo ${{inputs.one}}; tail -c 100 ${{inputs.one}} | sha256sum"
    said = depot.completed(
        depot.submit("file", command, remote("one", "set/deep/er/b.bin", type="uri_file", mount=True))
    )
    place, digest = said.splitlines()
    assert place == f"{depot.root('file')}/inputs/one/b.bin"
    assert digest.split()[0] == hashlib.sha256(BIG[-100:]).hexdigest()


@pytest.mark.feature("D6")
def test_the_story_says_how_fast_it_is_beside_the_disk_and_what_to_do(depot: Depot):
    depot.data.spoil = lambda asked: Answer(pause=lambda: threading.Event().wait(0.02)) if asked.length > 1000 else None
    depot.completed(depot.submit("slow", "true", remote("train", "set", mount=True)))
    (said,) = [line for line in story(depot, "slow") if "input train" in line]
    found = re.fullmatch(
        r"node 0: input train is mounted: ([\d.]+) (\w+)/s were read through it \(\d[^)]+ files?\), and "
        r"([\d.]+) (\w+)/s from this node's disk(; for data that is read more than once, `mode: download` is faster)?",
        said,
    )
    assert found, said
    size = {"GB": 1e3, "MB": 1.0, "kB": 1e-3}
    rate, disk = float(found[1]) * size[found[2]], float(found[3]) * size[found[4]]
    assert rate < 4, "64 KiB in 20 ms are 3.3 MB/s, and a busy machine has less"
    assert found[5] or disk <= rate, said


def test_a_node_without_rclone_fetches_it_and_says_so(depot: Depot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in ("bash", "cat", "sh"):
        (programs / name).symlink_to(shutil.which(name) or name)
    monkeypatch.setenv("PATH", str(programs))
    said = depot.completed(depot.submit("bare", "cat ${{inputs.train}}/a.txt", remote("train", "set", mount=True)))
    assert said == "first\n"
    wanted = "node 0: input train isn't mounted but fetched to the node's disk: this node has no rclone"
    assert wanted in story(depot, "bare")
    assert len(depot.kept()) == len({hashlib.sha256(content).digest() for content in FILES.values()})


def test_two_ranks_of_two_nodes_read_mounts_of_their_own(depot: Depot):
    depot.submit("two", "cat ${{inputs.train}}/deep/er/b.bin | sha256sum", remote("train", "set", mount=True), nodes=2)
    assert depot.ended("two").state == "completed"
    for node in (0, 1):
        said = depot.control.artifacts.open_file("two", f"logs/1.1/{node}/{node}.log").read_text()
        assert said.split()[0] == hashlib.sha256(BIG).hexdigest()
    assert len([line for line in story(depot, "two") if "input train is mounted" in line]) == 1
    gone(depot, "two")


# --- what a store can do wrong ----------------------------------------------------------------------------------
def test_a_link_that_has_expired_is_asked_for_anew(depot: Depot):
    def spoil(asked: Asked) -> None:
        depot.data.token = "second"

    depot.data.spoil = spoil
    read = "cat ${{inputs.train}}/a.txt && sha256sum ${{inputs.train}}/deep/er/b.bin"
    said = depot.completed(depot.submit("late", read, remote("train", "set", mount=True)))
    assert said.split()[:2] == ["first", hashlib.sha256(BIG).hexdigest()]
    assert {asked.token for asked in depot.data.asked} == {"first", "second"}


@pytest.mark.feature("F10")
def test_a_store_that_breaks_off_or_is_in_trouble_is_waited_for(depot: Depot):
    troubles = iter([Answer(503, b"busy"), Answer(206, cut=100_000), Answer(429, b""), Answer(206, cut=70_000)] * 3)
    depot.data.spoil = lambda asked: next(troubles, None) if asked.length > 1000 else None
    read = "sha256sum ${{inputs.train}}/deep/er/b.bin"
    said = depot.completed(depot.submit("ill", read, remote("train", "set", mount=True)))
    assert said.split()[0] == hashlib.sha256(BIG).hexdigest()


def test_content_that_has_changed_is_never_read_and_the_story_names_it(depot: Depot, tmp_path: Path):
    depot.data.is_linked = False
    command = f"touch {tmp_path}/held; until test -e {tmp_path}/go; do sleep 0.05; done; cat ${{{{inputs.train}}}}/more"
    depot.data.files["set/more"] = b"as it was listed"
    depot.submit("changed", command, remote("train", "set", mount=True))
    until((tmp_path / "held").exists, what="its ranks")
    depot.data.files["set/more"] = b"something else!!"
    drop_pages()
    (tmp_path / "go").touch()
    job = depot.ended("changed")
    assert job.state == "failed"
    assert "else" not in depot.log("changed")
    assert any("input train: more can't be read" in line for line in story(depot, "changed")), story(depot, "changed")


def drop_pages() -> None:
    """What the measurement has read is in memory."""
    if os.geteuid() != 0:
        pytest.skip("emptying the page cache needs root")
    Path("/proc/sys/vm/drop_caches").write_text("1")


# --- mounts of others -------------------------------------------------------------------------------------------
ANEW = """
import ctypes, os, subprocess, sys
from drumbeat.node.inputs.input_stager import InputStager
from drumbeat.model.agent import Enrolment
from drumbeat.model.errors import StorageError
from drumbeat.model.plan import Plan
import drumbeat.node.inputs.mounting.unmounting  # As nobody nothing can be imported.
if sys.argv[1] == "nobody":
    os.setuid(65534)
plan = Plan("j", "e", "pytorch", 1, 1, "true", ())
try:
    InputStager(Enrolment("j", 1, 0, (), "s", "root", "keep", plan), None, print).stage()
except StorageError as error:
    print(error.what)
"""


@pytest.mark.parametrize("user", ["root", "nobody"])
def test_what_is_mounted_in_a_folder_that_is_brought_anew_stays_whole(tmp_path: Path, user: str):
    if os.geteuid() != 0:
        pytest.skip("mounting a folder needs root")
    theirs, code = tmp_path / "theirs", tmp_path / "root" / "code"
    point = code / "deep"
    for folder in (theirs, point):
        folder.mkdir(parents=True)
    (theirs / "file").write_text("theirs")
    for folder, _, _ in os.walk(tmp_path):
        os.chown(folder, 65534, 65534)
    subprocess.run(["mount", "--bind", theirs, point], check=True)
    try:
        command = [sys.executable, "-c", ANEW, user]
        said = subprocess.run(command, cwd=tmp_path, check=True, stdout=subprocess.PIPE, text=True).stdout
        assert (theirs / "file").read_text() == "theirs"
        if user == "root":
            assert (said, [one.name for one in code.iterdir()], mounted(str(tmp_path))) == ("", ["outputs"], [])
        else:
            assert said == "root/code has to be staged again, but something that is mounted there can't be unmounted\n"
            assert mounted(str(tmp_path)) == [str(point)]
    finally:
        for left in mounted(str(tmp_path)):
            unmount(left)


# --- kill -9 ----------------------------------------------------------------------------------------------------
def agent_of(depot: Depot, name: str) -> int:
    return json.loads((depot.root(name).parent / "agent.json").read_text())["pid"]


def supervisor_of(depot: Depot, name: str) -> int:
    """The first of its processes: a namespace's own is a fork of it, and pids begin anew now and then."""
    wanted = str(depot.root(name) / "keeper")
    psutil.process_iter.cache_clear()  # type: ignore[attr-defined] # A pid may be another's by now.
    found = [one for one in psutil.process_iter() if words(one)[-1:] == [wanted] and "supervisor" in words(one)[-2]]
    (supervisor,) = [one for one in found if one.ppid() not in {other.pid for other in found}]
    return supervisor.pid


def rank_of(depot: Depot, name: str) -> int:
    supervisor = psutil.Process(supervisor_of(depot, name))
    return next(one.pid for one in supervisor.children() if any("held" in word for word in words(one)))


def holder_of(depot: Depot, name: str) -> int:
    return state(str(depot.root(name) / "mounts" / "train"))["pid"]


def rclone_of(depot: Depot, name: str) -> int:
    return state(str(depot.root(name) / "mounts" / "train"))["server"]


def words(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


@pytest.fixture
def held(depot: Depot, tmp_path: Path) -> str:
    """A job whose rank waits, and reads then."""
    depot.submit("held", HOLD.format(tmp_path), remote("train", "set", mount=True))
    until((tmp_path / "held").exists, what="its ranks")
    return "held"


def test_an_agent_that_is_killed_takes_no_mount_along(depot: Depot, held: str, tmp_path: Path):
    holder, old = holder_of(depot, held), agent_of(depot, held)
    os.kill(old, signal.SIGKILL)
    until(lambda: agent_of(depot, held) != old, what="another agent")
    drop_pages()
    (tmp_path / "go").touch()
    assert depot.completed(held).split()[0] == hashlib.sha256(BIG).hexdigest()
    gone(depot, held)
    until(lambda: not is_alive(holder), what="the end of its holder")


@pytest.mark.parametrize(
    "point",
    [
        pytest.param(point, marks=() if point == "mount.made" else pytest.mark.thorough)
        for point in ELSEWHERE
        if point.startswith("mount.")
    ],
)
def test_an_agent_that_is_killed_while_it_mounts_is_followed_by_one_that_goes_on(
    depot: Depot, point: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    fault = tmp_path / "fault"
    fault.write_text(point)
    monkeypatch.setenv("DRUMBEAT_FAULT", f"@{fault}")
    read = "sha256sum ${{inputs.train}}/deep/er/b.bin"
    said = depot.completed(depot.submit("killed", read, remote("train", "set", mount=True)))
    assert said.split()[0] == hashlib.sha256(BIG).hexdigest()
    assert not fault.exists(), "it was never passed"
    assert any("input train is mounted: " in line for line in story(depot, "killed"))
    gone(depot, "killed")


def test_a_scheduler_that_tells_every_process_to_go_leaves_the_ranks_their_mount(depot: Depot, tmp_path: Path):
    """SIGTERM to all, as Slurm does: what the ranks read in their grace time is there."""
    command = f"trap 'sleep 0.2; sha256sum ${{{{inputs.train}}}}/deep/er/b.bin; exit 9' TERM; touch {tmp_path}/held; "
    depot.submit("told", command + "while :; do sleep 0.05; done", remote("train", "set", mount=True))
    until((tmp_path / "held").exists, what="its ranks")
    drop_pages()
    for pid in (holder_of(depot, "told"), agent_of(depot, "told")):
        os.kill(pid, signal.SIGTERM)
    until(lambda: hashlib.sha256(BIG).hexdigest() in depot.log("told"), what="what it has read")
    depot.control.jobs.cancel("told", "a test")
    depot.ended("told")
    gone(depot, "told")


def test_a_node_that_is_told_to_go_and_comes_back_has_its_mount_again(depot: Depot, tmp_path: Path):
    """As a host that is started anew in an orderly way does: what its agent took away is there for the next round."""
    again = "sha256sum ${{inputs.train}}/deep/er/b.bin"
    command = f"test -e {tmp_path}/held && exec {again}; touch {tmp_path}/held; while :; do sleep 0.05; done"
    depot.submit("back", command, remote("train", "set", mount=True))
    until((tmp_path / "held").exists, what="its ranks")
    for pid in (holder_of(depot, "back"), agent_of(depot, "back")):
        os.kill(pid, signal.SIGTERM)
    depot.completed("back")
    said = depot.control.artifacts.open_file("back", "logs/1.2/0/0.log").read_text()
    assert said.split()[0] == hashlib.sha256(BIG).hexdigest()
    gone(depot, "back")


@pytest.mark.parametrize(
    "whom", [supervisor_of, rclone_of, *(pytest.param(one, marks=pytest.mark.thorough) for one in (rank_of, holder_of))]
)
def test_whoever_is_killed_the_mount_goes_with_the_job(
    depot: Depot, held: str, tmp_path: Path, whom: Callable[[Depot, str], int]
):
    os.kill(whom(depot, held), signal.SIGKILL)
    (tmp_path / "go").touch()
    depot.ended(held)
    gone(depot, held)


def test_a_holder_that_is_killed_is_followed_by_another_one(depot: Depot, held: str, tmp_path: Path):
    old, place = holder_of(depot, held), depot.root(held) / "inputs" / "train"
    os.kill(old, signal.SIGKILL)

    def is_back() -> bool:
        told = state(str(depot.root(held) / "mounts" / "train"))
        return told["pid"] != old and bool(told.get("is_mounted"))

    until(is_back, what="another mount")
    assert (place / "a.txt").read_text() == "first\n"
    (tmp_path / "go").touch()
    depot.ended(held)


@pytest.mark.parametrize("is_noted", [True, False], ids=["noted", "forgotten"])
@pytest.mark.thorough
def test_what_is_left_when_all_are_killed_is_swept(depot: Depot, held: str, is_noted: bool):
    victims = [agent_of(depot, held), supervisor_of(depot, held), holder_of(depot, held), rclone_of(depot, held)]
    assert mounted(str(depot.folder)) == [str(depot.root(held) / "inputs" / "train")]
    depot.control.stop()  # A server that has gone down looks after nobody.
    kill_all(victims)  # Its holder takes rclone along.
    if not is_noted:
        shutil.rmtree(depot.root(held) / "mounts")
    depot.control.engines["local"].sweep(set[str])
    gone(depot, held)

"""That a job's logs wait on their nodes is said for as long as they do, whichever server takes them then."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from drumbeat.model.agent import Phase, RankExit
from drumbeat.model.errors import StorageError
from drumbeat.server.control import Control, Setting
from drumbeat.server.home_folder import FolderArtifacts
from drumbeat.server.log_storage_errors import LASTS_S, LogStorageErrors
from drumbeat.wiring import SystemClock
from tests.support.fake_clock import FakeClock
from tests.support.fake_engine import FakeEngine
from tests.support.memory_store import JobsDatabase, MemoryStore

from .api_house import House, eventually, served


class Disk(FolderArtifacts):
    """A folder that is full when a test says so."""

    is_full = False

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.settled: list[tuple[str, int, int, int]] = []

    def settle_logs(self, job: str, attempt: int, round: int, node: int) -> None:
        if self.is_full:
            raise StorageError("the disk is full")
        self.settled.append((job, attempt, round, node))
        super().settle_logs(job, attempt, round, node)

    def append_log(self, job: str, path: str, offset: int, data: bytes, *, keep: int = 0) -> int:
        if self.is_full:
            raise StorageError("the disk is full")
        return super().append_log(job, path, offset, data, keep=keep)


@contextmanager
def server(folder: Path, database: JobsDatabase, engine: FakeEngine, clock: FakeClock) -> Iterator[House]:
    """A server over a store and a folder. clock: that of its notices."""
    setting = Setting(MemoryStore(database), Disk(folder), {"local": engine}, SystemClock(), b"k" * 32)
    control = Control(setting)
    control.start()
    try:
        with served(control, folder) as room:
            room.notices = LogStorageErrors(clock.monotonic)
            with House(folder, engine, control, room, "").connected() as house:
                yield house
    finally:
        control.stop()


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def one(tmp_path: Path, clock: FakeClock) -> Iterator[House]:
    with server(tmp_path, JobsDatabase(), FakeEngine(), clock) as house:
        yield house


def refuse(house: House, job: str) -> None:
    agent = house.agent(job)
    disk = house.control.artifacts
    assert isinstance(disk, Disk)
    disk.is_full = True
    address = f"{agent.path}/logs/1.1/0/0.log"
    assert house.http.put(address, params={"offset": 0}, content=b"a\n", headers=agent.headers).status_code == 507
    disk.is_full = False


def notice(house: House, job: str) -> str:
    return house.http.get(f"/api/v1/jobs/{job}").json()["notice"]


@pytest.mark.feature("F10")
def test_logs_that_are_refused_again_and_again_wait(one: House, clock: FakeClock):
    job = one.submit("j")
    for _ in range(4):
        refuse(one, job)
        clock.advance(LASTS_S / 2)
    assert notice(one, job) == "its logs wait on their nodes: the disk is full"
    one.agent(job).log(b"a\n", 0)
    assert notice(one, job) == ""


def test_ended_job_has_no_notice(one: House):
    job = one.submit("j")
    refuse(one, job)
    one.finish(job)
    eventually(lambda: one.http.get(f"/api/v1/jobs/{job}").json()["state"] == "completed")
    assert notice(one, job) == ""


@pytest.mark.feature("M1", "F10")
def test_no_node_is_let_go_before_its_logs_are_on_the_servers_disk(one: House):
    disk = one.control.artifacts
    assert isinstance(disk, Disk)
    job = one.submit("j")
    agent, exits = one.agent(job), (RankExit(0, 0, None, 0.0, 0),)
    for phase in (Phase.ENROLLED, Phase.READY, Phase.RUNNING):
        agent.say(phase)
    disk.is_full = True
    assert agent.sync(agent.status(Phase.ENDED, exits)).status_code == 507
    assert one.http.get(f"/api/v1/jobs/{job}").json()["state"] == "running"
    assert notice(one, job) == "its logs wait for the server's disk: the disk is full"
    disk.is_full = False
    assert agent.say(Phase.ENDED, exits)["order"] == "upload"
    assert notice(one, job) == ""
    agent.say(Phase.UPLOADING, exits)
    agent.say(Phase.UPLOADED, exits)
    eventually(lambda: one.http.get(f"/api/v1/jobs/{job}").json()["state"] == "completed")
    assert disk.settled == [(job, 1, 1, 0)]

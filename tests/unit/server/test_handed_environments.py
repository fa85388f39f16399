"""Who makes an environment, who waits, and what the server keeps of it."""

from __future__ import annotations

import hashlib
import os
import time
import zlib
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from drumbeat.core.lifecycle.job import Job
from drumbeat.core.scheduling.resource_needs import JobPolicy, Need
from drumbeat.launchers import ranks
from drumbeat.model import wire
from drumbeat.model.environment_manifest import LEASE_S, MADE, MAKE, WAIT, EnvironmentFile, EnvironmentManifest
from drumbeat.model.errors import ForbiddenError, NotFoundError, RefusedError, StaleError, UnreachableError
from drumbeat.model.plan import Plan, PythonEnvironment
from drumbeat.server.environments.handed_environments import HandedEnvironments, MakerState
from drumbeat.server.environments.leases import NodeName
from drumbeat.server.home_folder.environment_store import EnvironmentStore, StoreBounds

pytestmark = [pytest.mark.feature("E6")]

KEY = "abc-0123456789abcdef"
MAKER, BESIDE, ELSEWHERE = NodeName("one", 1, 0), NodeName("one", 1, 1), NodeName("two", 1, 0)
BIG = b"big" * 1000
CONTENTS = {hashlib.sha256(data).hexdigest(): data for data in (b"small", BIG)}


def job(user: str = "ann", key: str = "abc") -> Job:
    python = PythonEnvironment(key, "mine") if key else None
    plan = Plan("one", "tests", "pytorch", 1, 1, "true", ranks("pytorch", 1, 1), python=python)
    return replace(Job("one", plan, Need(1, 1), JobPolicy(), datetime.now(UTC)), user=user)


def packed(prefix: str = "/p") -> bytes:
    files = tuple(EnvironmentFile(f"f{at}", len(data), digest) for at, (digest, data) in enumerate(CONTENTS.items()))
    return zlib.compress(wire.dumps(EnvironmentManifest(prefix, files)).encode())


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(tmp_path: Path) -> EnvironmentStore:
    return EnvironmentStore(tmp_path / "environments")


@pytest.fixture
def server(store: EnvironmentStore, clock: Clock) -> HandedEnvironments:
    return HandedEnvironments(store, clock)


def send_all(server: HandedEnvironments, of: Job) -> None:
    for digest, data in CONTENTS.items():
        assert server.append(of, KEY, digest, 0, data) == len(data)


# --- who makes it -------------------------------------------------------------------------------------------------
def test_one_node_makes_it_and_the_others_hear_how_far_it_is(server: HandedEnvironments):
    assert server.ask(job(), MAKER, KEY).state == MAKE
    assert server.ask(job(), MAKER, KEY, MakerState("pip, 64 of 101 packages")).state == MAKE
    said = server.ask(job(), ELSEWHERE, KEY)
    assert (said.state, said.by, said.progress) == (WAIT, "node 0 of one", "pip, 64 of 101 packages")


@pytest.mark.parametrize("says_so", [True, False])
def test_another_node_makes_it_when_the_first_is_gone(server: HandedEnvironments, clock: Clock, says_so: bool):
    server.ask(job(), MAKER, KEY)
    if says_so:
        server.give_up(job(), MAKER, KEY)
    else:
        clock.now = LEASE_S + 1
    assert server.ask(job(), BESIDE, KEY).state == MAKE
    assert server.ask(job(), MAKER, KEY).state == WAIT
    with pytest.raises(StaleError):
        server.offer(job(), MAKER, KEY, packed())


def test_node_that_has_it_hands_it_on_before_another_has_begun_to_make_it(server: HandedEnvironments):
    server.ask(job(), MAKER, KEY)
    assert server.ask(job(), BESIDE, KEY, MakerState(has_it=True)).state == MAKE
    assert server.ask(job(), MAKER, KEY).state == WAIT


def test_node_that_has_begun_to_make_it_goes_on(server: HandedEnvironments):
    server.ask(job(), MAKER, KEY, MakerState("pip, 2 packages found"))
    assert server.ask(job(), BESIDE, KEY, MakerState(has_it=True)).state == WAIT


def test_nodes_of_the_attempt_have_it_from_its_maker_before_the_server_has_it(server: HandedEnvironments):
    server.ask(job(), MAKER, KEY)
    assert server.offer(job(), MAKER, KEY, packed()) == list(CONTENTS)
    said = server.ask(job(), BESIDE, KEY)
    assert (said.state, said.holder) == (MADE, 0)
    assert server.manifest(job(), KEY, said.digest) == packed()
    assert server.ask(job(), ELSEWHERE, KEY).state == WAIT
    with pytest.raises(UnreachableError, match="still sending"):
        server.read(job(), KEY, next(iter(CONTENTS)), 0, 9)


def test_every_node_has_it_when_its_contents_have_come(server: HandedEnvironments, clock: Clock):
    server.ask(job(), MAKER, KEY)
    server.offer(job(), MAKER, KEY, packed())
    assert server.commit(job(), KEY) == list(CONTENTS)
    send_all(server, job())
    assert server.commit(job(), KEY) == []
    clock.now = 1000
    said = server.ask(job(), ELSEWHERE, KEY)
    assert (said.state, said.holder) == (MADE, -1)
    sizes = {digest: len(data) for digest, data in CONTENTS.items()}
    assert server.read_some(job(), KEY, sizes) == CONTENTS


def test_environment_is_handed_on_among_the_jobs_of_one_user_alone(server: HandedEnvironments):
    server.ask(job("ann"), MAKER, KEY)
    server.offer(job("ann"), MAKER, KEY, packed())
    send_all(server, job("ann"))
    server.commit(job("ann"), KEY)
    assert server.ask(job("bob"), ELSEWHERE, KEY).state == MAKE
    with pytest.raises(ForbiddenError):
        server.read(job("bob"), KEY, next(iter(CONTENTS)), 0, 9)


@pytest.mark.parametrize("of", [job(key=""), job(key="xyz")])
def test_node_has_no_say_in_an_environment_that_is_not_its_jobs(server: HandedEnvironments, of: Job):
    with pytest.raises(ForbiddenError):
        server.ask(of, MAKER, KEY)


# --- what the server keeps ----------------------------------------------------------------------------------------
def made(server: HandedEnvironments) -> None:
    server.ask(job(), MAKER, KEY)
    server.offer(job(), MAKER, KEY, packed())
    send_all(server, job())
    server.commit(job(), KEY)


def test_environment_whose_contents_are_gone_is_made_anew(
    server: HandedEnvironments, store: EnvironmentStore, clock: Clock
):
    made(server)
    clock.now = 1000
    digest = server.ask(job(), ELSEWHERE, KEY).digest
    lost, damaged = CONTENTS
    store.path(lost).unlink()
    store.path(damaged).write_bytes(b"x" * len(BIG))
    with pytest.raises(NotFoundError):
        server.read(job(), KEY, lost, 0, 9)
    assert server.ask(job(), ELSEWHERE, KEY, MakerState(rejected=digest)).state == MAKE
    assert server.offer(job(), ELSEWHERE, KEY, packed()) == [lost, damaged]


def test_environment_that_one_node_cannot_use_stays_for_the_others(server: HandedEnvironments, clock: Clock):
    made(server)
    clock.now = 1000
    digest = server.ask(job(), ELSEWHERE, KEY).digest
    assert server.ask(job(), ELSEWHERE, KEY, MakerState(rejected=digest)).state == MAKE
    assert server.ask(job(), BESIDE, KEY).state == MADE


def test_content_that_is_not_what_it_is_called_is_refused(server: HandedEnvironments):
    server.ask(job(), MAKER, KEY)
    server.offer(job(), MAKER, KEY, packed())
    small, big = CONTENTS
    with pytest.raises(RefusedError):
        server.add(job(), KEY, {small: b"other"})
    assert server.append(job(), KEY, big, 0, b"x" * 2000) == 2000
    with pytest.raises(RefusedError):
        server.append(job(), KEY, big, 2000, b"x" * 1000)
    assert server.append(job(), KEY, big, 0, b"") == 0, "it begins again"


@pytest.mark.parametrize("body", [b"", b"{}", zlib.compress(b"[]"), packed()[:-4]])
def test_manifest_that_cannot_be_read_is_refused(server: HandedEnvironments, body: bytes):
    server.ask(job(), MAKER, KEY)
    with pytest.raises(RefusedError):
        server.offer(job(), MAKER, KEY, body)


def put(store: EnvironmentStore, key: str, data: bytes, used_at: float) -> None:
    digest = hashlib.sha256(data).hexdigest()
    manifest = EnvironmentManifest("/p", (EnvironmentFile("f", len(data), digest),))
    store.put_manifest("ann", key, zlib.compress(wire.dumps(manifest).encode()))
    store.add({digest: data})
    store.complete("ann", key)
    for place in (Path(store.path(digest)), *store.path(digest).parents[2].glob(f"manifests/*/{key}")):
        os.utime(place, (used_at, used_at))


def test_least_recently_used_environments_go_beyond_the_size_and_after_their_time(tmp_path: Path):
    now, day = time.time(), 86400.0
    store = EnvironmentStore(tmp_path, StoreBounds(unused_s=30 * day, size=250))
    for at, age in enumerate((40 * day, 3 * day, 2 * day, day)):
        put(store, f"k-{at:016x}", bytes([at]) * 100, now - age)
    gone = store.collect(now)
    assert [place.name for place in gone] == [f"k-{0:016x}", f"k-{1:016x}"]
    assert [
        path.read_bytes()[0] for path in sorted(tmp_path.glob("files/*/*"), key=lambda one: one.stat().st_mtime)
    ] == [2, 3]

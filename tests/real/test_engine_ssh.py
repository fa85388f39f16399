"""The engine over real ssh servers, each on a node of a lab, keeps the engine's promises."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from drumbeat.core.scheduling.resource_needs import Slot
from drumbeat.engines.contract import EngineContract, a_gang, stop
from drumbeat.engines.own_address import route_to
from drumbeat.engines.remote_host import Host
from drumbeat.engines.ssh.engine import SshEngine
from drumbeat.engines.ssh.login import Login
from drumbeat.engines.ssh.ssh_host import SshReach
from drumbeat.jobfile.compute.computes import compute_from
from drumbeat.model.errors import EngineError, UnreachableError
from drumbeat.node.host import processes
from drumbeat.node.host.gangs import living_agent, members
from drumbeat.ports.engines import Engine, Gang
from drumbeat.wiring import EngineContext, make_engine
from tools.sshlab import SshLab, missing, ssh_lab

from .guard import guarded

pytestmark = [pytest.mark.feature("C4")]

PYTHON = str(Path(os.__file__).parents[2] / "bin" / "python3")
"""An interpreter with nothing of ours installed in it."""


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SshLab]:
    if why := missing():
        pytest.skip(why)
    folder = tmp_path_factory.mktemp("ssh")
    with guarded(folder), ssh_lab(folder, "far", 3) as there:
        yield there


def engine_over(hosts: SshLab, **changed: str) -> SshEngine:
    def host(name: str) -> Host:
        reach = SshReach(hosts.login(name, **changed), PYTHON, "~/.drumbeat/node")
        return Host(name, reach, "~/.drumbeat/node/gangs", "~/.drumbeat/node/jobs", cpus=4)

    engine = SshEngine([host(name) for name in hosts.names])
    engine.leave_s = 0.1
    return engine


def folder_of(hosts: SshLab, name: str, gang: str) -> Path:
    return hosts.folder / "homes" / name / ".drumbeat" / "node" / "gangs" / gang


@pytest.fixture
def engine(hosts: SshLab) -> Iterator[SshEngine]:
    engine = engine_over(hosts)
    wait_until(lambda: not any(machine.unusable for machine in engine.machines()))
    yield engine
    for name in hosts.names:
        if not hosts.lab.pid_of(name):
            hosts.lab.switch_on(name)
            wait_until(lambda name=name: hosts.lab.pid_of(name))
            hosts.start(name)
    for name in ("contract.1", "contract.2"):
        stop(engine, name)
    left = [folder_of(hosts, name, gang) for name in hosts.names for gang in ("contract.1", "contract.2")]
    try:
        wait_until(lambda: not [pid for folder in left for pid in members(folder)])
    finally:
        engine.close()  # Its threads end what couldn't be ended at once.


def wait_until(holds: Callable[[], object], within_s: float = 60.0) -> None:
    deadline = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < deadline, "it never came to hold"
        time.sleep(0.05)


def spread(gang: Gang) -> Gang:
    return replace(gang, slots=tuple(Slot(slot.node, f"far-{slot.node + 1}", 1) for slot in gang.slots))


class Spread(SshEngine):
    """Takes the contract's gangs, which know nothing of these hosts."""

    def start(self, gang: Gang) -> str:
        return super().start(spread(gang))

    def observe(self, gang: Gang):
        return super().observe(spread(gang))


class TestSsh(EngineContract):
    @pytest.fixture
    def engine(self, engine: SshEngine) -> SshEngine:
        engine.__class__ = Spread
        return engine

    @pytest.fixture
    def lose(self, hosts: SshLab) -> Callable[[Gang, int], None]:
        def lose(gang: Gang, node: int) -> None:
            # A host that is down says nothing, so nothing is known; what is known is that a disk was emptied.
            folder = folder_of(hosts, f"far-{node + 1}", gang.name)
            while folder.exists() or members(folder):  # Its agent makes files meanwhile.
                shutil.rmtree(folder, ignore_errors=True)
                processes.kill_all(members(folder))

        return lose


def test_nothing_of_ours_is_installed_on_the_hosts(engine: SshEngine, hosts: SshLab):
    done = subprocess.run([PYTHON, "-I", "-c", "import drumbeat"], capture_output=True, check=False)
    assert done.returncode
    (archive,) = (hosts.folder / "homes" / "far-1" / ".drumbeat" / "node" / "agents").iterdir()
    assert archive.suffix == ".pyz"
    assert archive.stat().st_mode & 0o077 == 0


def test_an_agent_that_came_only_in_part_is_none(hosts: SshLab, monkeypatch: pytest.MonkeyPatch):
    """What breaks off is an end like any other for who reads it there."""
    run = SshReach._run

    def broken(self: SshReach, command: str, text: bytes, timeout_s: float) -> subprocess.CompletedProcess[bytes]:
        return run(self, command, text[: len(text) // 2] if len(text) > 10_000 else text, timeout_s)

    reach = SshReach(hosts.login("far-1"), PYTHON, "~/.drumbeat/half")
    monkeypatch.setattr(SshReach, "_run", broken)
    with pytest.raises(EngineError, match="the agent can't be put into"):
        reach.ask("look", {"folder": "~/.drumbeat/half/gangs", "ended": []})
    assert [*(hosts.folder / "homes" / "far-1" / ".drumbeat" / "half" / "agents").iterdir()] == []
    monkeypatch.setattr(SshReach, "_run", run)
    assert reach.ask("look", {"folder": "~/.drumbeat/half/gangs", "ended": []})["cpus"]


@pytest.mark.thorough
def test_computes_and_servers_that_share_a_host_leave_each_other_s_gangs_alone(hosts: SshLab, tmp_path: Path):
    login = hosts.login("far-1")
    document = {
        "type": "ssh", "user": login.user, "identity_file": login.identity, "options": [*login.options],
        "python": PYTHON, "hosts": [{"address": login.address, "name": "far-1", "port": login.port or 22}],
    }  # fmt: skip

    def made(compute: str, server: str) -> Engine:
        (tmp_path / server).mkdir(exist_ok=True)
        return make_engine(
            compute_from({**document, "name": compute}), EngineContext(tmp_path / server, os.environ.copy)
        )

    engines = [made("rack", "one"), made("half", "one"), made("rack", "two")]
    gang = replace(a_gang(), slots=(Slot(0, "far-1", 1),))
    node = hosts.folder / "homes" / "far-1" / ".drumbeat" / "node"
    try:
        for engine in engines:
            wait_until(lambda engine=engine: not engine.machines()[0].unusable)
            engine.start(gang)
        assert len([*node.glob(f"*/gangs/far-1/{gang.name}/0")]) == 3
        swept: list[str] = []

        def left() -> list[Path]:
            return [*node.glob(f"*/gangs/far-1/{gang.name}/0")]

        def has_swept() -> list[str]:
            swept.extend(engines[0].sweep(set[str]))
            return swept

        wait_until(has_swept)
        assert swept == [gang.name]
        wait_until(lambda: len(left()) < 3)  # A process that the kernel doesn't let go of at once.
        assert len(left()) == 2
        assert all(living_agent(folder) for folder in left())
    finally:
        for engine in engines:
            stop(engine, gang.name)
        try:
            wait_until(lambda: not [pid for folder in node.glob("*/gangs/far-1/*") for pid in members(folder)])
        finally:
            for engine in engines:
                engine.close()


def test_what_a_host_has_is_found_out(hosts: SshLab):
    reach = SshReach(hosts.login("far-1"), PYTHON, "~/.drumbeat/node")
    engine = SshEngine([Host("far-1", reach, "~/.drumbeat/node/gangs", "~/.drumbeat/node/jobs")])
    wait_until(lambda: not engine.machines()[0].unusable)
    (machine,) = engine.machines()
    assert (machine.cpus, machine.gpus) == (len(os.sched_getaffinity(0)), ())
    assert machine.memory_mib > 0
    engine.close()


def test_the_server_s_address_is_found_by_the_route(engine: SshEngine, hosts: SshLab):
    assert engine.server_addresses() == [hosts.lab.gateway]
    assert route_to("127.0.0.1", 22) == "127.0.0.1"


@pytest.mark.thorough
def test_a_host_that_is_down_is_unusable_and_no_reason_to_give_a_gang_up(engine: SshEngine, hosts: SshLab):
    gang = spread(a_gang(nodes=2))
    engine.start(gang)
    hosts.lab.set_link("far-2", is_up=False)
    wait_until(lambda: engine.machines()[1].unusable)
    sighting = engine.observe(gang)
    assert (sighting.gone, sighting.word) == ({}, "no answer from far-2")
    hosts.lab.set_link("far-2", is_up=True)
    wait_until(lambda: engine.observe(gang).word == "running")
    assert not engine.machines()[1].unusable


def test_a_host_that_was_started_again_has_a_new_agent(engine: SshEngine, hosts: SshLab):
    gang = spread(a_gang(nodes=2))
    engine.start(gang)
    before = living_agent(folder_of(hosts, "far-2", gang.name) / "1")
    hosts.lab.switch_off("far-2")
    wait_until(lambda: not hosts.lab.pid_of("far-2"))
    wait_until(lambda: engine.machines()[1].unusable)
    hosts.lab.switch_on("far-2")
    wait_until(lambda: hosts.lab.pid_of("far-2"))
    hosts.start("far-2")
    wait_until(lambda: not engine.machines()[1].unusable)
    wait_until(lambda: len(members(folder_of(hosts, "far-2", gang.name))) > 0)
    assert living_agent(folder_of(hosts, "far-2", gang.name) / "1") != before
    assert engine.observe(gang).gone == {}


@pytest.mark.parametrize(
    ("changed", "what", "fix"),
    [
        ({"known": "/dev/null"}, "its host key is unknown to this machine", "Log in once by hand"),
        ({"identity": "other_key"}, "it refuses this user's login", "logs in without a prompt"),
    ],
)
def test_a_login_that_fails_is_told_with_what_to_do(hosts: SshLab, changed: dict[str, str], what: str, fix: str):
    told = {key: value if value[0] == "/" else str(hosts.folder / value) for key, value in changed.items()}
    with pytest.raises(UnreachableError, match=what) as caught:
        SshReach(hosts.login("far-1", **told), PYTHON, "~/node").ask("about", {})
    assert fix in caught.value.fix


@pytest.mark.parametrize(
    ("login", "what"),
    [
        (Login("no-such-host.invalid"), "its name can't be resolved"),
        (Login("127.0.0.1", 9), "no ssh server listens there"),
        (Login("127.0.0.1", 9, options=("NoSuchOption=1",)), "doesn't take these options"),
    ],
)
def test_a_host_that_isn_t_there_is_told(hosts: SshLab, login: Login, what: str):
    with pytest.raises(UnreachableError, match=what):
        SshReach(login, PYTHON, "~/node").ask("about", {})


def test_a_host_without_that_python_is_told_what_to_install(hosts: SshLab):
    with pytest.raises(EngineError, match=r"has no executable program `python9\.9`") as caught:
        SshReach(hosts.login("far-1"), "python9.9", "~/.drumbeat/node").ask("about", {})
    assert "Install Python 3.11" in caught.value.fix


def test_a_folder_that_cannot_be_written_is_told(hosts: SshLab):
    with pytest.raises(EngineError, match="the agent can't be put into /proc/nowhere"):
        SshReach(hosts.login("far-1"), PYTHON, "/proc/nowhere").ask("about", {})

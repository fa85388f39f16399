"""The engine over a lab of network namespaces keeps the engine's promises, and leaves nothing."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from drumbeat.core.scheduling.resource_needs import Slot
from drumbeat.engines.contract import EngineContract, a_gang, stop
from drumbeat.engines.netlab import lab as netlab
from drumbeat.engines.netlab.engine import NetlabEngine
from drumbeat.engines.netlab.lab import Lab, require_tools
from drumbeat.model.api.computes import Machine, NodeState
from drumbeat.model.errors import EngineError
from drumbeat.node.host import processes
from drumbeat.node.host.gangs import living_agent, members
from drumbeat.ports.engines import Gang

from .guard import guarded

pytestmark = [pytest.mark.feature("C7"), pytest.mark.timeout(900)]

HOLDER = "drumbeat.engines.netlab.lab_holder"

try:
    require_tools()
except EngineError as error:
    pytest.skip(str(error), allow_module_level=True)


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    folder = tmp_path_factory.mktemp("lab")
    lab = Lab(folder, "net", 3)
    with guarded(folder):
        yield lab
        interface = lab.blueprint()["interface"]
        lab.close()
    wait_until(lambda: not Path("/sys/class/net", interface).exists())  # The kernel takes its time.
    assert not lab.folder.exists()


@pytest.fixture
def engine(lab: Lab, tmp_path: Path) -> Iterator[NetlabEngine]:
    engine = NetlabEngine(lab, 4, tmp_path / "kept")
    engine.leave_s = 0.1
    wait_until(lambda: not any(machine.unusable for machine in engine.machines()))
    yield engine
    for name in ("contract.1", "contract.2"):
        stop(engine, name)
    wait_until(lambda: not [pid for node in lab.folder.glob("nodes/*/gangs/*") for pid in members(node)])
    for node in lab.blueprint()["nodes"]:
        lab.switch_on(node["name"])
    wait_until(lambda: all(lab.pid_of(node["name"]) for node in lab.blueprint()["nodes"]))
    super(NetlabEngine, engine).close()


def wait_until(holds: Callable[[], object], within_s: float = 120.0) -> None:
    deadline = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < deadline, "it never came to hold"
        time.sleep(0.02)


def spread(gang: Gang) -> Gang:
    """The gang with a machine of the lab for each node."""
    return replace(gang, slots=tuple(Slot(slot.node, f"net-{slot.node + 1}", 1) for slot in gang.slots))


class Spread(NetlabEngine):
    """Takes the contract's gangs, which know nothing of this lab's machines."""

    def start(self, gang: Gang) -> str:
        return super().start(spread(gang))

    def observe(self, gang: Gang):
        return super().observe(spread(gang))


@pytest.mark.feature("C4")
class TestNetlab(EngineContract):
    @pytest.fixture
    def engine(self, engine: NetlabEngine) -> NetlabEngine:
        engine.__class__ = Spread
        return engine

    @pytest.fixture
    def lose(self, lab: Lab) -> Callable[[Gang, int], None]:
        return lambda _gang, node: lab.switch_off(f"net-{node + 1}")


def test_a_node_whose_first_process_is_on_its_way_out_is_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """It lives on without namespaces while the kernel waits for the last of its node, as an ended one does here."""

    def is_still(_pid: int, _birth: str) -> bool:
        return True

    monkeypatch.setattr(processes, "is_still", is_still)
    with subprocess.Popen(["true"]) as ending:
        os.waitid(os.P_PID, ending.pid, os.WEXITED | os.WNOWAIT)
        nodes = {"going-1": {"pid": ending.pid, "birth": ""}, "going-2": {"pid": os.getpid(), "birth": ""}}
        (tmp_path / "holder.json").write_text(json.dumps({"pid": os.getpid(), "birth": "", "nodes": nodes}))
        lab = Lab(tmp_path, "going", 2)
        assert [lab.trouble("going-1"), lab.trouble("going-2")] == ["node going-1 is off", ""]
        with pytest.raises(EngineError, match="node going-1 is off"):
            lab.inside("going-1", ["true"])


def on(lab: Lab, node: str, command: str, *, ok: bool = True) -> str:
    done = subprocess.run(lab.inside(node, ["sh", "-c", command]), capture_output=True, text=True, check=False)
    assert (done.returncode == 0) is ok, done.stderr
    return done.stdout


def test_each_node_has_an_address_a_name_and_processes_of_its_own(engine: NetlabEngine, lab: Lab):
    nodes = lab.blueprint()["nodes"]
    assert len({node["address"] for node in nodes}) == 3
    for node in nodes:
        assert on(lab, node["name"], "hostname").strip() == node["name"]
        (inside,) = json.loads(on(lab, node["name"], "ip -json address show dev eth0"))
        assert node["address"] in [one["local"] for one in inside["addr_info"]]
        assert f"{node['address']}\t{node['name']}" in on(lab, "net-1", "cat /etc/hosts")
        assert str(os.getpid()) not in on(lab, node["name"], "ls /proc").split()


def test_node_of_a_new_lab_that_has_not_answered_yet_is_said_to_start(engine: NetlabEngine):
    seen = engine._as_it_is(Machine("net-1", 4, unusable="it has not answered yet", is_awaited=True))
    assert (seen.state, seen.unusable) == (NodeState.PREPARING, "it is starting")


def test_a_cut_link_cuts_one_node_off_and_can_be_mended(engine: NetlabEngine, lab: Lab):
    reach = "python3 -c 'import socket, sys; socket.create_connection((sys.argv[1], 9), 1)' {} 2>&1 | tail -1"
    there = lab.blueprint()["nodes"][1]["address"]
    wait_until(lambda: "refused" in on(lab, "net-1", reach.format(there)))
    lab.set_link("net-2", is_up=False)
    assert "refused" not in on(lab, "net-1", reach.format(there))
    wait_until(lambda: "refused" in on(lab, "net-1", reach.format(lab.gateway)))
    lab.set_link("net-2", is_up=True)
    wait_until(lambda: "refused" in on(lab, "net-1", reach.format(there)))


def test_an_agent_that_was_killed_is_started_again(engine: NetlabEngine, lab: Lab):
    gang = spread(a_gang(nodes=1))
    engine.start(gang)
    folder = lab.folder / "nodes" / "net-1" / "gangs" / gang.name / "0"
    wait_until(lambda: living_agent(folder))
    os.kill(living_agent(folder), signal.SIGKILL)
    wait_until(lambda: json.loads((folder / "agent.json").read_text())["starts"] == 2)
    assert engine.observe(gang).gone == {}


def test_a_node_that_comes_back_has_its_files_and_a_new_agent(engine: NetlabEngine, lab: Lab):
    gang = spread(a_gang(nodes=2))
    engine.start(gang)
    lab.switch_off("net-2")
    wait_until(lambda: engine.observe(gang).gone == {1: "node net-2 was switched off"})
    wait_until(lambda: [m.unusable for m in engine.machines()] == ["", "node net-2 is off", ""])
    lab.switch_on("net-2")
    wait_until(lambda: not any(m.unusable for m in engine.machines()))
    wait_until(lambda: engine.observe(gang).gone == {})


def test_a_gang_stopped_while_a_node_is_off_is_ended_there_before_anything_else_starts(engine: NetlabEngine, lab: Lab):
    gang = spread(a_gang(nodes=2))
    engine.start(gang)
    lab.switch_off("net-2")
    wait_until(lambda: engine.machines()[1].unusable)
    stop(engine, gang.name)
    assert engine.machines()[1].unusable
    lab.switch_on("net-2")
    wait_until(lambda: not engine.machines()[1].unusable)
    assert not (lab.folder / "nodes" / "net-2" / "gangs" / gang.name).exists()


def test_a_second_engine_finds_the_lab_as_it_is(engine: NetlabEngine, lab: Lab, tmp_path: Path):
    before = [lab.pid_of(node["name"]) for node in lab.blueprint()["nodes"]]
    again = NetlabEngine(Lab(lab.folder, "net", 3), 4, tmp_path / "kept")
    assert [again.lab.pid_of(node["name"]) for node in lab.blueprint()["nodes"]] == before
    assert again.server_addresses() == engine.server_addresses()
    super(NetlabEngine, again).close()


def test_a_lab_whose_server_was_killed_while_it_made_it_is_made_whole(engine: NetlabEngine, lab: Lab):
    """The last thing that is done is the address at which the nodes call."""
    interface, before = lab.blueprint()["interface"], engine.server_addresses()
    subprocess.run(["ip", "address", "flush", "dev", interface], check=True)
    subprocess.run(["ip", "link", "set", interface, "down"], check=True)
    again = Lab(lab.folder, "net", 3)
    again.up()
    asks = ["ip", "-4", "-br", "address", "show", interface]
    wait_until(lambda: subprocess.check_output(asks, text=True).split()[1] == "UP")  # The kernel says so when it may.
    shown = subprocess.check_output(asks, text=True)
    assert [f"{address}/{lab.blueprint()['prefix']}" for address in before] == shown.split()[2:]


def test_what_an_earlier_server_left_on_a_node_that_is_off_is_ended_before_anything_else_starts(
    engine: NetlabEngine, lab: Lab, tmp_path: Path
):
    gang = spread(a_gang(nodes=2))
    engine.start(gang)
    lab.switch_off("net-2")
    wait_until(lambda: engine.machines()[1].unusable)
    again = NetlabEngine(Lab(lab.folder, "net", 3), 4, tmp_path / "kept")
    again.sweep(set[str])
    assert again.machines()[1].unusable
    lab.switch_on("net-2")
    wait_until(lambda: not again.machines()[1].unusable)
    assert not (lab.folder / "nodes" / "net-2" / "gangs" / gang.name).exists()
    super(NetlabEngine, again).close()


def test_a_lab_whose_holder_is_killed_is_gone_whole(tmp_path: Path):
    lab = Lab(tmp_path / "lab", "kill", 2)
    engine = NetlabEngine(lab, 1, tmp_path / "kept")
    interface, pids = lab.blueprint()["interface"], [lab.pid_of("kill-1"), lab.pid_of("kill-2")]
    gang = replace(a_gang(nodes=2), slots=(Slot(0, "kill-1", 1), Slot(1, "kill-2", 1)))
    engine.start(gang)
    os.kill(json.loads((lab.folder / "holder.json").read_text())["pid"], signal.SIGKILL)
    wait_until(lambda: not any(map(processes.is_alive, pids)))
    wait_until(lambda: not Path("/sys/class/net", interface).exists())
    assert living_agent(lab.folder / "nodes" / "kill-1" / "gangs" / gang.name / "0") is None
    assert set(engine.observe(gang).gone) == {0, 1}
    engine.close()
    assert not lab.folder.exists()


MAKES = """
import sys
from pathlib import Path
from drumbeat.engines.netlab.lab import Lab
Lab(Path(sys.argv[1]), "half", 1).up()
"""
WAITS = """#!/bin/sh
if test "$*" = "link set lo up"; then touch {place}/waits; until test -e {place}/go; do sleep 0.05; done; fi
exec {ip} "$@"
"""


def test_a_holder_whose_server_was_killed_before_it_had_made_anything_is_ended(tmp_path: Path):
    folder, waits, go = tmp_path / "lab", tmp_path / "waits", tmp_path / "go"
    slow = tmp_path / "bin" / "ip"
    slow.parent.mkdir()
    slow.write_text(WAITS.format(place=tmp_path, ip=shutil.which("ip")))
    slow.chmod(0o755)

    def holders() -> list[int]:
        return [pid for pid, words in processes.command_lines() if HOLDER in words and str(folder) in words]

    with guarded(tmp_path):
        command = [sys.executable, "-c", MAKES, str(folder)]
        with subprocess.Popen(command, env={**os.environ, "PATH": f"{slow.parent}:{os.environ['PATH']}"}) as server:
            wait_until(waits.exists)
            server.kill()
        (first,) = holders()
        lab = Lab(folder, "half", 1)
        try:
            lab.up()
            assert not processes.is_alive(first)
            assert on(lab, "half-1", "hostname").strip() == "half-1"
            lab.close()
            assert holders() == []
        finally:
            go.touch()
            processes.kill_all(holders())


def test_a_lab_that_somebody_else_holds_isn_t_made_a_second_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(netlab, "FREE_S", 0.0)
    lab = Lab(tmp_path / "lab", "held", 1)
    with (lab.folder / "holder.lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(EngineError, match="process of before holds the lab and doesn't end"):
            lab.up()
    lab.close()


def test_bandwidth_is_shaped_both_ways(tmp_path: Path):
    lab = Lab(tmp_path / "lab", "slow", 1, bandwidth="8mbit")
    try:
        lab.up()
        (inside,) = json.loads(on(lab, "slow-1", "tc -json qdisc show dev eth0"))
        assert (inside["kind"], inside["options"]["rate"]) == ("tbf", 1_000_000)  # Bytes a second.
    finally:
        lab.close()


@pytest.mark.parametrize("rate", ["", "fast", "0mbit", "-1mbit", "200 mbytes"])
def test_what_is_no_bandwidth_is_refused(tmp_path: Path, rate: str):
    with pytest.raises(EngineError, match="200mbit, 1gbit"):
        Lab(tmp_path / "lab", "odd", 1, bandwidth=rate or " ")


def test_a_subnet_too_small_for_the_nodes_is_refused(tmp_path: Path):
    with pytest.raises(EngineError, match=r"10\.9\.0\.0/29 is too small for 6 nodes"):
        Lab(tmp_path / "lab", "full", 6, subnet="10.9.0.0/29")

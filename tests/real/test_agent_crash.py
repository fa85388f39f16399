"""What a crash leaves is found and ended at the next start of the server, and the jobs go on."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from pathlib import Path

import psutil
import pytest

from drumbeat.node.host.gangs import GANG, Gangs, living_agent

from .house import House, line_of, until

NAP = f"sleep {7_000_000 + os.getpid()}"
WAITS = f'"echo up; (setsid env -i {NAP} &); while [ ! -e $DRUMBEAT_CHECKPOINT_DIR/go ]; do sleep 0.02; done"'


def sleepers() -> set[str]:
    listed = subprocess.run(["pgrep", "-f", NAP], capture_output=True, text=True, check=False)
    return set(listed.stdout.split())


@pytest.mark.feature("F5", "F6")
def test_server_agents_and_supervisors_killed_at_once_leave_nothing_and_the_job_goes_on(own_house: House):
    house, before = own_house, sleepers()
    job = house.client.submit(house.job_file(command=WAITS, resources="{instance_count: 2}")).name
    until(lambda: sum(text.count("up") for text in house.logs(job).values()) == 2)
    for process in house.processes():
        with contextlib.suppress(psutil.NoSuchProcess):  # A rank's shell starts `sleep` all the time.
            if any("drumbeat." in word for word in process.cmdline()):
                process.kill()
    if os.geteuid() == 0:
        until(lambda: sleepers() <= before, what="the end of every daemon")
    (house.home / "jobs" / job / "checkpoints" / "go").touch()
    house.client.status()
    ended = house.client.wait(job, 60)
    assert ended is not None
    assert (ended.state, ended.attempt, ended.round) == ("completed", 1, 2), ended.sentence
    until(lambda: not list((house.home / "nodes").glob("*")))
    assert sleepers() <= before


def is_supervisor(process: psutil.Process) -> bool:
    return "drumbeat.node.supervisor.supervisor" in line_of(process)


def the_supervisor(house: House) -> list[psutil.Process]:
    """The house's; nothing while what it tries itself out with is there too."""
    found = [process for process in house.processes() if is_supervisor(process)]
    return found if len(found) == 1 else []


@pytest.mark.feature("F5", "L12")
def test_a_supervisor_that_is_killed_while_a_node_gets_ready_takes_nothing_of_that_along(own_house: House):
    house = own_house
    prepare = (
        '{prepare: "cd $DRUMBEAT_CHECKPOINT_DIR; touch begun; until test -e go; do sleep 0.05; done; echo prepared"}'
    )
    job = house.client.submit(house.job_file(command="echo trained", drumbeat=prepare)).name
    begun = house.home / "jobs" / job / "checkpoints" / "begun"
    until(begun.exists, what="the preparation")
    # Before it listens, it tries in a process of its own how it can hold ranks.
    until(lambda: list((house.home / "nodes").glob("*/*/root/keeper/keeper.sock")), what="the supervisor")
    seen: list[psutil.Process] = []
    until(lambda: seen.extend(the_supervisor(house)) or seen, what="the supervisor alone")
    supervisor = seen[0]
    supervisor.kill()
    until(
        lambda: any(is_supervisor(one) and one.pid != supervisor.pid for one in house.processes()), what="another one"
    )
    begun.with_name("go").touch()
    ended = house.client.wait(job, 120)
    assert ended is not None
    assert (ended.state, ended.attempt, ended.round) == ("completed", 1, 1), ended.sentence
    logs = house.logs(job)
    assert "trained" in logs[0]
    assert "prepared" in logs[-1]


@pytest.mark.feature("F6")
def test_nodes_that_no_job_owns_are_ended_and_removed_when_the_server_starts(own_house: House):
    house = own_house
    node = house.home / "nodes" / "ghost.1" / "0"
    node.mkdir(parents=True)
    # Of another boot: the number is this test's own process today.
    (node / "agent.json").write_text(json.dumps({"pid": os.getpid(), "born": "another-boot 1", "starts": 1}))
    removed = house.home / "nodes" / ".old.1"
    (removed / "0" / "root").mkdir(parents=True)
    elsewhere = {GANG: str(house.home / "nodes" / "gone.2")}
    left = [subprocess.Popen(NAP.split(), env={**os.environ, GANG: str(node.parent)}),
            subprocess.Popen(NAP.split(), env={**os.environ, **elsewhere})]  # fmt: skip
    house.client.status()
    assert [process.wait(10) for process in left] == [-9, -9]
    assert not node.parent.exists()
    assert not removed.exists()


@pytest.mark.feature("F6")
def test_an_agent_that_ended_unseen_and_is_replaced_leaves_no_zombie(tmp_path: Path):
    gangs = Gangs(tmp_path / "nodes")
    gangs.start("job.1", {0: "no enrolment: it ends at once"})
    node = gangs.folder / "job.1" / "0"
    first = json.loads((node / "agent.json").read_text())["pid"]
    until(lambda: living_agent(node) is None, what="its end")
    assert psutil.Process(first).status() == psutil.STATUS_ZOMBIE
    gangs.start("job.1", {0: "again"})
    assert not psutil.pid_exists(first)
    gangs.stop("job.1")

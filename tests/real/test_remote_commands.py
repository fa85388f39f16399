"""Commands that a job's node runs on the job's other nodes, with no sshd: what launchers of other makers do."""

from __future__ import annotations

import signal

import pytest

from drumbeat.model.api.jobs import JobView

from .house import House, line_of, until

pytestmark = pytest.mark.feature("L6")

PER_NODE = {"code": ".", "compute": "local", "drumbeat": "{max_retries: 0, grace_s: 20}"}


def job(house: House, script: str, nodes: int = 2, **keys: str) -> str:
    house.script(script, file="t.sh")
    path = house.job_file(**{**PER_NODE, "command": "bash t.sh", "resources": f"{{instance_count: {nodes}}}", **keys})
    return house.client.submit(path).name


def ended(house: House, name: str) -> JobView:
    job = house.client.wait(name, 120)
    assert job is not None
    return job


def test_node_0_runs_commands_on_the_others_as_their_own_ranks_would(house: House):
    script = """
    [ $NODE_RANK = 0 ] || exit 0
    cat $DLTS_HOSTFILE ../hostfile
    ssh -o StrictHostKeyChecking=no -p 22 node-1 'echo I am $NODE_RANK in $(basename $PWD); echo loud >&2; exit 7'
    echo code $?
    ssh localhost echo here $NODE_RANK
    ssh root@node-1 -p 22 "[ $PWD = \\$PWD ] && echo own folder"
    pdsh -S -f 8 -w node-0,node-1 'echo %n of %h is $NODE_RANK; exit %n'
    echo code $?
    """
    name = job(house, script)
    assert ended(house, name).state == "completed", house.logs(name)
    lines = house.logs(name)[0].splitlines()
    hosts = ["node-0 slots=1", "node-1 slots=1"]
    assert lines[:4] == hosts * 2
    assert sorted(lines[4:6]) == ["I am 1 in code", "loud"]
    assert lines[6:9] == ["code 7", "here 0", "own folder"]
    assert sorted(lines[9:11]) == ["node-0: 0 of node-0 is 0", "node-1: 1 of node-1 is 1"]
    assert lines[11:] == ["code 1"]


def test_a_node_is_there_for_the_others_after_its_own_command_has_ended(house: House):
    script = """
    if [ $NODE_RANK = 1 ]; then touch ../../1.done; exit 0; fi
    sleep 1
    ssh node-1 'echo still $NODE_RANK'
    """
    name = job(house, script)
    assert ended(house, name).state == "completed"
    assert house.logs(name)[0] == "still 1\n"


def test_a_stopped_job_has_its_commands_end_in_their_own_time_on_every_node(house: House):
    script = """
    [ $NODE_RANK = 0 ] || exit 0
    echo 'trap "echo saving $NODE_RANK; sleep 2; echo saved $NODE_RANK; exit 0" TERM' > saves.sh
    echo 'echo begun; while :; do sleep 0.1; done' >> saves.sh
    exec ssh node-1 "$(cat saves.sh)"
    """
    name = job(house, script)
    until(lambda: "begun" in house.logs(name).get(0, ""))
    house.client.cancel(name)
    assert ended(house, name).state == "canceled"
    said = [line for line in house.logs(name)[0].splitlines() if line != "Terminated"]  # Bash says so of its sleep.
    assert said == ["begun", "saving 1", "saved 1"]


def test_what_was_started_on_another_node_ends_with_who_asked_for_it(own_house: House):
    script = """
    [ $NODE_RANK = 0 ] || exit 0
    setsid ssh node-1 'setsid sleep 4321 & echo begun; wait' &
    wait
    """
    name = job(own_house, script)
    until(lambda: "begun" in own_house.logs(name).get(0, ""))
    asker = next(p for p in own_house.processes() if "drumbeat.node.launchers.remote.ssh_stand_in" in line_of(p))
    asker.send_signal(signal.SIGKILL)
    assert ended(own_house, name).state == "completed"
    until(lambda: not [p for p in own_house.processes() if "4321" in line_of(p)])


def test_hosts_that_are_none_of_the_jobs_are_left_to_the_real_ssh(house: House):
    script = """
    [ $NODE_RANK = 0 ] || exit 0
    mkdir -p bin; printf '#!/bin/sh\\necho real ssh: "$@"\\n' > bin/ssh; chmod +x bin/ssh
    PATH=$(dirname $(command -v ssh)):$PWD/bin:$PATH ssh -p 22 elsewhere.example uptime
    """
    name = job(house, script)
    assert ended(house, name).state == "completed", house.logs(name)
    assert house.logs(name)[0] == "real ssh: -p 22 elsewhere.example uptime\n"


def test_one_node_reaches_itself(house: House):
    name = job(house, "cat ../hostfile; ssh localhost hostname -I > /dev/null && pdsh -w localhost echo me", nodes=1)
    assert ended(house, name).state == "completed", house.logs(name)
    assert house.logs(name)[0] == "127.0.0.1 slots=1\nlocalhost: me\n"

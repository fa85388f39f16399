"""The host file, the doors between nodes, and the words of ssh and pdsh that what stands in for them understands."""

import io
import os
import threading
from pathlib import Path

import pytest

from drumbeat import launchers
from drumbeat.launchers import host_file
from drumbeat.model.plan import Container, Plan
from drumbeat.model.roster import Member, Roster
from drumbeat.node.launchers.remote import pdsh_stand_in, ssh_stand_in
from drumbeat.node.launchers.remote.command_server import localized
from drumbeat.node.launchers.remote.frames import CommandRequest
from drumbeat.node.launchers.remote.node_addresses import NodeAddresses

pytestmark = pytest.mark.feature("L6")


def a_plan(nodes: int = 2, per_node: int = 1, launcher: str = "pytorch", **more: object) -> Plan:
    return Plan("j", "e", launcher, nodes, per_node, "run", launchers.ranks(launcher, nodes, per_node), **more)


def a_roster(*addresses: str, gpus: tuple[str, ...] = ()) -> Roster:
    members = tuple(
        Member(node, f"host{node}", address, f"/n/{node}", "/c", gpus=gpus) for node, address in enumerate(addresses)
    )
    ports = tuple(30000 + node for node in range(len(addresses)))
    return Roster(1, 1, members, ports[0], ports, ((40000,), *[()] * (len(addresses) - 1)))


TWO, SAME = ("10.0.0.1", "10.0.0.2"), ("127.0.0.1", "127.0.0.1")


def test_nodes_stand_in_the_host_file_by_address_or_by_number_where_that_is_shared():
    assert host_file.text(a_plan(), a_roster(*TWO)) == "10.0.0.1 slots=1\n10.0.0.2 slots=1\n"
    assert host_file.text(a_plan(), a_roster(*SAME)) == "node-0 slots=1\nnode-1 slots=1\n"


def test_a_slot_is_a_gpu_where_there_are_any_else_a_rank():
    assert host_file.text(a_plan(1), a_roster("h", gpus=("0", "1", "2"))) == "h slots=3\n"
    assert host_file.text(a_plan(1, 4), a_roster("h")) == "h slots=4\n"


def test_a_node_is_known_by_each_name_that_no_other_has():
    assert host_file.known_as(a_roster(*TWO))[1] == ["10.0.0.2", "host1", "node-1"]
    assert host_file.known_as(a_roster(*SAME))[1] == ["node-1", "host1"]


def test_every_rank_finds_the_host_file_of_its_own_node():
    for launcher in ("pytorch", "mpi"):
        first, second = (launchers.render(a_plan(launcher=launcher), a_roster(*TWO), node)[0] for node in (0, 1))
        assert (first.set["DLTS_HOSTFILE"], second.set["DLTS_HOSTFILE"]) == ("/n/0/hostfile", "/n/1/hostfile")


def test_command_that_runs_once_per_node_has_a_command_server():
    plan, roster = a_plan(path_first=("/env/bin",)), a_roster(*TWO)
    doors = [launchers.starter(plan, roster, node) for node in (0, 1)]
    assert [door.argv for door in doors if door] == [
        ("/n/0/remote", "10.0.0.1", "40000"),
        ("/n/1/remote", "10.0.0.2", "30001"),
    ]
    rank = launchers.render(plan, roster, 1)[0]
    assert doors[1] is not None
    assert (doors[1].set, doors[1].path_first) == (rank.set, rank.path_first)
    assert rank.path_first == ("/n/1/remote/bin", "/env/bin")
    assert [launchers.more_ports(plan, node) for node in (0, 1)] == [1, 0]


@pytest.mark.parametrize(
    ("plan", "has_programs"),
    [
        (a_plan(1), True),
        (a_plan(2, 2), False),
        (a_plan(container=Container("i")), False),
        (a_plan(launcher="mpi"), False),
    ],
    ids=["one node", "two ranks a node", "container", "mpi"],
)
def test_other_jobs_have_no_door(plan: Plan, has_programs: bool):
    assert not host_file.is_visited(plan)
    assert launchers.more_ports(plan, 0) == 0
    path = launchers.render(plan, a_roster(*TWO[: plan.nodes]), 0)[0].path_first
    assert path == (("/n/0/remote/bin",) if has_programs else ())


@pytest.mark.parametrize(
    ("line", "host", "command"),
    [
        ("n1 hostname -I", "n1", "hostname -I"),
        ("-o PasswordAuthentication=no n1 hostname", "n1", "hostname"),
        ("-oBatchMode=yes -p 22 -x me@n1 ls -l", "n1", "ls -l"),
        ("-o A=b n1 -p 22 -tt cd /x; ls", "n1", "cd /x; ls"),
        ("-vp 22 n1 id", "n1", "id"),
        ("-p22 n1 id", "n1", "id"),
        ("-- n1 -x", "n1", "-x"),
        ("n1", "n1", ""),
        ("-V", "", ""),
    ],
)
def test_host_and_command_of_a_line_for_ssh(line: str, host: str, command: str):
    assert ssh_stand_in.parse(line.split(" ")) == (host, command)


def test_a_line_for_pdsh():
    line = pdsh_stand_in.parse(["-S", "-f", "1024", "-w", "a,b,c", "-x", "b", "cd", "/x;", "run", "--node_rank=%n"])
    assert line == pdsh_stand_in.PdshCommandLine(["a", "c"], "cd /x; run --node_rank=%n", is_strict=True)
    assert pdsh_stand_in.parse(["-NRssh", "-wa", "id"]) == pdsh_stand_in.PdshCommandLine(["a"], "id", is_bare=True)
    assert [pdsh_stand_in.filled("%h is %n, 5%% %u", 3, "c")] == ["c is 3, 5% %u"]


def test_pdsh_waits_for_all_unless_one_failure_ends_the_job():
    others_timeout_s = [
        pdsh_stand_in.parse(["-S", "-w", "a,b", *words]).others_timeout_s
        for words in (["make"], ["-k", "make"], ["python", "-m", "deepspeed.launcher.launch", "t.py"])
    ]
    assert others_timeout_s == [None, 0.0, 30.0]


def test_what_pdsh_passes_on_is_told_apart_by_host_also_of_a_line_without_an_end():
    long, read = b"x" * (3 * pdsh_stand_in._PIECE), list[bytes]()
    out, into = os.pipe()
    with os.fdopen(out, "rb") as file:
        reading = threading.Thread(target=lambda: read.append(file.read()))
        reading.start()
        pdsh_stand_in._pump(io.BytesIO(b"one\n" + long + b"\nlast"), into, b"h: ")
        os.close(into)
        reading.join(60)
    assert read == [b"h: one\nh: " + long + b"\nh: last\n"]


def test_output_of_a_rank_is_read_even_if_it_cannot_be_written():
    said = io.BytesIO(b"line\n" * 1000)
    with Path("/dev/full").open("wb", buffering=0) as full:
        pdsh_stand_in._pump(said, full.fileno(), b"h: ")
    assert said.read() == b""


@pytest.mark.parametrize("words", [["-w", "a"], ["ls"], ["-g", "all", "ls"], []])
def test_a_line_for_pdsh_that_cannot_be_done_is_refused(words: list[str]):
    with pytest.raises(pdsh_stand_in.UnknownOptionError):
        pdsh_stand_in.parse(words)


def test_a_command_names_the_folders_of_the_node_that_it_runs_on():
    known = NodeAddresses("k", (), {}, {"root": "/n/1", "python": "/env1"})
    request = CommandRequest(
        "cd /n/0/code; /env0/bin/python t.py --out='/n/0' /n/0.5 /n/01", {"root": "/n/0", "python": "/env0"}
    )
    assert localized(request, known) == "cd /n/1/code; /env1/bin/python t.py --out='/n/1' /n/0.5 /n/01"


@pytest.mark.feature("L7")
def test_a_door_and_horovods_store_on_node_0_have_a_port_each():
    plan = Plan(
        "j", "e", "pytorch", 2, 1, "python train.py", launchers.ranks("pytorch", 2, 1), {"HOROVOD_CONTROLLER": "gloo"}
    )
    members = tuple(Member(node, f"h{node}", f"10.0.0.{node}", f"/n/{node}", "/c") for node in range(2))
    more = tuple(tuple(29501 + n for n in range(launchers.more_ports(plan, node))) for node in range(2))
    roster = Roster(1, 1, members, 29500, (29500, 29600), more)
    doors = [launchers.starter(plan, roster, node) for node in range(2)]
    assert [door.argv[-1] for door in doors if door] == ["29501", "29600"]
    assert launchers.render(plan, roster, 0)[0].rendezvous == "10.0.0.0 29502"

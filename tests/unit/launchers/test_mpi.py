"""The mpirun line of every MPI as golden text, what each rank has, and what stands in for ssh."""

from __future__ import annotations

from dataclasses import replace

import pytest

from drumbeat import launchers
from drumbeat.launchers import mpi
from drumbeat.model.errors import RefusedError
from drumbeat.model.plan import Plan
from drumbeat.model.process import is_scrubbed
from drumbeat.model.roster import Member, Roster
from drumbeat.node.launchers.mpi import launcher
from drumbeat.node.launchers.remote import ssh_stand_in

pytestmark = pytest.mark.feature("L3")


def a_plan(nodes: int, per_node: int, **more: object) -> Plan:
    return replace(
        Plan("j", "e", "mpi", nodes, per_node, "python t.py", launchers.ranks("mpi", nodes, per_node)), **more
    )


def a_roster(has: str, *addresses: str, cpus: int = 8) -> Roster:
    members = tuple(
        Member(
            n, f"h{n}", address, f"/n/{n}", "/keep", cpus=cpus, interface="eth0", subnet="10.0.0.0/24", mpi=has
        )
        for n, address in enumerate(addresses)
    )  # fmt: skip
    return Roster(2, 3, members, 29511, tuple(29511 + n for n in range(len(addresses))))


def line(plan: Plan, roster: Roster) -> str:
    starter = launchers.starter(plan, roster, 0)
    assert starter is not None
    return " ".join(starter.argv).replace(mpi.place(roster), "@shared")


TWO = ("10.0.0.1", "10.0.0.2")

LINES = {
    ("Open MPI 4.1.4", TWO): (
        "mpirun --allow-run-as-root --bind-to none --map-by slot -np 4 --host 10.0.0.1:2,10.0.0.2:2 --wdir / "
        "--mca btl_vader_backing_directory @shared --mca mpi_yield_when_idle 0 "
        "--leave-session-attached --mca plm_rsh_agent sh @shared/shell --mca plm_rsh_no_tree_spawn 1 "
        "--mca oob_tcp_if_include 10.0.0.0/24 --mca btl_tcp_if_include 10.0.0.0/24 /bin/sh @shared/rank"
    ),
    ("Open MPI 5.0.11", TWO): (
        "mpirun --allow-run-as-root --bind-to none --map-by slot -np 4 --host 10.0.0.1:2,10.0.0.2:2 --wdir / "
        "--mca btl_sm_backing_directory @shared --mca mpi_yield_when_idle 0 "
        "--leave-session-attached --prtemca plm_ssh_agent sh @shared/shell --prtemca plm_ssh_no_tree_spawn 1 "
        "--prtemca prte_if_include 10.0.0.0/24 --mca btl_tcp_if_include 10.0.0.0/24 /bin/sh @shared/rank"
    ),
    ("MPICH 5.0.2", TWO): (
        "mpirun -np 4 -hosts 10.0.0.1:2,10.0.0.2:2 -wdir / -localhost 10.0.0.1 -bind-to none "
        "-launcher ssh -launcher-exec /bin/sh /bin/sh @shared/rank"
    ),
    ("Intel MPI 2021.18", TWO): (
        "mpirun -np 4 -hosts 10.0.0.1:2,10.0.0.2:2 -wdir / -localhost 10.0.0.1 -bind-to none "
        "-launcher ssh -launcher-exec /bin/sh /bin/sh @shared/rank"
    ),
    ("Open MPI 4.1.4", ("10.0.0.1",)): (
        "mpirun --allow-run-as-root --bind-to none --map-by slot -np 2 --host 10.0.0.1:2 --wdir / "
        "--mca btl_vader_backing_directory @shared --mca mpi_yield_when_idle 0 /bin/sh @shared/rank"
    ),
    ("Open MPI 4.1.4", ("10.0.0.1", "10.0.0.1")): (
        "mpirun --allow-run-as-root --bind-to none --map-by slot -np 4 --host 10.0.0.1:4 --wdir / "
        "--mca btl_vader_backing_directory @shared --mca mpi_yield_when_idle 0 "
        "--mca btl_tcp_if_include 10.0.0.0/24 --mca pml ob1 --mca btl self,tcp /bin/sh @shared/rank"
    ),
    ("MPICH 5.0.2", ("10.0.0.1", "10.0.0.1")): (
        "mpirun -np 4 -hosts 10.0.0.1:4 -wdir / -localhost 10.0.0.1 -bind-to none "
        "-genv MPIR_CVAR_CH4_CMA_ENABLE 0 -genv MPIR_CVAR_CH4_NETMOD ofi -genv I_MPI_FABRICS ofi "
        "-genv FI_PROVIDER tcp -genv FI_TCP_IFACE eth0 /bin/sh @shared/rank"
    ),
}  # fmt: skip


@pytest.mark.parametrize(("has", "addresses"), LINES)
def test_the_whole_line(has: str, addresses: tuple[str, ...]):
    assert line(a_plan(len(addresses), 2), a_roster(has, *addresses)) == LINES[has, addresses]


def test_a_persons_options_come_last_and_leave_the_line_whole():
    plan = a_plan(2, 2, mpi_options=("--mca", "btl_base_verbose", "30"))
    said = line(plan, a_roster("Open MPI 4.1.4", *TWO))
    assert said.endswith(" --mca btl_base_verbose 30 /bin/sh @shared/rank")
    assert said.startswith("mpirun --allow-run-as-root")


@pytest.mark.feature("L9")
def test_on_request_open_mpi_keeps_to_tcp():
    assert "--mca pml ob1 --mca btl self,vader,tcp" in line(
        a_plan(2, 2, network="tcp"), a_roster("Open MPI 4.1.4", *TWO)
    )
    assert "--mca pml ob1 --mca btl self,sm,tcp" in line(a_plan(2, 2, network="tcp"), a_roster("Open MPI 5.0.11", *TWO))


def test_more_ranks_than_cores_give_way_to_each_other():
    assert "mpi_yield_when_idle 1" in line(a_plan(2, 4), a_roster("Open MPI 4.1.4", *TWO, cpus=2))


def test_node_0_runs_mpirun_and_each_other_machine_opens_a_door():
    roster = a_roster("Open MPI 4.1.4", "10.0.0.1", "10.0.0.2", "10.0.0.2", "10.0.0.3")
    starters = [launchers.starter(a_plan(4, 1), roster, node) for node in range(4)]
    assert [one.role if one else None for one in starters] == ["mpirun", "door", None, "door"]
    assert starters[3]
    assert starters[3].argv == (mpi.place(roster), "10.0.0.3", "29514", "--once")


def test_what_each_rank_has():
    roster = a_roster("MPICH 5.0.2", *TWO)
    rank = launchers.render(a_plan(2, 2), roster, 1)[1]
    names = ("RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE")
    assert [rank.set[f"OMPI_COMM_WORLD_{name}"] for name in names] == ["3", "4", "1", "2"]
    assert rank.set["AZ_BATCH_MASTER_NODE"] == "10.0.0.1:29511"
    assert rank.set["AZ_BATCHAI_MPI_MASTER_NODE"] == "10.0.0.1"
    assert rank.set["AZ_BATCH_HOST_LIST"] == "10.0.0.1,10.0.0.2"
    assert rank.defaulted["NCCL_SOCKET_IFNAME"] == "eth0"
    assert (rank.set["DRUMBEAT_ROUND"], rank.log) == ("3", "logs/2.3/1/3.log")
    assert rank.argv == ("/bin/bash", "-c", "python t.py")
    assert rank.joins == f"{mpi.place(roster)}/3.sock"


def test_mpirun_has_the_jobs_variables_and_nothing_of_another_launcher():
    starter = launchers.starter(
        a_plan(1, 1, variables={"OMPI_MCA_pml": "ob1"}), a_roster("Open MPI 4.1.4", "10.0.0.1"), 0
    )
    assert starter
    assert starter.set["OMPI_MCA_pml"] == "ob1"
    assert all(
        is_scrubbed(name, starter.scrubbed) for name in ("SLURM_JOB_ID", "PMI_RANK", "PMIX_RANK", "OMPI_UNIVERSE")
    )


def test_each_round_has_a_folder_of_its_own():
    one = a_roster("Open MPI 4.1.4", *TWO)
    assert mpi.place(one) != mpi.place(replace(one, round=4))
    assert mpi.place(one) == mpi.place(a_roster("Open MPI 4.1.4", *TWO))


@pytest.mark.feature("L4")
def test_different_mpis_are_refused_with_who_has_which():
    roster = a_roster("Open MPI 4.1.4", *TWO)
    other = replace(roster.members[1], mpi="MPICH 5.0.2")
    with pytest.raises(RefusedError, match=r"Open MPI 4\.1\.4 on node 0 \(h0\), MPICH 5\.0\.2 on node 1 \(h1\)"):
        launchers.render(a_plan(2, 1), replace(roster, members=(roster.members[0], other)), 1)


def test_nonadjacent_nodes_of_a_machine_are_refused():
    with pytest.raises(RefusedError, match=r"aren't adjacent: 10\.0\.0\.1, 10\.0\.0\.2, 10\.0\.0\.1"):
        line(a_plan(3, 1), a_roster("Open MPI 4.1.4", "10.0.0.1", "10.0.0.2", "10.0.0.1"))


@pytest.mark.feature("L4")
@pytest.mark.parametrize(
    ("said", "has"),
    [
        ("mpirun (Open MPI) 4.1.4\n\nReport bugs to https://www.open-mpi.org/community/help/\n", "Open MPI 4.1.4"),
        ("mpirun (Open MPI) 5.0.11\n", "Open MPI 5.0.11"),
        ("HYDRA build details:\n    Version:                                 5.0.2\n", "MPICH 5.0.2"),
        ("Intel(R) MPI Library for Linux* OS, Version 2021.18 Build 20260101 (id: x)\n", "Intel MPI 2021.18"),
        ("some other launcher 1.0\n", ""),
    ],
)
def test_mpi_is_detected_from_its_version_output(said: str, has: str):
    assert launcher.read_version(said) == has


@pytest.mark.parametrize(
    ("words", "host", "command"),
    [
        (["10.0.0.2", "orted", "-mca", "ess", "env"], "10.0.0.2", "orted -mca ess env"),
        (
            ["-x", "10.0.0.2", '"/opt/bin/hydra_pmi_proxy"', "--pgid", "0"],
            "10.0.0.2",
            '"/opt/bin/hydra_pmi_proxy" --pgid 0',
        ),
        (["-x", "-l", "me", "-p", "22", "me@10.0.0.2", "prted"], "10.0.0.2", "prted"),
        ([], "", ""),
    ],
)
def test_replacement_of_ssh_takes_sshs_arguments(words: list[str], host: str, command: str):
    assert ssh_stand_in.parse(words) == (host, command)

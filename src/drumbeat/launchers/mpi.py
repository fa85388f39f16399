"""MPI: one `mpirun` on node 0 for the whole job, and a process for each rank that waits for mpirun.

The supervisors start the ranks, as under every launcher; the processes that mpirun starts on each node only hand MPI's
variables over to the ranks (docs/decisions/0012-mpi.md). Nodes with the same address are one host to MPI.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from itertools import groupby

from drumbeat.launchers import host_file, network_variables, pytorch
from drumbeat.launchers.launcher import Launcher
from drumbeat.launchers.rank_process import process
from drumbeat.model.errors import RefusedError
from drumbeat.model.plan import Plan, Rank, RankTable
from drumbeat.model.process import MPI_COMMAND_SERVER, ProcessSpec
from drumbeat.model.roster import Member, Roster

OPEN_MPI, MPICH, INTEL_MPI = "Open MPI", "MPICH", "Intel MPI"

SET = (
    "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE",
    "OMPI_COMM_WORLD_NODE_RANK", "AZ_BATCH_MASTER_NODE", "AZ_BATCHAI_MPI_MASTER_NODE", host_file.VARIABLE,
)  # fmt: skip
"""The variables that belong to this launcher: a job can't set them itself."""


@dataclass(frozen=True)
class MpiHost:
    """A host as MPI counts them: an address, the first of the nodes there, and the number of its ranks."""

    address: str
    node: int
    ranks: int


def render(plan: Plan, roster: Roster, node: int) -> list[ProcessSpec]:
    """Returns one process per rank of the node; each waits until mpirun's own child has handed over."""
    _check_alike(roster)
    return [_process(plan, roster, rank) for rank in plan.ranks if rank.node == node]


def starter(plan: Plan, roster: Roster, node: int) -> ProcessSpec | None:
    """Returns `mpirun` on node 0, and the command server for mpirun's daemon on the first node of every other host."""
    own = next((host for host in hosts(plan, roster) if host.node == node), None)
    if own is None:
        return None
    is_first = node == 0
    role = "mpirun" if is_first else MPI_COMMAND_SERVER
    server = (place(roster), own.address, str(port(roster, node)), "--once")
    argv = tuple(line(plan, roster)) if is_first else server
    first = _process(plan, roster, next(rank for rank in plan.ranks if rank.node == node))
    # Hydra appends the extra arguments to the program that replaces ssh, which is a shell.
    set_ = {**plan.variables, "TMPDIR": place(roster), "HYDRA_LAUNCHER_EXTRA_ARGS": f"{place(roster)}/shell"}
    return replace(first, rank=-1, local_rank=-1, role=role, argv=argv, set=set_, defaulted={}, joins="")


def place(roster: Roster) -> str:
    """Returns the folder that MPI and its helpers share; its path is the same on every node of the round."""
    seed = f"{roster.master.address} {roster.master.root} {roster.attempt} {roster.round} {roster.port}"
    return f"/dev/shm/drumbeat-{hashlib.sha256(seed.encode()).hexdigest()[:12]}"  # noqa: S108 (owned and checked)


def hosts(plan: RankTable, roster: Roster) -> list[MpiHost]:
    """Returns the machines as MPI sees them, in the order of their ranks. Raises RefusedError for a duplicate."""
    alike = [(address, list(group)) for address, group in groupby(roster.members, key=lambda one: one.address)]
    if len({address for address, _ in alike}) < len(alike):
        what = f"the nodes of one machine aren't adjacent: {', '.join(m.address for m in roster.members)}"
        raise RefusedError(what, where="distribution", fix="Submit the job again, or use one node on each machine.")
    return [MpiHost(address, group[0].node, len(group) * plan.processes_per_node) for address, group in alike]


# --- mpirun's command line ----------------------------------------------------------------------------------------
def line(plan: Plan, roster: Roster) -> list[str]:
    """Returns the whole `mpirun` command line for the MPI of node 0."""
    name, version = kind(roster.master)
    if name != OPEN_MPI:
        return _hydra(plan, roster)
    return _open_mpi(plan, roster, is_new=int(version.partition(".")[0]) > 4)


def kind(member: Member) -> tuple[str, str]:
    """Returns name and version of a node's MPI; in a preview, where it is unknown, those of Debian 12."""
    name, _, version = (member.mpi or f"{OPEN_MPI} 4").rpartition(" ")
    return name, version


def _open_mpi(plan: Plan, roster: Roster, *, is_new: bool) -> list[str]:
    """Returns the command line of Open MPI 4, or of 5, whose runtime PRRTE has other parameters."""
    runtime, shell = ("--prtemca", "plm_ssh") if is_new else ("--mca", "plm_rsh")
    machines, folder, subnets = hosts(plan, roster), place(roster), _subnets(roster)
    shared = "btl_sm" if is_new else "btl_vader"
    words = ["mpirun", "--allow-run-as-root", "--bind-to", "none", "--map-by", "slot", "-np", str(plan.world_size)]
    words += ["--host", ",".join(f"{host.address}:{host.ranks}" for host in machines), "--wdir", "/"]
    words += [*_mca(f"{shared}_backing_directory", folder), *_mca("mpi_yield_when_idle", _yields(plan, roster))]
    if len(machines) > 1:
        words += ["--leave-session-attached", runtime, f"{shell}_agent", f"sh {folder}/shell"]
        words += [runtime, f"{shell}_no_tree_spawn", "1"]
        words += [runtime, "prte_if_include" if is_new else "oob_tcp_if_include", subnets] if subnets else []
    if plan.nodes > 1 and subnets:
        words += _mca("btl_tcp_if_include", subnets)
    if _is_shared(plan, roster):
        # Nodes of one machine number their processes alike, so Open MPI would mistake another node's memory for its
        # own.
        words += [*_mca("pml", "ob1"), *_mca("btl", "self,tcp")]
    elif network_variables.is_tcp_only(plan.network):
        words += [*_mca("pml", "ob1"), *_mca("btl", "self,sm,tcp" if is_new else "self,vader,tcp")]
    return [*words, *plan.mpi_options, *_child(folder)]


def _hydra(plan: Plan, roster: Roster) -> list[str]:
    """Returns the command line of MPICH and Intel MPI."""
    machines, folder = hosts(plan, roster), place(roster)
    words = ["mpirun", "-np", str(plan.world_size)]
    words += ["-hosts", ",".join(f"{host.address}:{host.ranks}" for host in machines), "-wdir", "/"]
    words += ["-localhost", roster.master.address, "-bind-to", "none"]
    if len(machines) > 1:
        words += ["-launcher", "ssh", "-launcher-exec", "/bin/sh"]
    if _is_shared(plan, roster):  # As with Open MPI.
        # UCX would use every interface but loopback, even ones that come and go.
        apart = {"MPIR_CVAR_CH4_CMA_ENABLE": "0", "MPIR_CVAR_CH4_NETMOD": "ofi", "I_MPI_FABRICS": "ofi"}
        apart |= {"FI_PROVIDER": "tcp", "FI_TCP_IFACE": roster.master.interface or "lo"}
        words += [word for name, value in apart.items() for word in ("-genv", name, value)]
    return [*words, *plan.mpi_options, *_child(folder)]


def _child(folder: str) -> tuple[str, ...]:
    """Returns the command that mpirun starts for each rank: a shell, because /dev/shm is often mounted `noexec`."""
    return ("/bin/sh", f"{folder}/rank")


def _mca(name: str, value: str) -> tuple[str, ...]:
    return ("--mca", name, value)


def _yields(plan: Plan, roster: Roster) -> str:
    """Returns 1 where a machine has more ranks than cores: ranks would spin while others wait for the core."""
    return "1" if any(host.ranks > roster.members[host.node].cpus for host in hosts(plan, roster)) else "0"


def _subnets(roster: Roster) -> str:
    """Returns the subnets between the nodes, whose interfaces may have different names; "" = unknown."""
    subnets = list(dict.fromkeys(member.subnet for member in roster.members))
    return ",".join(subnets) if all(subnets) else ""


def _is_shared(plan: Plan, roster: Roster) -> bool:
    """Whether several nodes are on one machine."""
    return len(hosts(plan, roster)) < plan.nodes


# --- a rank -----------------------------------------------------------------------------------------------------
def _process(plan: Plan, roster: Roster, rank: Rank) -> ProcessSpec:
    member = roster.members[rank.node]
    interface = {"NCCL_SOCKET_IFNAME": member.interface or "lo"}
    made = process(plan, roster, rank, _rank_variables(plan, roster, rank))
    return replace(made, defaulted={**interface, **made.defaulted}, joins=f"{place(roster)}/{rank.rank}.sock")


def _rank_variables(plan: RankTable, roster: Roster, rank: Rank) -> dict[str, str]:
    """Returns the variables that Open MPI sets (under every MPI), and those that adapters of Azure's MPI jobs read."""
    return {
        "OMPI_COMM_WORLD_RANK": str(rank.rank),
        "OMPI_COMM_WORLD_SIZE": str(plan.world_size),
        "OMPI_COMM_WORLD_LOCAL_RANK": str(rank.local_rank),
        "OMPI_COMM_WORLD_LOCAL_SIZE": str(plan.processes_per_node),
        "OMPI_COMM_WORLD_NODE_RANK": str(rank.local_rank),
        "AZ_BATCH_MASTER_NODE": f"{roster.master.address}:{roster.port}",
        "AZ_BATCHAI_MPI_MASTER_NODE": roster.master.address,
        host_file.VARIABLE: host_file.file(roster.members[rank.node].root),
    }


def port(roster: Roster, node: int) -> int:
    """Returns the port of a node's command server."""
    return roster.ports[node] if node < len(roster.ports) else 0


def _check_alike(roster: Roster) -> None:
    """Raises RefusedError if the nodes' MPIs differ: their ranks couldn't communicate."""
    kinds = {member.mpi: member for member in reversed(roster.members)}
    if len(kinds) > 1:
        listing = ", ".join(f"{one.mpi or 'none'} on node {one.node} ({one.host})" for one in reversed(kinds.values()))
        what = f"the nodes have different MPIs: {listing}"
        raise RefusedError(what, where="distribution", fix="Install the same MPI on every node of the compute.")


def _preview(plan: Plan, roster: Roster) -> tuple[str, ...]:
    """Returns node 0's `mpirun` line; on a node, its own MPI decides on the options."""
    return tuple(word.replace(place(roster), "@shared") for word in line(plan, roster))


LAUNCHER = Launcher(
    "mpi",
    ranks=pytorch.LAUNCHER.ranks,
    render=render,
    reserved=lambda _: SET,
    starter=starter,
    preview=_preview,
    # MPI's ranks know each other; a single rank on a node may be a script that starts others.
    can_nest=lambda plan: plan.processes_per_node == 1,
    serves_gloo=True,
)

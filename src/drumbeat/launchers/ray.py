"""Ray: a cluster for the job alone, with head and nodes as serving ranks, and the user's command once, beside the head.

It shares nothing with other Rays: its ports, token, temporary folder and addresses are the job's. With an `address` the
command joins an existing cluster, and nothing is started beside it.
"""

from __future__ import annotations

import hashlib
import ipaddress
from dataclasses import replace

from drumbeat.launchers.launcher import Launcher
from drumbeat.launchers.rank_process import process
from drumbeat.model import folder_layout
from drumbeat.model.plan import LauncherOptions, Plan, Rank, RayCluster
from drumbeat.model.process import ProcessSpec
from drumbeat.model.roster import Member, Roster

DRIVER, HEAD, NODE = "driver", "head", "node"

ADDRESS = "RAY_ADDRESS"
SET = (ADDRESS, "RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH", "RAY_TMPDIR")
"""The variables that belong to this launcher: a job can't set them, except the token of a cluster that it joins."""
_STORE_SHARE = 0.3
"""The share of a machine's memory for Ray's objects: Ray's default, which several nodes on one machine must divide."""
_FIRST_LOOPBACK = ipaddress.IPv4Address("127.0.0.2")


def ranks(nodes: int, *, joins: bool) -> tuple[Rank, ...]:
    """Returns the driver and the head on node 0, and a Ray node on every other node.

    joins: whether the job joins an existing cluster, so that there is only the driver.
    """
    driver = Rank(0, 0, 0, DRIVER)
    if joins:
        return (driver,)
    rest = (Rank(node + 1, node, 0, NODE, serves=True) for node in range(1, nodes))
    return (driver, Rank(1, 0, 1, HEAD, serves=True), *rest)


def more_ports(plan: Plan, node: int) -> int:
    """Returns 1 for the dashboard, unless its port is configured."""
    ray = _cluster(plan)
    return int(node == 0 and ray.dashboard and not ray.dashboard_port)


def render(plan: Plan, roster: Roster, node: int) -> list[ProcessSpec]:
    """Returns the driver and the head on node 0, and a Ray node on any other."""
    return [_process(plan, roster, rank) for rank in plan.on(node)]


def head_address(plan: Plan, roster: Roster) -> str:
    """Returns the address of the cluster's head."""
    ray = _cluster(plan)
    return ray.address or f"{address(roster, 0)}:{_port(plan, roster)}"


def address(roster: Roster, node: int) -> str:
    """Returns the address that a node gives to Ray.

    Ray replaces 127.0.0.1 with the machine's external address. Nodes that see each other on loopback stay there, each
    at its own address.
    """
    if all(member.address.startswith("127.") for member in roster.members):
        return str(_FIRST_LOOPBACK + node)
    return roster.members[node].address


def name(node: int) -> str:
    """Returns Ray's name of a node."""
    return f"node{node}"


def place(member: Member) -> str:
    """Returns the node's private folder for Ray; short, because socket paths are limited."""
    if not member.root.startswith("/"):  # The placeholder of a preview.
        return f"{member.root}/ray"
    return f"/tmp/drumbeat-ray-{hashlib.sha256(member.root.encode()).hexdigest()[:12]}"  # noqa: S108 (owned and checked)


def token_file(member: Member) -> str:
    """Returns the file of the cluster's token on a node."""
    return f"{place(member)}/token"


# --- a rank -----------------------------------------------------------------------------------------------------
def _process(plan: Plan, roster: Roster, rank: Rank) -> ProcessSpec:
    member, ray = roster.members[rank.node], _cluster(plan)
    spec = process(plan, roster, rank, {"RAY_USAGE_STATS_ENABLED": "0"})
    # Ray gives its workers as many threads as their tasks have CPUs.
    spec.defaulted.pop("OMP_NUM_THREADS", None)
    if not ray.address:
        spec.set.update(RAY_AUTH_MODE="token", RAY_AUTH_TOKEN_PATH=token_file(member))
    if rank.role == DRIVER:
        spec.set[ADDRESS] = head_address(plan, roster)
        return spec
    # A Ray node is stopped when the driver has ended: no more work arrives.
    spec.defaulted["RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S"] = "0"
    sharing = sum(other.address == member.address for other in roster.members)
    if sharing > 1:
        spec.defaulted["RAY_DEFAULT_OBJECT_STORE_MEMORY_PROPORTION"] = f"{_STORE_SHARE / sharing:.4f}"
    line = _head_line(plan, roster) if rank.role == HEAD else _node_line(plan, roster, rank.node)
    return replace(spec, argv=line, modules_first=(folder_layout.code_folder(member.root),))


def _head_line(plan: Plan, roster: Roster) -> tuple[str, ...]:
    ray = _cluster(plan)
    words = ["ray", "start", "--head", f"--port={_port(plan, roster)}", *_common(plan, roster, 0, ray.head_args)]
    words += ["--disable-usage-stats", f"--include-dashboard={str(ray.dashboard).lower()}"]
    if ray.dashboard:
        words.append(f"--dashboard-port={ray.dashboard_port or _first(roster.held(0)[1:])}")
    return (*words, *ray.head_args)


def _node_line(plan: Plan, roster: Roster, node: int) -> tuple[str, ...]:
    more = _cluster(plan).node_args
    words = ["ray", "start", f"--address={head_address(plan, roster)}", *_common(plan, roster, node, more)]
    return (*words, *more)


def _common(plan: Plan, roster: Roster, node: int, more: tuple[str, ...]) -> list[str]:
    member = roster.members[node]
    granted = {"--num-cpus": _cluster(plan).cpus, "--num-gpus": len(member.gpus)}
    own = [f"{option}={count}" for option, count in granted.items() if not _has(more, option)]
    words = ["--block", f"--node-name={name(node)}", f"--node-ip-address={address(roster, node)}"]
    return [*words, f"--temp-dir={place(member)}/own", *own]


def _has(words: tuple[str, ...], option: str) -> bool:
    return any(word.partition("=")[0] == option for word in words)


def _port(plan: Plan, roster: Roster) -> str:
    return str(_cluster(plan).port or _first((roster.port,)))


def _first(ports: tuple[int, ...]) -> str:
    """Returns the first held port; in a preview no port is held."""
    return next((str(port) for port in ports if port), "@free-port")


def _cluster(plan: LauncherOptions) -> RayCluster:
    return plan.ray or RayCluster()


LAUNCHER = Launcher(
    "ray",
    ranks=lambda shape: ranks(shape.nodes, joins=bool(shape.address)),
    render=render,
    # A job that joins a cluster sets its token itself.
    reserved=lambda shape: (ADDRESS,) if shape.address else SET,
    more_ports=more_ports,
)

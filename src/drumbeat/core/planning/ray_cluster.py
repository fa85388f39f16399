"""Plans the Ray cluster of a job: its slots, and its arguments for `ray start`. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from itertools import zip_longest

from drumbeat.core.planning.node_resources import InstanceType, Size, share
from drumbeat.core.scheduling.resource_needs import Need
from drumbeat.jobfile.job.distribution import RayDistribution
from drumbeat.model.errors import SpecError
from drumbeat.model.plan import RayCluster

CPUS, GPUS = "--num-cpus", "--num-gpus"
OWNED = (
    "--head", "--address", "--port", "--block", "--node-name", "--node-ip-address", "--temp-dir", "--include-dashboard",
    "--dashboard-port", "--disable-usage-stats",
)  # fmt: skip
"""The options of `ray start` that drumbeat sets itself."""
_PORT = 6379
_HEAD_ARGS, _NODE_ARGS = "head_node_additional_args", "worker_node_additional_args"


def plan_cluster(
    wanted: RayDistribution, nodes: int, machines: Sequence[Size], kind: InstanceType
) -> tuple[RayCluster, Need]:
    """Returns the cluster, and what each node takes. machines: of the compute.

    A node of Ray's takes a machine, or its share of one where there are more nodes than machines, unless `--num-cpus`
    or `--num-gpus` says how much. Raises SpecError.
    """
    if wanted.address:
        return _joined(wanted, nodes)
    head_args, node_args = _words(wanted, _HEAD_ARGS), _words(wanted, _NODE_ARGS)
    said_cpus = [_count(words, CPUS, where) for words, where in ((head_args, _HEAD_ARGS), (node_args, _NODE_ARGS))]
    said_gpus = [_count(words, GPUS, where) for words, where in ((head_args, _HEAD_ARGS), (node_args, _NODE_ARGS))]
    whole_cpus = max(1, share([cpus for cpus, _ in machines], nodes))
    most = kind.each or max(int(kind.insists), share([gpus for _, gpus in machines], nodes))
    whole_gpus = 0 if kind.word == "cpu" else most
    cpus = _most(said_cpus, whole_cpus, nodes)
    alone = nodes > sum(cpus for cpus, _ in machines)
    need = Need(nodes, max(1, cpus), _most(said_gpus, whole_gpus, nodes), alone=alone)
    cluster = RayCluster(
        cpus=whole_cpus,
        port=wanted.port or 0,
        dashboard=bool(wanted.include_dashboard or wanted.dashboard_port),
        dashboard_port=wanted.dashboard_port or 0,
        head_args=head_args,
        node_args=node_args,
    )
    return cluster, need


def unused(wanted: RayDistribution) -> list[str]:
    """Returns notes on settings of an own cluster where the job joins another one."""
    of_own = ("include_dashboard", "dashboard_port", _HEAD_ARGS, _NODE_ARGS) if wanted.address else ()
    why = "changes nothing: `address` joins a cluster that runs already"
    return [f"distribution.{key} {why}" for key in of_own if getattr(wanted, key)]


def _joined(wanted: RayDistribution, nodes: int) -> tuple[RayCluster, Need]:
    if nodes > 1:
        what = f"`address` joins a Ray cluster that runs already, and the job asks for {nodes} nodes beside it"
        fix = "Leave instance_count out: the command runs once, and the cluster's own nodes do the work."
        raise SpecError(what, where="resources.instance_count", fix=fix)
    address = wanted.address or ""
    is_host = ":" not in address and address != "auto"
    return RayCluster(address=f"{address}:{wanted.port or _PORT}" if is_host else address), Need(1, 1)


def _most(counts: Sequence[int | None], otherwise: int, nodes: int) -> int:
    """Returns the largest count of any node; the second entry is for nodes that only a larger job has."""
    return max(otherwise if one is None else one for one in counts[: min(nodes, 2)])


def _words(wanted: RayDistribution, key: str) -> tuple[str, ...]:
    where, text = f"distribution.{key}", getattr(wanted, key) or ""
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise SpecError(f"these aren't words for a shell: {error}", where=where, fix="Close the quotes.") from error
    owned = next((word for word in words if word.partition("=")[0] in OWNED), "")
    if owned:
        what = f"{owned.partition('=')[0]} is drumbeat's to say to `ray start`"
        raise SpecError(what, where=where, fix="Leave it out; `drumbeat plan` shows the whole line.")
    return tuple(words)


def _count(words: Sequence[str], option: str, key: str) -> int | None:
    """Returns the value of an option, None = it isn't set."""
    for word, following in zip_longest(words, words[1:], fillvalue=""):
        name, is_joined, value = word.partition("=")
        if name == option:
            given = value if is_joined else following
            if not given.isdecimal():
                what = f"{option} needs a whole number, and has {given or 'none'}"
                raise SpecError(what, where=f"distribution.{key}", fix=f"Write {option}=4.")
            return int(given)
    return None

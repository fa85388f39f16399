"""TensorFlow: the user's command once per task, with the cluster and the task's place in it in `TF_CONFIG`.

Each task listens at its own port, which its node reserves. TF_CONFIG has TensorFlow's meaning: a `chief` coordinates
parameter servers, and without a chief worker 0 leads the others. An empty list of tasks is omitted, because TensorFlow
would wait for its tasks.
"""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import chain, repeat

from drumbeat.launchers.launcher import Launcher
from drumbeat.launchers.rank_process import process
from drumbeat.model.errors import RefusedError
from drumbeat.model.plan import Plan, Rank, RankTable
from drumbeat.model.process import ProcessSpec
from drumbeat.model.roster import Roster

SET = ("TF_CONFIG", "TASK_INDEX", "WORKER_HOSTS", "PS_HOSTS")
"""The variables that belong to this launcher, which a job can't set. All but the first are Batch AI's."""

CHIEF, WORKER, SERVER = "chief", "worker", "ps"
"""TensorFlow's names of the kinds of tasks, in the order of their ranks."""

MAX_TASKS = 1_000
"""The maximum number of tasks of a job: TF_CONFIG names each of them, and a variable can hold 128 KiB."""


def ranks(nodes: int, workers: int, servers: int, *, has_chief: bool) -> tuple[Rank, ...]:
    """Assigns chief, workers and parameter servers to the nodes in turn, so that their counts of each kind differ by
    one at most.

    With a chief, workers only execute its instructions: they serve, like parameter servers.
    """
    roles = chain(repeat(CHIEF, has_chief), repeat(WORKER, workers), repeat(SERVER, servers))
    return tuple(
        Rank(
            rank=rank,
            node=rank % nodes,
            local_rank=rank // nodes,
            role=role,
            serves=role == SERVER or (role == WORKER and has_chief),
            computes=role == WORKER,
        )
        for rank, role in enumerate(roles)
    )


def more_ports(plan: RankTable, node: int) -> int:
    """Returns one port for each task of the node but the first, which uses the port of every node."""
    return len(plan.on(node)) - 1


def render(plan: Plan, roster: Roster, node: int) -> list[ProcessSpec]:
    """Returns one process per task of the node."""
    cluster, indices, devices = _cluster(plan, roster), plan.indices, _devices(plan, roster, node)
    processes = [
        process(plan, roster, rank, {**_task_variables(cluster, rank.role, indices[rank.rank]), **devices[rank.rank]})
        for rank in plan.on(node)
    ]
    # gRPC would ask a node's web proxy (http_proxy) for the other tasks, and wait forever.
    direct = {"no_grpc_proxy": ",".join(dict.fromkeys(member.address for member in roster.members))}
    return [replace(one, defaulted={**direct, **one.defaulted}) for one in processes]


def _cluster(plan: RankTable, roster: Roster) -> dict[str, list[str]]:
    """Returns the address of each task by kind; a kind without tasks is omitted."""
    cluster: dict[str, list[str]] = {}
    for rank in plan.ranks:
        port = roster.held(rank.node)[rank.local_rank]
        cluster.setdefault(rank.role, []).append(f"{roster.members[rank.node].address}:{port}")
    return cluster


def _task_variables(cluster: dict[str, list[str]], kind: str, index: int) -> dict[str, str]:
    config = {"cluster": cluster, "task": {"type": kind, "index": index}, "environment": "cloud"}
    hosts = {"WORKER_HOSTS": cluster.get(WORKER, []), "PS_HOSTS": cluster.get(SERVER, [])}
    lists = {name: ",".join(where) for name, where in hosts.items() if where}
    return {"TF_CONFIG": json.dumps(config), "TASK_INDEX": str(index), **lists}


def _devices(plan: RankTable, roster: Roster, node: int) -> dict[int, dict[str, str]]:
    """Returns the GPUs of each task: a worker uses all GPUs that it sees, so a node's are divided among its workers."""
    gpus = roster.members[node].gpus
    those = [rank for rank in plan.on(node) if rank.computes]
    ends = [len(gpus) * at // len(those) for at in range(len(those) + 1)] if those else []
    shares = {rank.rank: gpus[ends[at] : ends[at + 1]] for at, rank in enumerate(those)}
    return {rank.rank: {"CUDA_VISIBLE_DEVICES": ",".join(shares.get(rank.rank, ()))} for rank in plan.on(node)}


def _check_size(tasks: int) -> None:
    if tasks > MAX_TASKS:
        what = f"{tasks:,} tasks are more than TF_CONFIG can name; at most {MAX_TASKS:,}"
        raise RefusedError(what, where="distribution.worker_count", fix="Ask for fewer workers or parameter servers.")


LAUNCHER = Launcher(
    "tensorflow",
    ranks=lambda shape: ranks(shape.nodes, shape.workers, shape.servers, has_chief=shape.has_chief),
    render=render,
    reserved=lambda _: SET,
    check_size=_check_size,
    more_ports=more_ports,
)

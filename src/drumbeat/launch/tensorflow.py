"""TensorFlow: the user's command once per task, with the cluster and the task's place in it in `TF_CONFIG`.

Each task listens at a port of its own, which its node holds for it. What TF_CONFIG means is TensorFlow's: a `chief`
coordinates parameter servers, and without a chief worker 0 leads the others. An empty list of tasks is left out, for
TensorFlow takes it for tasks that never come.
"""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import chain, repeat

from drumbeat.launch.ranks import process
from drumbeat.protocol.plan import Plan, Rank
from drumbeat.protocol.process import ProcessSpec
from drumbeat.protocol.roster import Roster

SET = ("TF_CONFIG", "TASK_INDEX", "WORKER_HOSTS", "PS_HOSTS")
"""The variables that belong to this launcher: a job can't set them itself. All but the first are Batch AI's."""

CHIEF, WORKER, SERVER = "chief", "worker", "ps"
"""TensorFlow's names of the kinds of tasks, in the order of their ranks."""


MOST_TASKS = 1_000
"""TF_CONFIG names each of them, and a variable can hold 128 KiB."""


def ranks(nodes: int, workers: int, servers: int, *, has_chief: bool) -> tuple[Rank, ...]:
    """Chief, workers, parameter servers, dealt to the nodes one by one: each gets as many of a kind, or one less.

    With a chief the workers only do what it sends them: they serve, as parameter servers do.
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


def more_ports(plan: Plan, node: int) -> int:
    """Each task has a port, and the node's first one is the first task's."""
    return len(plan.on(node)) - 1


def render(plan: Plan, roster: Roster, node: int) -> list[ProcessSpec]:
    """One process per task of the node."""
    cluster, indices, devices = _cluster(plan, roster), plan.indices, _devices(plan, roster, node)
    made = [
        process(plan, roster, rank, {**_of_task(cluster, rank.role, indices[rank.rank]), **devices[rank.rank]})
        for rank in plan.on(node)
    ]
    # gRPC would ask a node's web proxy (http_proxy) for the other tasks, and wait for ever.
    direct = {"no_grpc_proxy": ",".join(dict.fromkeys(member.address for member in roster.members))}
    return [replace(one, defaulted={**direct, **one.defaulted}) for one in made]


def _cluster(plan: Plan, roster: Roster) -> dict[str, list[str]]:
    """Where each task listens, by kind; a kind without tasks isn't in it."""
    found: dict[str, list[str]] = {}
    for rank in plan.ranks:
        port = roster.held(rank.node)[rank.local_rank]
        found.setdefault(rank.role, []).append(f"{roster.members[rank.node].address}:{port}")
    return found


def _of_task(cluster: dict[str, list[str]], kind: str, index: int) -> dict[str, str]:
    config = {"cluster": cluster, "task": {"type": kind, "index": index}, "environment": "cloud"}
    hosts = {"WORKER_HOSTS": cluster.get(WORKER, []), "PS_HOSTS": cluster.get(SERVER, [])}
    lists = {name: ",".join(where) for name, where in hosts.items() if where}
    return {"TF_CONFIG": json.dumps(config), "TASK_INDEX": str(index), **lists}


def _devices(plan: Plan, roster: Roster, node: int) -> dict[int, dict[str, str]]:
    """The GPUs of each task: a worker takes all that it sees, so those of a node are shared out among its workers."""
    gpus = roster.members[node].gpus
    those = [rank for rank in plan.on(node) if rank.computes]
    each = len(gpus) / max(1, len(those))
    shares = {rank.rank: gpus[int(at * each) : int((at + 1) * each)] for at, rank in enumerate(those)}
    return {rank.rank: {"CUDA_VISIBLE_DEVICES": ",".join(shares.get(rank.rank, ()))} for rank in plan.on(node)}

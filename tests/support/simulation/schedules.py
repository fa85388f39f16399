"""Schedules of a simulation: the actions of a seed, drawn from tables of what can happen and how often."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from tests.support.simulation import conditions, hangs
from tests.support.simulation import job_actions as job
from tests.support.simulation import node_actions as node
from tests.support.simulation import server_actions as server
from tests.support.simulation import warm_pool_actions as warm
from tests.support.simulation.action import Action
from tests.support.simulation.world import World

ACTIONS: dict[str, tuple[Callable[[World, Action], None], float]] = {
    "submit": (job.submit, 8), "cancel": (job.cancel, 2), "sync": (node.sync, 30), "repeat": (node.repeat, 4),
    "rank_ends": (node.rank_ends, 14), "grace_ends": (node.grace_ends, 6), "supervisor_dies": (node.supervisor_dies, 1),
    "agent_dies": (node.agent_dies, 4), "staging_fails": (node.staging_fails, 1), "node_dies": (node.node_dies, 2),
    "link": (node.link, 2), "effect": (server.effect, 14), "place": (server.place, 8), "tick": (server.tick, 4),
    "watch": (node.watch, 4), "engine_refuses": (node.engine_refuses, 1), "watch_late": (node.watch_late, 2),
    "store_refuses": (server.store_refuses, 1), "server_dies": (server.server_dies, 1),
    "server_will_die": (server.server_will_die, 2), "server_starts": (server.server_starts, 6),
}  # fmt: skip
"""Name to what happens, and how often it does beside the others."""

OF_SWEEPS: dict[str, tuple[Callable[[World, Action], None], float]] = {
    "submit_sweep": (job.submit_sweep, 5), "submit_pipeline": (job.submit_pipeline, 5), "report": (job.report, 20),
    "children": (job.children, 10),
}  # fmt: skip
"""What happens beside that in the schedules of `WITH_SWEEPS`."""

OF_DEPLOYMENTS: dict[str, tuple[Callable[[World, Action], None], float]] = {
    "put_deployment": (job.put_deployment, 8), "delete_deployment": (job.delete_deployment, 2),
    "delete_endpoint": (job.delete_endpoint, 1), "endpoints": (job.endpoints, 14), "children": (job.children, 14),
    "router_dies": (job.router_dies, 1), "tick": (server.tick, 8),
}  # fmt: skip
"""What happens beside that in the schedules of `WITH_DEPLOYMENTS`."""

OF_USERS: dict[str, tuple[Callable[[World, Action], None], float]] = {
    "submit_as": (job.submit_as, 12), "set_quota": (job.set_quota, 4),
}  # fmt: skip
"""What happens beside that in the schedules of `WITH_USERS`."""

OF_ELASTIC: dict[str, tuple[Callable[[World, Action], None], float]] = {
    "submit_elastic": (job.submit_elastic, 14), "checkpoint": (job.checkpoint, 8), "node_dies": (node.node_dies, 6),
    "tick": (server.tick, 8),
}  # fmt: skip
"""What happens beside that in the schedules of `WITH_ELASTIC`."""

OF_WARM_POOLS: dict[str, tuple[Callable[[World, Action], None], float]] = {
    "submit_warm": (warm.submit_warm, 12), "fair": (warm.turns, 50), "turns": (warm.turns, 8),
    "job_ends": (warm.job_ends, 10), "prepared": (warm.prepared, 6), "agent_acts": (warm.agent_acts, 8),
    "supervisor_acts": (warm.supervisor_acts, 8), "strike": (warm.strike, 8),
    "interpreter_dies": (warm.interpreter_dies, 2), "memory": (warm.memory, 2),
    "spare_dies": (warm.spare_dies, 2), "wait_long": (warm.wait_long, 1),
    "sync": (node.sync, 4), "repeat": (node.repeat, 1), "rank_ends": (node.rank_ends, 3),
    "grace_ends": (node.grace_ends, 3), "supervisor_dies": (node.supervisor_dies, 1),
    "agent_dies": (node.agent_dies, 2),
    "staging_fails": (node.staging_fails, 0.3), "node_dies": (node.node_dies, 1), "link": (node.link, 1),
    "effect": (server.effect, 3), "place": (server.place, 2), "tick": (server.tick, 3), "watch": (node.watch, 1),
    "engine_refuses": (node.engine_refuses, 0.3), "watch_late": (node.watch_late, 0.5),
    "store_refuses": (server.store_refuses, 0.5), "server_dies": (server.server_dies, 0.5),
    "server_will_die": (server.server_will_die, 1), "cancel": (job.cancel, 2), "submit": (job.submit, 1),
}  # fmt: skip
"""What happens in the schedules of `WITH_WARM_POOLS`: the rest of the tables as in the others."""

OF_HANGS: dict[str, tuple[Callable[[World, Action], None], float]] = {"silence": (hangs.silence, 1)}
"""What happens beside the others in `schedule_with_hangs`."""

OF_CONDITIONS: dict[str, tuple[Callable[[World, Action], None], float]] = {
    "value": (conditions.value, 8), "rank_fails": (conditions.rank_fails, 3), "act_alone": (conditions.act_alone, 1),
}  # fmt: skip
"""What happens beside the others in `schedule_with_conditions`."""

WITH_WARM_POOLS = (6, 7, 10)
"""The seeds that leave one of these when divided by 17."""

WITH_ELASTIC = (1, 10, 11)
"""The seeds that leave one of these when divided by 13."""

WITH_DEPLOYMENTS = (1, 7, 13)
"""The seeds that leave one of these when divided by 19."""

WITH_USERS = (3, 8)
"""The seeds that leave one of these when divided by 11."""

WITH_SWEEPS = (2, 5)
"""The seeds that leave one of these when divided by 7."""

SHARED = ACTIONS | {
    "server_ends": (server.server_ends, 1), "server_stops": (server.server_stops, 2),
    "server_will_stop": (server.server_will_stop, 8), "reroute": (server.reroute, 2), "tick": (server.tick, 8),
}  # fmt: skip
"""The same where several servers share a store."""


def schedule(seed: int, servers: int = 1, length: int = 80) -> list[Action]:
    """The actions of a seed: always the same ones, as long as the tables above are.

    Each seed has its own mixture, so that rare things happen often in some (swarm testing: Groce et al., ISSTA 2012).
    """
    random = Random(seed)
    table = ACTIONS if servers == 1 else SHARED
    if seed % 7 in WITH_SWEEPS:
        table = table | OF_SWEEPS
    if seed % 19 in WITH_DEPLOYMENTS:
        table = table | OF_DEPLOYMENTS
    if seed % 11 in WITH_USERS:
        table = table | OF_USERS
    if seed % 13 in WITH_ELASTIC:
        table = table | OF_ELASTIC
    if seed % 17 in WITH_WARM_POOLS:
        table = table | OF_WARM_POOLS
    names = list(table)
    weights = [table[name][1] * random.choice((0.2, 1, 1, 5)) for name in names]
    drawn = random.choices(names, weights, k=length)
    actions = [Action(name, random.randrange(1000), random.randrange(1000)) for name in drawn]
    if seed % 17 in WITH_WARM_POOLS and seed % 3:
        first = Action("submit_warm", random.randrange(1000), random.randrange(1000))
        turn = Action("fair", 2)
        actions = [first, *[turn] * 4, *([Action("job_ends"), *[turn] * 3] if seed % 3 == 1 else []), *actions]
    return [one for each in actions for one in (fair(each, servers) if each.what == "fair" else [each])]


def fair(action: Action, servers: int = 1) -> list[Action]:
    """Some time without faults."""
    syncs = [Action("sync", node, 8 * node) for node in range(3)]
    effects = [Action("effect", 0, server) for server in range(servers)]
    turn = [Action("place", 0, action.b), *effects, *syncs, Action("turns", action.a), Action("prepared", action.b)]
    return [*turn * (1 + action.a % 3), Action("tick", 1)]


def schedule_with_hangs(seed: int, servers: int = 1) -> list[Action]:
    """The actions of a seed, with looks at silent ranks among them; those of `schedule` stay as they are."""
    random = Random(seed)
    actions: list[Action] = []
    for action in schedule(seed, servers):
        looks = random.choice((0, 0, 1, 2))
        actions += [action, *(Action("silence", random.randrange(1000), random.randrange(1000)) for _ in range(looks))]
    return actions


def schedule_with_conditions(seed: int, servers: int = 1) -> list[Action]:
    """The actions of a seed after a job with conditions has begun, with values that meet these among them; those of
    `schedule` stay as they are.
    """
    random, names = Random(seed), list(OF_CONDITIONS)
    weights = [weight for _, weight in OF_CONDITIONS.values()]
    first = Action("submit", random.randrange(18), 2 * random.randrange(6) + 1)
    actions = [first, *fair(Action("fair", 2), servers) * 2]
    for action in schedule(seed, servers):
        more = random.choices(names, weights, k=random.choice((0, 1, 1)))
        actions += [action, *(Action(name, random.randrange(1000), random.randrange(1000)) for name in more)]
    return actions


def happen(world: World, action: Action) -> None:
    """Lets it happen."""
    every = SHARED | OF_SWEEPS | OF_DEPLOYMENTS | OF_USERS | OF_ELASTIC | OF_WARM_POOLS | OF_HANGS | OF_CONDITIONS
    every[action.what][0](world, action)

"""What can happen, and schedules of it."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any
from zlib import crc32

from drumbeat.core.life.events import Loss
from drumbeat.testing.simulation import elastic, people
from drumbeat.testing.simulation import standby_actions as warm
from drumbeat.testing.simulation.action import Action, pick, ranks_of
from drumbeat.testing.simulation.nodes import MISSES_A_PEER
from drumbeat.testing.simulation.world import Nap, Server, World


def _tasks(nodes: int, workers: int, servers: int, *, has_chief: bool = True) -> dict[str, Any]:
    distribution = {"type": "tensorflow", "worker_count": workers, "parameter_server_count": servers}
    extra = {"drumbeat": {"tensorflow_chief": has_chief}}
    return {"distribution": distribution, "resources": {"instance_count": nodes}, **extra}


RANKS = (ranks_of(1, 1), ranks_of(2, 1), ranks_of(1, 2), ranks_of(2, 2), ranks_of(1, 4), ranks_of(3, 2))
SERVED = (_tasks(1, 1, 1), _tasks(2, 1, 1), _tasks(2, 2, 1, has_chief=False))
"""Jobs with ranks that serve: one in four."""


def submit(world: World, action: Action) -> None:
    """A job of some size; with a key that was used, the one of before."""
    shape = SERVED[action.a % 3] if action.a % 24 >= 18 else RANKS[action.a % 6]
    key = f"k{action.b % 12}"
    document: dict[str, object] = {
        "name": f"j{action.b % 12}",
        "command": "true",
        **shape,
        "queue_settings": {"priority": ["low", "medium", "high"][action.a % 3]},
        "drumbeat": {**shape.get("drumbeat", {}), "grace_s": 5, "lost_after_s": 60, "max_retries": action.a % 3},
    }
    if action.a % 4 == 0:
        document["limits"] = {"timeout": 30 + action.a}
    world.ask("submit", key, document, at=action.b // 12)


def submit_elastic(world: World, action: Action) -> None:
    """A job whose number of nodes may change."""
    key = f"e{action.b % 6}"
    document: dict[str, object] = {
        "name": f"e{action.b % 6}",
        "command": "true",
        **ranks_of(2 + action.a % 2, 1 + action.a % 5 // 4),
        "queue_settings": {"priority": ["low", "medium", "high"][action.a % 3]},
        "drumbeat": {
            **elastic.SIZES[action.b % 4], "grace_s": 5, "lost_after_s": 60, "max_retries": action.a % 3,
        },
    }  # fmt: skip
    world.ask("submit", key, document, at=action.b // 6)


def checkpoint(world: World, action: Action) -> None:
    """The ranks of a job save a checkpoint."""
    node = pick([one for one in world.nodes() if one.running], action.a)
    if node:
        world.ask("checkpoint", node.gang.job, node.gang.attempt, node.round, at=action.b)


def submit_as(world: World, action: Action) -> None:
    """A person with a token submits a job of some size."""
    key = f"q{action.b % 12}"
    document: dict[str, object] = {
        "name": f"q{action.b % 12}",
        "command": "true",
        **RANKS[action.a % 6],
        "queue_settings": {"priority": ["medium", "medium", "high"][action.a % 3]},
        "drumbeat": {"grace_s": 5, "lost_after_s": 60, "max_retries": action.a % 3},
    }
    person = people.PERSONS[action.a // 6 % len(people.PERSONS)]
    world.ask("submit_as", key, document, person, at=action.b // 12)


def set_quota(world: World, action: Action) -> None:
    """An owner sets a quota, or removes it."""
    world.ask("quota", people.some_quota(action.a, action.b), at=action.b)


SWEEP_SPACES: tuple[dict[str, Any], ...] = (
    {"a": {"type": "choice", "values": [1, 2]}, "b": {"type": "choice", "values": ["x", "y"]}},
    {"a": {"type": "choice", "values": [1, 2, 3, 4, 5]}},
    {"a": {"type": "choice", "values": [1]}},
)
SWEEP_RULES: tuple[dict[str, Any] | None, ...] = (
    None,
    {"type": "bandit", "slack_amount": 0.2, "evaluation_interval": 1},
    {"type": "median_stopping", "evaluation_interval": 2, "delay_evaluation": 2},
    {"type": "truncation_selection", "truncation_percentage": 50, "evaluation_interval": 2},
)


def submit_sweep(world: World, action: Action) -> None:
    """Someone submits a small grid sweep; with a key that was used, the one of before."""
    key = f"s{action.b % 4}"
    document: dict[str, object] = {
        "type": "sweep",
        "name": f"sweep{action.b % 4}",
        "trial": {"command": "true", **RANKS[action.a % 5]},
        "sampling_algorithm": "grid",
        "search_space": SWEEP_SPACES[action.a % 3],
        "objective": {"goal": ["minimize", "maximize"][action.a % 2], "primary_metric": "loss"},
        "limits": {"max_total_trials": 4, "max_concurrent_trials": 1 + action.b % 3},
        "drumbeat": {"grace_s": 5, "lost_after_s": 60, "max_retries": action.a % 2},
    }
    if rule := SWEEP_RULES[action.b % 4]:
        document["early_termination"] = rule
    if action.a % 5 == 0:
        document["limits"] = {"max_total_trials": 4, "timeout": 30 + action.a}
    world.ask("submit", key, document, at=action.b // 4)


def _step(seed: int, size: int, *after: str) -> dict[str, Any]:
    """A step of a pipeline. seed: by which steps differ, or are reused."""
    inputs = {name: f"${{{{parent.jobs.{name}.outputs.out}}}}" for name in after}
    command = f"true {seed} {' '.join(f'${{{{inputs.{name}}}}}' for name in after)}"
    return {"command": command, "inputs": inputs, "outputs": {"out": {"type": "uri_folder"}}, **RANKS[size % 5]}


def submit_pipeline(world: World, action: Action) -> None:
    """Someone submits a pipeline of a few steps; with a key that was used, the one of before."""
    steps: dict[str, Any] = {"one": _step(action.a % 2, action.b), "two": _step(action.a % 3, 0, "one")}
    if action.a % 3:
        steps |= {"three": _step(0, action.a, "one"), "four": _step(0, 0, "two", "three")}
    for step in steps.values():
        step["drumbeat"] = {"grace_s": 5, "lost_after_s": 60, "max_retries": action.a % 2}
    document: dict[str, object] = {
        "type": "pipeline",
        "name": f"pipeline{action.b % 4}",
        "jobs": steps,
        "settings": {"continue_on_step_failure": action.b % 3 == 0, "force_rerun": action.b % 5 == 0},
    }
    world.ask("submit", f"p{action.b % 4}", document, at=action.b // 4)


def report(world: World, action: Action) -> None:
    """A rank 0 reports its metric."""
    node = pick([one for one in world.nodes() if one.running and one.number == 0], action.a)
    if node:
        world.metrics.report(node.gang.job, (crc32(node.gang.job.encode()) + action.b) % 100 / 100)


def children(world: World, action: Action) -> None:
    """A server looks at the children of a parent."""
    name = pick(world.jobs(), action.a)
    if name:
        world.ask("children", name, at=action.b)


def cancel(world: World, action: Action) -> None:
    """A person changes their mind."""
    name = pick(world.jobs(), action.a)
    if name:
        world.ask("cancel", name, action.b % 3 == 0, at=action.b)


def sync(world: World, action: Action) -> None:
    """An agent says how far it is, and hears what to do, unless the answer is lost."""
    node = pick([n for n in world.nodes() if not n.is_cut_off and n.can_speak], action.a)
    if node:
        hears = action.b % 8 != 7
        world.ask("sync", node, node.status(), hears, at=node.server, known=node.servers)


def repeat(world: World, action: Action) -> None:
    """Something that an agent said before comes again, or comes late: of any gang that ever was."""
    node = pick([one for one in world.engine.ever if one.said], action.a)
    if node:
        old = node.said[action.b % len(node.said)]
        world.ask("sync", node, old, old is node.said[-1], at=action.b // 7)


def rank_ends(world: World, action: Action) -> None:
    """A rank ends, mostly well."""
    node = pick([n for n in world.nodes() if n.running], action.a)
    if node:
        code = [0, 0, 0, 0, 0, 1, 137, MISSES_A_PEER][action.b % 8]
        node.end_rank(action.b, code, world.clock.monotonic())


def grace_ends(world: World, action: Action) -> None:
    """Ranks that were told to stop have ended."""
    node = pick([n for n in world.nodes() if n.is_stopping], action.a)
    if node:
        node.end_stopped(world.clock.monotonic())


def keeper_dies(world: World, action: Action) -> None:
    """Kill -9 of a keeper."""
    node = pick(world.nodes(), action.a)
    if node:
        node.lose_keeper()


def agent_dies(world: World, action: Action) -> None:
    """Kill -9 of an agent; another one takes over."""
    node = pick(world.nodes(), action.a)
    if node:
        node.forget()


def staging_fails(world: World, action: Action) -> None:
    """A node can't be prepared."""
    node = pick(world.nodes(), action.a)
    if node:
        node.fail_staging()


def node_dies(world: World, action: Action) -> None:
    """A node is gone, and the engine knows; or it takes all of a gang's, and says why; or a machine leaves."""
    node = pick(world.nodes(), action.a)
    if node is None:
        return
    if action.b % 9 == 8:
        world.engine.leaving.setdefault(node.gang.name, {})[node.number] = "a reboot is scheduled"
        return
    cause = list(Loss)[max(0, action.b % (2 * len(Loss)) - len(Loss))]
    of_gang = [one for one in world.nodes() if one.gang.name == node.gang.name]
    world.engine.causes.setdefault(node.gang.name, cause)
    for one in [node] if cause is Loss.LOST else of_gang:
        one.leave()
        world.engine.dead.setdefault(one.gang.name, {})[one.number] = "no power"


def link(world: World, action: Action) -> None:
    """A node's link is cut, or mended."""
    node = pick(world.nodes(), action.a)
    if node:
        node.is_cut_off = not node.is_cut_off


def effect(world: World, action: Action) -> None:
    """The outbox gets to one of its rows."""
    server = world.servers[action.b % len(world.servers)]
    is_old = len(world.servers) > 1 and action.b % 50 >= 40
    pending = pick(server.handed if is_old else world.outbox(server), action.a)
    if pending and server.is_awake:
        world.ask("effect", pending, at=server.number)


def place(world: World, action: Action) -> None:
    """The loop gets to placement."""
    world.ask("place", at=action.b)


def tick(world: World, action: Action) -> None:
    """Time passes, and the loop notices."""
    world.tick([1, 5, 20, 90][action.a % 4])


def watch(world: World, action: Action) -> None:
    """The engine is asked about a gang."""
    name = pick(world.jobs(), action.a)
    if name:
        world.ask("watch", name, at=action.b)


def watch_late(world: World, action: Action) -> None:
    """The engine answers only now what it was asked a while ago."""
    job = pick(world.looked[-5:], action.a)
    if job:
        world.ask("look", job, at=action.b)


def store_refuses(world: World, action: Action) -> None:
    """The disk is full, for some commits; or a database that is shared goes away between them and its answers."""
    server = which(world, action)
    server.refusals, server.loses_answers = 1 + action.a % 3, len(world.servers) > 1 and action.a % 2 == 0


def engine_refuses(world: World, action: Action) -> None:
    """The next gang is refused, or the engine is away."""
    if action.a % 3 == 0:
        world.engine.refusals = 1
    else:
        world.engine.failures = 1 + action.a % 2


def which(world: World, action: Action) -> Server:
    """The server that something happens to."""
    return world.servers[action.b % len(world.servers)]


def server_dies(world: World, action: Action) -> None:
    """Kill -9, between two things."""
    world.kill_server(which(world, action))


def server_will_die(world: World, action: Action) -> None:
    """Kill -9 at one of the next fault points."""
    which(world, action).fuse = 1 + action.a % 6


def server_starts(world: World, action: Action) -> None:
    """Somebody runs a command again, or sends SIGCONT."""
    world.start_server(which(world, action))


def server_ends(world: World, action: Action) -> None:
    """SIGTERM: a server is taken down in good order."""
    world.end_server(which(world, action))


def server_stops(world: World, action: Action) -> None:
    """SIGSTOP between two things, or a machine that hangs; often for longer than others wait."""
    server = which(world, action)
    server.is_asleep = server.control is not None
    if action.a % 3:
        world.tick(10 * (action.a % 5))


def server_will_stop(world: World, action: Action) -> None:
    """SIGSTOP at one of the next fault points, for as long as some actions take."""
    where, points = [("", 1 + action.a % 5), ("effect.", 1 + action.a % 3), ("loop.", 1)][action.a % 3]
    which(world, action).nap = Nap(where, points, 2 + action.a % 23)


def reroute(world: World, action: Action) -> None:
    """An agent comes to another server."""
    node = pick(world.nodes(), action.a)
    if node:
        node.server += 1


ACTIONS: dict[str, tuple[Callable[[World, Action], None], float]] = {
    "submit": (submit, 8), "cancel": (cancel, 2), "sync": (sync, 30), "repeat": (repeat, 4),
    "rank_ends": (rank_ends, 14), "grace_ends": (grace_ends, 6), "keeper_dies": (keeper_dies, 1),
    "agent_dies": (agent_dies, 4),
    "staging_fails": (staging_fails, 1), "node_dies": (node_dies, 2), "link": (link, 2), "effect": (effect, 14),
    "place": (place, 8), "tick": (tick, 4), "watch": (watch, 4), "engine_refuses": (engine_refuses, 1),
    "watch_late": (watch_late, 2), "store_refuses": (store_refuses, 1),
    "server_dies": (server_dies, 1), "server_will_die": (server_will_die, 2),
    "server_starts": (server_starts, 6),}  # fmt: skip
"""Name to what happens, and how often it does beside the others."""

OF_SWEEPS: dict[str, tuple[Callable[[World, Action], None], float]] = {
    "submit_sweep": (submit_sweep, 5), "submit_pipeline": (submit_pipeline, 5), "report": (report, 20),
    "children": (children, 10),
}  # fmt: skip
"""What happens beside that in the schedules of `WITH_SWEEPS`."""

OF_PERSONS: dict[str, tuple[Callable[[World, Action], None], float]] = {
    "submit_as": (submit_as, 12), "set_quota": (set_quota, 4),
}  # fmt: skip
"""What happens beside that in the schedules of `WITH_PERSONS`."""

OF_ELASTIC: dict[str, tuple[Callable[[World, Action], None], float]] = {
    "submit_elastic": (submit_elastic, 14), "checkpoint": (checkpoint, 8), "node_dies": (node_dies, 6),
    "tick": (tick, 8),
}  # fmt: skip
"""What happens beside that in the schedules of `WITH_ELASTIC`."""

OF_STANDBYS: dict[str, tuple[Callable[[World, Action], None], float]] = {
    "submit_warm": (warm.submit_warm, 12), "fair": (warm.turns, 50), "turns": (warm.turns, 8),
    "job_ends": (warm.job_ends, 10), "prepared": (warm.prepared, 6), "agent_acts": (warm.agent_acts, 8),
    "keeper_acts": (warm.keeper_acts, 8), "strike": (warm.strike, 8),
    "interpreter_dies": (warm.interpreter_dies, 2), "memory": (warm.memory, 2), "spare_dies": (warm.spare_dies, 2),
    "wait_long": (warm.wait_long, 1), "sync": (sync, 4), "repeat": (repeat, 1), "rank_ends": (rank_ends, 3),
    "grace_ends": (grace_ends, 3), "keeper_dies": (keeper_dies, 1), "agent_dies": (agent_dies, 2),
    "staging_fails": (staging_fails, 0.3), "node_dies": (node_dies, 1), "link": (link, 1), "effect": (effect, 3),
    "place": (place, 2), "tick": (tick, 3), "watch": (watch, 1), "engine_refuses": (engine_refuses, 0.3),
    "watch_late": (watch_late, 0.5), "store_refuses": (store_refuses, 0.5), "server_dies": (server_dies, 0.5),
    "server_will_die": (server_will_die, 1), "cancel": (cancel, 2), "submit": (submit, 1),
}  # fmt: skip
"""What happens in the schedules of `WITH_STANDBYS`: the rest of the tables as in the others."""

WITH_STANDBYS = (6, 7, 10)
"""The seeds that leave one of these when divided by 17."""

WITH_ELASTIC = (1, 10, 11)
"""The seeds that leave one of these when divided by 13."""

WITH_PERSONS = (3, 8)
"""The seeds that leave one of these when divided by 11."""

WITH_SWEEPS = (2, 5)
"""The seeds that leave one of these when divided by 7."""

SHARED = ACTIONS | {
    "server_ends": (server_ends, 1), "server_stops": (server_stops, 2), "server_will_stop": (server_will_stop, 8),
    "reroute": (reroute, 2), "tick": (tick, 8),
}  # fmt: skip
"""The same where several servers share a store."""


def schedule(seed: int, servers: int = 1, length: int = 80) -> list[Action]:
    """The actions of a seed: always the same ones, as long as the tables above are.

    Each seed has its own mixture, so that rare things happen often in some (swarm testing: Groce et al., ISSTA 2012).
    """
    random = Random(seed)  # noqa: S311 (faults, not secrets)
    table = ACTIONS if servers == 1 else SHARED
    if seed % 7 in WITH_SWEEPS:
        table = table | OF_SWEEPS
    if seed % 11 in WITH_PERSONS:
        table = table | OF_PERSONS
    if seed % 13 in WITH_ELASTIC:
        table = table | OF_ELASTIC
    if seed % 17 in WITH_STANDBYS:
        table = table | OF_STANDBYS
    names = list(table)
    weights = [table[name][1] * random.choice((0.2, 1, 1, 5)) for name in names]
    drawn = random.choices(names, weights, k=length)
    actions = [Action(name, random.randrange(1000), random.randrange(1000)) for name in drawn]
    if seed % 17 in WITH_STANDBYS and seed % 3:
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


def happen(world: World, action: Action) -> None:
    """Lets it happen."""
    (SHARED | OF_SWEEPS | OF_PERSONS | OF_ELASTIC | OF_STANDBYS)[action.what][0](world, action)

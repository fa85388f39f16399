"""What can happen to the nodes of jobs in a simulation: agents, supervisors, ranks, links and the engine."""

from __future__ import annotations

from drumbeat.core.lifecycle.events import Loss
from tests.support.simulation.action import Action, pick
from tests.support.simulation.nodes import MISSES_A_PEER
from tests.support.simulation.world import World


def sync(world: World, action: Action) -> None:
    """An agent says how far it is, and hears what to do, unless the answer is lost; at times others do so with it."""
    able = [n for n in world.nodes() if not n.is_cut_off and n.can_speak]
    node = pick(able, action.a)
    if node:
        hears = action.b % 8 != 7
        if action.b % 5 == 3:
            together = [n for n in able if n.server == node.server and n.servers == node.servers]
            world.ask("sync_together", together, hears, at=node.server, known=node.servers)
            return
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


def supervisor_dies(world: World, action: Action) -> None:
    """Kill -9 of a supervisor."""
    node = pick(world.nodes(), action.a)
    if node:
        node.lose_supervisor()


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


def engine_refuses(world: World, action: Action) -> None:
    """The next gang is refused, or the engine is away."""
    if action.a % 3 == 0:
        world.engine.refusals = 1
    else:
        world.engine.failures = 1 + action.a % 2

"""What can happen to the servers of a simulation, and what they get to do."""

from __future__ import annotations

from tests.support.simulation.action import Action, pick
from tests.support.simulation.world import Nap, Server, World


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


def store_refuses(world: World, action: Action) -> None:
    """The disk is full, for some commits; or a database that is shared goes away between them and its answers."""
    server = which(world, action)
    server.refusals, server.loses_answers = 1 + action.a % 3, len(world.servers) > 1 and action.a % 2 == 0


def which(world: World, action: Action) -> Server:
    """The server that something happens to."""
    return world.servers[action.b % len(world.servers)]


def server_dies(world: World, action: Action) -> None:
    """Kill -9, between two things."""
    world.kill_server(which(world, action))


def server_will_die(world: World, action: Action) -> None:
    """Kill -9 at one of the next failpoints."""
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
    """SIGSTOP at one of the next failpoints, for as long as some actions take."""
    where, points = [("", 1 + action.a % 5), ("effect.", 1 + action.a % 3), ("loop.", 1)][action.a % 3]
    which(world, action).nap = Nap(where, points, 2 + action.a % 23)


def reroute(world: World, action: Action) -> None:
    """An agent comes to another server."""
    node = pick(world.nodes(), action.a)
    if node:
        node.server += 1

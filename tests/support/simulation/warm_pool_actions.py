"""What can happen to agents, supervisors and warm workers that are real."""

from __future__ import annotations

from tests.support.simulation import warm_pools
from tests.support.simulation.action import Action, on_hang, pick, ranks_of
from tests.support.simulation.world import World


def submit_warm(world: World, action: Action) -> None:
    """A job whose nodes prepare interpreters, and may begin in those of another."""
    key = f"w{action.b % 10}"
    document: dict[str, object] = {
        "name": f"w{action.b % 10}",
        "command": f"{warm_pools.COMMAND} {action.a % 10 // 9}",
        **ranks_of(1 + action.a % 4 // 3, 1 + action.a % 5 // 4),
        "environment_variables": {"OMP_NUM_THREADS": str(1 + action.a % 11 // 10)},
        "drumbeat": {"grace_s": 5, "lost_after_s": 60, "max_retries": action.a % 3, **on_hang(action.b)},
    }
    world.ask("submit", key, document, at=action.b // 10)


def agent_acts(world: World, action: Action) -> None:
    """An agent with a real supervisor takes a step."""
    agent = pick(world.warm_pools.agents(), action.a)
    if agent:
        world.warm_pools.act(agent)


def supervisor_acts(world: World, action: Action) -> None:
    """A real supervisor takes a step."""
    supervisor = pick(world.warm_pools.supervisors(), action.a)
    if supervisor:
        world.warm_pools.act(supervisor)


def turns(world: World, action: Action) -> None:
    """Every agent and every supervisor takes a step, or some."""
    world.warm_pools.take_turns(1 + action.a % 2)


def job_ends(world: World, action: Action) -> None:
    """The ranks of a job end well."""
    node = pick([one for one in world.nodes() if one.running], action.a)
    for one in world.nodes() if node else []:
        for _ in list(one.running) if node and one.gang.name == node.gang.name and not one.is_stopping else ():
            one.end_rank(0, 0, world.clock.monotonic())


def prepared(world: World, action: Action) -> None:
    """An interpreter has imported its modules, or can't be prepared."""
    one = pick(world.warm_pools.preparing(), action.a)
    if one:
        one.answer("the import of torch prints something" if action.b % 12 == 11 else "ready")


def interpreter_dies(world: World, action: Action) -> None:
    """Kill -9 of a warm worker."""
    one = pick(world.warm_pools.waiting(), action.a)
    if one:
        world.warm_pools.box.end(one, -9)


def memory(world: World, action: Action) -> None:
    """Another program takes memory, or gives it back."""
    if world.warm_pools.nodes:
        world.warm_pools.box.free = (0.6, 0.1, 0.03)[action.a % 3]


def strike(world: World, action: Action) -> None:
    """Kill -9 of the agent or supervisor that comes to the next point, or it is stopped there for some actions."""
    world.warm_pools.strike = warm_pools.PointStrike(1 + action.a % 5, action.b % 12)


def spare_dies(world: World, action: Action) -> None:
    """Kill -9 of a supervisor, of an attempt or spare."""
    supervisor = pick(world.warm_pools.supervisors(), action.a)
    if supervisor and not supervisor.is_busy:
        world.warm_pools.kill(supervisor)


def wait_long(world: World, action: Action) -> None:
    """Nothing comes for a while."""
    world.tick([60, 200, 400, 650][action.a % 4])

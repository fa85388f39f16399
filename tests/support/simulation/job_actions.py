"""What users and ranks do with jobs in a simulation: submitted, canceled, reported of; quotas are set."""

from __future__ import annotations

from typing import Any
from zlib import crc32

from drumbeat.model.endpoints import OnlineDeployment, ProbeSettings
from tests.support.simulation import conditions, deployments, elastic, users
from tests.support.simulation.action import Action, on_hang, pick, ranks_of
from tests.support.simulation.world import World


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
        "drumbeat": {
            **shape.get("drumbeat", {}),
            "grace_s": 5,
            "lost_after_s": 60,
            "max_retries": action.a % 3,
            **on_hang(action.b),
            **(conditions.KEYS if action.b % 2 else {}),
        },
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
            **on_hang(action.b // 4),
        },
    }  # fmt: skip
    world.ask("submit", key, document, at=action.b // 6)


def checkpoint(world: World, action: Action) -> None:
    """The ranks of a job save a checkpoint."""
    node = pick([one for one in world.nodes() if one.running], action.a)
    if node:
        world.ask("checkpoint", node.gang.job, node.gang.attempt, node.round, at=action.b)


def submit_as(world: World, action: Action) -> None:
    """A user with a token submits a job of some size."""
    key = f"q{action.b % 12}"
    document: dict[str, object] = {
        "name": f"q{action.b % 12}",
        "command": "true",
        **RANKS[action.a % 6],
        "queue_settings": {"priority": ["medium", "medium", "high"][action.a % 3]},
        "drumbeat": {"grace_s": 5, "lost_after_s": 60, "max_retries": action.a % 3},
    }
    user = users.USERS[action.a // 6 % len(users.USERS)]
    world.ask("submit_as", key, document, user, at=action.b // 12)


def set_quota(world: World, action: Action) -> None:
    """An owner sets a quota, or removes it."""
    world.ask("quota", users.some_quota(action.a, action.b), at=action.b)


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


def put_deployment(world: World, action: Action) -> None:
    """A user creates a deployment, or changes it: another number of replicas, or another generation."""
    definition = OnlineDeployment(
        ("blue", "green")[action.b % 2],
        f"endpoint-{action.b // 2 % 2}",
        code="a" * 64,
        scoring_script="score.py",
        environment_variables={"VERSION": str(action.a % 3)},
        instance_count=1 + action.a % deployments.MAX_WANTED,
        readiness_probe=ProbeSettings(5, 5, failure_threshold=5),
    )
    world.ask("put_deployment", definition, at=action.b // 4)


def delete_deployment(world: World, action: Action) -> None:
    """A user deletes a deployment."""
    world.ask("delete_deployment", f"endpoint-{action.b // 2 % 2}", ("blue", "green")[action.b % 2], at=action.b // 4)


def delete_endpoint(world: World, action: Action) -> None:
    """A user deletes an endpoint."""
    name = pick(world.endpoints(), action.a)
    if name:
        world.ask("delete_endpoint", name, at=action.b)


def endpoints(world: World, action: Action) -> None:
    """A server looks after its router and deployments."""
    world.ask("endpoints", at=action.b)


def router_dies(world: World, action: Action) -> None:
    """SIGKILL of the router."""
    world.router.is_dead = world.router.is_dead or action.a % 2 == 0


def children(world: World, action: Action) -> None:
    """A server looks at the children of a parent."""
    name = pick(world.jobs(), action.a)
    if name:
        world.ask("children", name, at=action.b)


def cancel(world: World, action: Action) -> None:
    """A user changes their mind."""
    name = pick(world.jobs(), action.a)
    if name:
        world.ask("cancel", name, action.b % 3 == 0, at=action.b)

"""Conditions in a simulation: what nodes see of them, that a node acts alone, and what must follow."""

from __future__ import annotations

from collections.abc import Sequence

from drumbeat.core.lifecycle.events import JobEvent
from drumbeat.core.lifecycle.job import Job
from drumbeat.model.conditions import ConditionState
from drumbeat.model.states import Reason, State
from tests.support.simulation.action import Action, pick
from tests.support.simulation.nodes import Node
from tests.support.simulation.violation import require
from tests.support.simulation.world import World

KEYS = {"stop_when": ["metric.loss = nan"], "notify_when": ["metric.loss > 9"]}
"""Those of a job file."""
STOP, NOTIFY = 0, 1
"""Their places among the conditions of its plan."""


def value(world: World, action: Action) -> None:
    """A value that a rank logs meets a condition of its job, or doesn't any more, and the agent says so, or later."""
    node = pick(_nodes(world), action.a)
    if node:
        node.conditions, node.unread = _after(node, STOP if action.b % 8 == 0 else NOTIFY), ()
        if action.b % 3:
            world.ask("sync", node, node.status(), True, at=node.server)


def rank_fails(world: World, action: Action) -> None:
    """A rank fails over the value that it has just logged, and its agent says that first."""
    node = pick(_nodes(world), action.a)
    if node:
        node.unread = _after(node, STOP)
        node.end_rank(action.b, 1, world.clock.monotonic())


def _after(node: Node, number: int) -> tuple[ConditionState, ...]:
    """Returns what a node has seen once a condition is met, or one that notifies isn't any more."""
    states = {one.condition: one for one in node.unread or node.conditions}
    before = states.get(number, ConditionState(number, 0, is_met=False, sentence=f"condition {number}"))
    is_met = number == STOP or not before.is_met
    times = before.times + (is_met and not before.is_met)
    states[number] = ConditionState(number, times, is_met, before.sentence)
    return tuple(states[one] for one in sorted(states))


def act_alone(world: World, action: Action) -> None:
    """A node that has seen why its job ends has had no answer for long, and stops its ranks."""
    node = pick([one for one in _nodes(world) if is_met((*one.conditions, *one.unread))], action.a)
    if node:
        node.is_stopping = True


def _nodes(world: World) -> list[Node]:
    return [one for one in world.nodes() if one.running and one.gang.plan.conditions]


def is_met(states: Sequence[ConditionState]) -> bool:
    """Whether the condition is among them that ends the job, and was met."""
    return any(one.condition == STOP and one.times for one in states)


def check(job: Job, before: Job | None, nodes: Sequence[Node], story: Sequence[JobEvent]) -> None:
    """Checks that a job ends early only for what its nodes have seen, that it isn't started again then, and that
    nothing is told twice. nodes: those of its attempt.
    """
    if not job.plan.conditions:
        return
    if job.verdict and job.verdict.reason is Reason.STOPPED_EARLY:
        require(
            any(is_met((*one.conditions, *one.unread)) for one in nodes),
            f"{job.name} is stopped early, and no node has seen why",
        )
    if before and before.attempt == job.attempt and job.round > before.round and not before.lost:
        seen = [one.conditions for each in (before, job) for one in each.nodes if one]
        require(not any(map(is_met, seen)), f"{job.name} starts again, and a condition has ended it")
    if job.state is State.RUNNING and not job.lost:
        seen = [one.conditions for one in job.nodes if one and one.round == job.round]
        is_over = job.are_all_workers_well or any(one and one.is_preempted for one in job.nodes)
        require(is_over or not any(map(is_met, seen)), f"{job.name} runs on, and a condition has ended it")
    told = [one for one in story if one.attempt == job.attempt and one.sentence.startswith("notify_when")]
    times = sum(one.times for node in nodes for one in node.unread or node.conditions if one.condition == NOTIFY)
    require(len(told) <= times, f"{job.name} tells {len(told)} times what was seen {times} times")

"""Elastic jobs in a simulation: what must hold while their number of nodes changes."""

from __future__ import annotations

from drumbeat.core.lifecycle.job import Job
from drumbeat.model.states import Reason, State
from tests.support.simulation.backing import Sight
from tests.support.simulation.violation import require

SIZES: tuple[dict[str, int | str], ...] = (
    {"min_nodes": 1},
    {"min_nodes": 1, "max_nodes": 4},
    {"min_nodes": 1, "grow": "at_once"},
    {"min_nodes": 2, "max_nodes": 3, "grow": "at_once"},
)
"""The sizes that elastic jobs of 2 or 3 nodes allow."""


def check(sight: Sight, seen: dict[str, Job]) -> None:
    """No attempt has fewer or more nodes than the job allows, and a change of their number is no failure."""
    for name, record in sight.records.items():
        job, before = record.job, seen.get(name)
        if job.plan.elastic is None:
            continue
        sizes = job.plan.elastic
        fits = sizes.min_nodes <= job.plan.nodes <= sizes.max_nodes
        require(fits, f"{name} has {job.plan.nodes} nodes of {sizes.min_nodes} to {sizes.max_nodes}")
        require(len({one.node for one in job.plan.ranks}) == job.plan.nodes, f"{name} has ranks on other nodes")
        is_resized = job.reason is Reason.RESIZING and before is not None
        if before is not None and is_resized and before.state in (State.RUNNING, State.STOPPING):
            require(job.failures == before.failures, f"a change of the nodes of {name} counts as a failure")
        is_grown = before is not None and before.reason is Reason.RESIZING and before.state is State.STOPPING
        require(not (is_grown and job.state is State.STAGING), f"{name} grows within its attempt")


def check_held(known: Job, count: int, *, is_current: bool) -> None:
    """An attempt of an elastic job holds slots for a number of nodes that the job allows."""
    sizes = known.plan.elastic
    if sizes is None or is_current:
        require(count == known.plan.nodes, f"{known.name} holds slots for {count} nodes, and has {known.plan.nodes}")
        return
    require(sizes.min_nodes <= count <= sizes.max_nodes, f"{known.name} holds slots for {count} nodes")

"""Counts over the statuses of a gang are those of a walk over all of them, in whatever order agents report."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drumbeat.core.lifecycle.job import Job
from drumbeat.core.lifecycle.node_statuses import Mark, NodeStatuses
from drumbeat.model import wire
from drumbeat.model.agent import AgentStatus, Phase, RankExit

from .jobs import a_job, status

pytestmark = pytest.mark.feature("C13")

NODES, RANKS = 3, 2
EXITS = st.builds(
    RankExit,
    rank=st.integers(0, RANKS - 1),
    code=st.sampled_from([0, 1, None]),
    signal=st.sampled_from([None, 15]),
    at=st.floats(0, 5),
    order=st.integers(0, 5),
    is_stopped=st.booleans(),
)


@st.composite
def reports(draw: Any) -> tuple[int, AgentStatus]:
    node = draw(st.integers(0, NODES - 1))
    exits = draw(st.lists(EXITS, max_size=RANKS, unique_by=lambda one: one.rank))
    own = tuple(replace(one, rank=node * RANKS + one.rank) for one in exits)
    more = {name: draw(st.booleans()) for name in ("builds_environment", "is_preempted", "lost")}
    detail = draw(st.sampled_from(["", "input train waits: the store is away"]))
    phase = draw(st.sampled_from(Phase))
    return node, status(node, phase, draw(st.integers(1, 2)), exits=own, detail=detail, **more)


def walked(job: Job) -> dict[str, object]:
    """What is asked of a job, by a walk over all its nodes."""
    statuses = [one for one in job.nodes if one]
    exits = [
        (node, one) for node, said in enumerate(job.nodes) if said and said.round == job.round for one in said.exits
    ]
    failed = sorted((pair for pair in exits if pair[1].is_failure), key=lambda pair: (pair[1].at, pair[1].order))
    left = [said for node, said in enumerate(job.nodes) if node not in job.lost]
    ended = {one.rank for _, one in exits}
    return {
        "missing": len(job.nodes) - len(statuses),
        "builders": sum(one.builds_environment for one in statuses),
        "preempted": sum(one.is_preempted for one in statuses),
        "lost": sum(one.lost for one in statuses),
        "waits": any(one.detail for one in statuses),
        "failures": bool(failed),
        "first failure at": failed and (failed[0][1].at, failed[0][1].order),
        "ready": all(one is not None and one.round == job.round and one.phase is Phase.READY for one in left),
        "uploaded": all(one is not None and one.phase is Phase.UPLOADED for one in left),
        "ranks left": any(one.rank not in ended and one.node not in job.lost for one in job.plan.ranks),
        "well": {one.rank for _, one in exits if not one.is_failure and not one.is_stopped} >= set(job.plan.workers),
    }


def counted(job: Job) -> dict[str, object]:
    first = job.statuses.first_failure(job.round)
    return {
        "missing": job.statuses.count(Mark.MISSING),
        "builders": job.statuses.count(Mark.BUILDS),
        "preempted": job.statuses.count(Mark.PREEMPTED),
        "lost": job.statuses.count(Mark.LOST),
        "waits": bool(job.waits_for),
        "failures": job.has_failures,
        "first failure at": [] if first is None else (first[1].at, first[1].order),
        "ready": job.are_all(Phase.READY),
        "uploaded": job.have_all_uploaded,
        "ranks left": job.has_ranks_left,
        "well": job.are_all_workers_well,
    }


@given(st.lists(reports(), max_size=8), st.sets(st.integers(0, NODES - 1), max_size=2))
def test_counts_are_those_of_a_walk_over_all_nodes(said: list[tuple[int, AgentStatus]], lost: set[int]):
    job = replace(a_job(nodes=NODES, per_node=RANKS), round=1, nodes=(None,) * NODES, lost=tuple(sorted(lost)))
    for node, one in said:
        job = job.with_node(node, one)
        assert counted(job) == walked(job)


def test_statuses_read_from_a_database_are_counted_too():
    job = replace(a_job(nodes=2), round=1, nodes=(status(0, Phase.READY), None))
    read = wire.loads(Job, wire.dumps(job))
    assert isinstance(read.nodes, NodeStatuses)
    assert read == job
    assert counted(read) == walked(read)

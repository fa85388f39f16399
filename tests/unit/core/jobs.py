"""Jobs, nodes and exits for the tests of the core."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from drumbeat import launchers
from drumbeat.core.lifecycle.events import Decision, Event, Placed, StatusReported
from drumbeat.core.lifecycle.job import Job
from drumbeat.core.lifecycle.state_machine import decide
from drumbeat.core.scheduling.resource_needs import JobPolicy, Need, Slot
from drumbeat.model.agent import AgentStatus, Phase, RankExit
from drumbeat.model.plan import Plan
from drumbeat.model.roster import Member

START = datetime(2026, 1, 1, tzinfo=UTC)
RAISED = """epoch 3
Traceback (most recent call last):
  File "train.py", line 41, in <module>
    main()
  File "train.py", line 30, in main
    raise ValueError("loss is nan")
ValueError: loss is nan
"""
PEER_GONE = """Traceback (most recent call last):
  File "train.py", line 22, in main
    dist.all_reduce(t)
RuntimeError: [gloo/transport/tcp/pair.cc:547] Connection closed by peer [127.0.0.1]:38124
"""
ABORTED = "Abort(3) on node 1 (rank 1 in comm 0): application called MPI_Abort(MPI_COMM_WORLD, 3) - process 1\n"
"""What ranks write to their logs."""


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def a_plan(nodes: int = 2, per_node: int = 2) -> Plan:
    return Plan(
        "job-1", "exp", "pytorch", nodes, per_node, "python train.py", launchers.ranks("pytorch", nodes, per_node)
    )


def a_job(nodes: int = 2, per_node: int = 2, **policy: object) -> Job:
    plan = a_plan(nodes, per_node)
    return Job("job-1", plan, Need(nodes, per_node), replace(JobPolicy(), **policy), START)


def member(node: int) -> Member:
    return Member(node, f"host{node}", f"10.0.0.{node + 1}", f"/n/{node}", "/c")


def status(node: int, phase: Phase, round: int = 1, **more: object) -> AgentStatus:
    return replace(AgentStatus(phase, round, member(node), port=29500 + node), **more)


def said(node: int, phase: Phase, round: int = 1, attempt: int = 1, **more: object) -> StatusReported:
    return StatusReported(attempt, node, status(node, phase, round, **more))


def ended(rank: int, code: int | None = 0, at: float = 1.0, **more: object) -> RankExit:
    return replace(RankExit(rank, code, None, at, order=rank), **more)


def killed(rank: int, number: int, at: float = 1.0) -> RankExit:
    return RankExit(rank, None, number, at, order=rank)


def slots(nodes: int = 2) -> tuple[Slot, ...]:
    return tuple(Slot(node, "m", 1) for node in range(nodes))


def after(job: Job, *events: Event, now: datetime = START) -> Job:
    return told(job, *events, now=now).job


def told(job: Job, *events: Event, now: datetime = START) -> Decision:
    """The last job, with everything that happened on the way."""
    all_effects, story = (), ()
    for event in events:
        decision = decide(job, event, now)
        job, all_effects, story = decision.job, all_effects + decision.effects, story + decision.events
    return Decision(job, all_effects, story)


def running(nodes: int = 2, per_node: int = 2, **policy: object) -> Job:
    ready = [said(node, Phase.READY) for node in range(nodes)]
    return after(a_job(nodes, per_node, **policy), Placed(slots(nodes)), *ready)


def done(node: int, *codes: int) -> StatusReported:
    """A node whose ranks have ended with these codes."""
    exits = tuple(ended(node * len(codes) + n, code) for n, code in enumerate(codes))
    return said(node, Phase.ENDED, exits=exits)

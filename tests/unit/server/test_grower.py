"""An elastic job in a control room: it starts small, machines start for it, and it grows after a checkpoint."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from drumbeat.core.lifecycle.events import CheckpointSaved
from drumbeat.model.agent import AgentStatus, Phase, RankExit
from drumbeat.model.api.computes import NodeState
from drumbeat.model.api.requests import JobRequest
from drumbeat.model.roster import Member
from drumbeat.model.states import Reason, State
from drumbeat.server.loop.growth_offers import LOOK_INTERVAL_S

from .test_scaler import LAB, Town, make_town

pytestmark = pytest.mark.feature("F8")


@pytest.fixture
def town(tmp_path: Path) -> Iterator[Town]:
    """A lab of three machines, two of which are on, and a job that asks for three nodes and runs on two."""
    town = make_town(tmp_path)
    town.control.computes.create(LAB)
    town.lab.states |= dict.fromkeys("ab", NodeState.IDLE)
    resources = {"instance_count": 3}
    document = {"command": "x", "name": "e", "compute": "lab", "resources": resources, "drumbeat": {"min_nodes": 1}}
    town.control.jobs.submit(JobRequest(document))
    town.look()
    town.carry_out()
    say(town, Phase.READY, 0, 1)
    assert (town.job("e").state, town.job("e").plan.nodes) == (State.RUNNING, 2)
    yield town
    town.control.store.close()


def say(town: Town, phase: Phase, *nodes: int, attempt: int = 1) -> None:
    gang = town.lab.gangs[f"e.{attempt}"]
    for node in nodes:
        exits = (RankExit(node, 143, None, 1.0, 0, is_stopped=True),) if phase is Phase.ENDED else ()
        status = AgentStatus(phase, 1, Member(node, "h", "127.0.0.1", f"/r{node}", "/c"), 2000, exits=exits)
        town.control.agents.report("e", attempt, node, gang.node_secret(node), status)


def tick(town: Town) -> None:
    town.clock.advance(LOOK_INTERVAL_S)
    town.control.loop.tick()


def test_growing_job_takes_its_started_machine_after_a_checkpoint(town: Town):
    town.look()
    assert town.lab.states["c"] is NodeState.PREPARING
    town.lab.states["c"] = NodeState.IDLE
    town.look()
    tick(town)
    assert town.job("e").growth == 3
    story = town.control.store.events("e")
    assert story[-1].sentence == "1 more node is free: the job grows from 2 to 3 nodes after its next checkpoint"

    town.control.loop.apply("e", CheckpointSaved(1, 1, 40))
    assert (town.job("e").state, town.job("e").reason) == (State.STOPPING, Reason.RESIZING)
    say(town, Phase.ENDED, 0, 1)
    town.carry_out()
    town.look()
    grown = town.job("e")
    assert (grown.attempt, grown.plan.nodes, grown.failures) == (2, 3, ())
    assert {slot.machine for slot in grown.slots} == set("abc")


def test_a_job_does_not_grow_while_another_one_waits(town: Town):
    town.submit("big", nodes=2)
    town.lab.states["c"] = NodeState.IDLE
    town.look()
    tick(town)
    assert (town.job("big").state, town.job("e").growth) == (State.QUEUED, 0)
    town.control.jobs.cancel("big", by="ann")
    tick(town)
    assert town.job("e").growth == 3


def test_machines_that_are_taken_again_are_not_waited_for(town: Town):
    town.lab.states["c"] = NodeState.IDLE
    town.look()
    tick(town)
    town.lab.states["c"] = NodeState.OFF
    town.look()
    tick(town)
    assert town.job("e").growth == 0
    town.control.loop.apply("e", CheckpointSaved(1, 1, 40))
    assert town.job("e").state is State.RUNNING

"""Enrolment files: what a node of a large job is given doesn't grow with the job."""

from __future__ import annotations

from dataclasses import replace

import pytest

from drumbeat import launchers
from drumbeat.core.scheduling.resource_needs import Slot
from drumbeat.engines.enrolment import enrolment
from drumbeat.model import wire
from drumbeat.model.agent import Enrolment
from drumbeat.model.plan import Plan, Rank
from drumbeat.ports.engines import Gang

pytestmark = pytest.mark.feature("C13")


def a_gang(nodes: int, launcher: str = "pytorch") -> Gang:
    table = launchers.ranks("pytorch", nodes, 8)
    plan = Plan("j", "exp", launcher, nodes, 8, "python t.py", table)
    return Gang("j", 1, plan, tuple(Slot(node, f"m{node}", 8) for node in range(nodes)), "secret", ("unix:/s",))


def written(gang: Gang, *, has_ranks: bool = False) -> str:
    return enrolment(gang, 3, root="/r", checkpoints="/c", has_ranks=has_ranks)


def read(text: str) -> Enrolment:
    return wire.loads(Enrolment, text)


@pytest.mark.parametrize("launcher", ["pytorch", "mpi"])
def test_enrolment_of_a_large_job_has_no_ranks_and_its_agent_assigns_them(launcher: str):
    gang = a_gang(1024, launcher)
    text = written(gang)
    assert len(text) < 4000
    assert read(text).plan.world_size == gang.plan.world_size
    assert launchers.with_ranks(read(text).plan) == gang.plan


@pytest.mark.parametrize("gang", [a_gang(64), a_gang(65, "tensorflow"), a_gang(65, "of a later version")])
def test_enrolment_of_a_small_job_or_of_another_launcher_has_its_ranks(gang: Gang):
    assert read(written(gang)).plan == gang.plan == launchers.with_ranks(gang.plan)


def test_ranks_that_are_assigned_in_another_way_are_kept():
    gang = a_gang(65)
    odd = replace(gang, plan=replace(gang.plan, ranks=(*gang.plan.ranks[:-1], Rank(519, 64, 9))))
    assert read(written(odd)).plan == odd.plan


def test_agent_of_an_earlier_version_gets_all_ranks():
    gang = a_gang(65)
    assert read(written(gang, has_ranks=True)).plan == gang.plan

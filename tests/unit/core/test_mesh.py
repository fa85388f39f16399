"""A mesh: refused unless it has the job's ranks, planned, and given to each rank with its own coordinates."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest

from drumbeat.core.planning import plan as planning
from drumbeat.core.planning.plan import PlanFacts, Sources
from drumbeat.jobfile.job.job import CommandJob
from drumbeat.launchers import environment_variables
from drumbeat.model import mesh
from drumbeat.model.errors import SpecError
from drumbeat.model.plan import Plan
from drumbeat.model.roster import Member, Roster
from tests.support.messages import Messages


def a_job(sizes: dict[str, Any], **keys: Any) -> CommandJob:
    table = {
        "command": "python train.py",
        "distribution": {"type": "pytorch", "process_count_per_instance": 2},
        "resources": {"instance_count": 2},
        **keys,
    }
    return CommandJob.made({**table, "drumbeat": {"mesh": sizes, **keys.get("drumbeat", {})}})


def planned(job: CommandJob) -> Plan:
    return planning.make(job, "j", "e", Sources(), PlanFacts(computes={"local": (8, 0)})).plan


def test_coordinates_are_those_of_torchs_device_mesh():
    sizes = {"pp": 2, "dp": 3, "tp": 2}
    in_order = itertools.product(*(range(size) for size in sizes.values()))
    assert [tuple(mesh.coordinates(sizes, rank).values()) for rank in range(12)] == [*in_order]


def test_rank_has_variables_with_the_mesh_and_its_coordinates():
    plan = planned(a_job({"pp": 2, "dp": 2}))
    roster = Roster(1, 1, tuple(Member(n, "h", f"10.0.0.{n}", "/n", "/c") for n in range(2)), 29500)
    of_rank = environment_variables.job_variables(plan, roster, plan.ranks[3])
    assert json.loads(of_rank["DRUMBEAT_MESH"]) == {"pp": 2, "dp": 2}
    assert (of_rank["DRUMBEAT_MESH_PP"], of_rank["DRUMBEAT_MESH_DP"]) == ("1", "1")
    assert environment_variables.job_variables(plan, roster, plan.ranks[1])["DRUMBEAT_MESH_PP"] == "0"


def test_a_job_without_a_mesh_has_none_of_its_variables():
    assert mesh.variables({}, 3) == {}
    assert mesh.format_mesh({}) == ""


def test_a_mesh_is_described_in_the_words_of_its_dimensions(messages: Messages):
    messages.check(mesh.format_mesh({"pp": 2, "dp": 1, "ring": 4}))
    assert mesh.format_place({"pp": 2, "tp": 2, "ring": 2}, 6) == "stage 1, tensor shard 1, ring 0"


@pytest.mark.parametrize(
    ("sizes", "keys", "sentence"),
    [
        ({"pp": 2, "dp": 3}, {}, "pp 2 × dp 3 is a mesh of 6 ranks, and the job starts 4"),
        ({"pp": 1}, {}, "pp 1 is a mesh of 1 rank, and the job starts 4"),
        ({"PP": 4}, {}, "`PP` isn't allowed here: a dimension is lower-case letters"),
        ({"pp": 0}, {}, "at least 1"),
        (
            {"dp": 2},
            {"distribution": {"type": "tensorflow"}},
            "ranks of type pytorch or mpi, and the job's are tensorflow",
        ),
        ({"dp": 4}, {"drumbeat": {"min_nodes": 1}}, "a fixed number of ranks, and the job may run on 1 to 2 nodes"),
    ],
    ids=["more", "fewer", "letters", "zero", "tensorflow", "elastic"],
)
def test_a_mesh_that_does_not_fit_the_job_is_refused(sizes: dict[str, Any], keys: dict[str, Any], sentence: str):
    with pytest.raises(SpecError) as caught:
        a_job(sizes, **keys)
    assert sentence in str(caught.value)
    assert "drumbeat.mesh" in str(caught.value)


def test_the_variables_of_a_mesh_cannot_be_set_by_the_job():
    with pytest.raises(SpecError, match="DRUMBEAT_MESH_DP is set by drumbeat for each rank"):
        planned(a_job({"pp": 2, "dp": 2}, environment_variables={"DRUMBEAT_MESH_DP": "0"}))

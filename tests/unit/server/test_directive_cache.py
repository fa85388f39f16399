"""Directives of gangs: what is sent of the roster to which agents, and how much it is."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from drumbeat.model.agent import AgentStatus, NodeRequest, Phase
from drumbeat.model.packed_roster import unpacked
from drumbeat.model.roster import Member, Roster
from drumbeat.model.states import State
from drumbeat.server.nodes.directive_cache import MAX_WHOLE_ROSTER, DirectiveCache
from tests.unit.core.jobs import a_job

pytestmark = pytest.mark.feature("C13")


def running(nodes: int) -> Any:
    members = tuple(
        Member(
            node, f"gpu-{node:04}", f"10.0.{node >> 8}.{node & 255}", f"/scratch/ada/drumbeat/nodes/train.1/{node}",
            "/scratch/ada/drumbeat/checkpoints/train", tuple("01234567"), 96, "ab" * 32, "eth0", "10.0.0.0/8",
        )
        for node in range(nodes)
    )  # fmt: skip
    roster = Roster(1, 1, members, 2000, (2000,) * nodes, ((),) * nodes)
    statuses = tuple(AgentStatus(Phase.READY, 1, one) for one in members)
    return replace(a_job(nodes=nodes), state=State.RUNNING, attempt=1, round=1, nodes=statuses, roster=roster)


def answer(cache: DirectiveCache, job: Any, *, is_brief: bool) -> dict[str, Any]:
    return json.loads(cache.json(job.name, cache.directive(job, ()), is_brief=is_brief))["directive"]


def test_brief_directive_has_the_same_size_whatever_the_number_of_nodes():
    sizes = []
    for nodes in (16, 1024):
        job, cache = running(nodes), DirectiveCache()
        sizes.append(len(cache.json(job.name, cache.directive(job, ()), is_brief=True)))
    assert sizes[1] < sizes[0] + 50
    assert sizes[1] < 2000


def test_agent_of_an_earlier_version_gets_the_whole_roster():
    job = running(16)
    given = answer(DirectiveCache(), job, is_brief=False)["roster"]
    assert [one["node"] for one in given["members"]] == list(range(16))
    assert not given["digest"]


def test_brief_roster_refers_to_the_full_one_by_its_hash():
    job, cache = running(16), DirectiveCache()
    digest = answer(cache, job, is_brief=True)["roster"]["digest"]
    file = cache.made(job, ()).packed_roster
    assert file
    assert unpacked(digest, file.data) == job.roster


def test_roster_is_packed_once_though_late_answers_have_an_earlier_value_of_the_job():
    job, cache = running(16), DirectiveCache()
    staging = replace(job, state=State.STAGING, roster=None)
    file = cache.made(job, ()).packed_roster
    for _ in range(3):
        assert answer(cache, staging, is_brief=True)["order"] == "prepare"
        assert answer(cache, replace(job), is_brief=True)["order"] == "run"
        assert cache.made(job, ()).packed_roster is file


def test_small_gang_gets_its_roster_with_the_directive():
    job = running(MAX_WHOLE_ROSTER)
    assert len(answer(DirectiveCache(), job, is_brief=True)["roster"]["members"]) == MAX_WHOLE_ROSTER


def test_directive_with_a_request_has_a_brief_roster_too():
    job, cache = running(16), DirectiveCache()
    asked = replace(cache.directive(job, ()), requests=(NodeRequest("1", "stacks"),))
    given = json.loads(cache.json(job.name, asked, is_brief=True))["directive"]
    assert len(given["roster"]["members"]) == 2
    assert given["requests"][0]["id"] == "1"


def test_change_that_is_none_for_the_nodes_keeps_what_was_written():
    job, cache = running(16), DirectiveCache()
    before = cache.directive(job, ())
    assert cache.directive(job.with_node(3, replace(job.nodes[3], detail="x")), ()) is before
    assert cache.directive(replace(job, round=2), ()) is not before


def test_job_without_nodes_is_not_kept():
    job, cache = running(16), DirectiveCache()
    cache.directive(job, ())
    cache.directive(replace(job, state=State.FAILED), ())
    assert job.name not in cache._made

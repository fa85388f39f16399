"""What the measurements of a gang say: the worst node first, or one that can't take part."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from drumbeat.core.diagnosis.preflight import CheckedNode, format_rate, format_time, judge
from drumbeat.core.lifecycle.events import Placed
from drumbeat.core.lifecycle.job import Job
from drumbeat.core.lifecycle.state_machine import decide
from drumbeat.core.scheduling.resource_needs import Slot
from drumbeat.model.agent import Phase
from drumbeat.model.preflight import LinkCheck, NodeCheck
from drumbeat.model.states import Reason, State
from tests.support.messages import Messages

from .jobs import a_job, at, said

pytestmark = pytest.mark.feature("B3")
FAST, SLOW = 940_000_000, 20_000_000


def checks(nodes: int, links: Mapping[tuple[int, int], LinkCheck] | None = None) -> list[NodeCheck]:
    """Nodes of which each has called those below it; all is well but for the links given by (low, high)."""
    given = links or {}
    usual = LinkCheck(0, FAST, FAST, 200)
    return [
        NodeCheck(tuple(replace(given.get((peer, node), usual), peer=peer) for peer in range(node)), 1 << 40, 12)
        for node in range(nodes)
    ]


def gang(own: list[NodeCheck], gpus: int = 0) -> list[CheckedNode]:
    return [CheckedNode(node, f"node {node} (m{node})", check, gpus) for node, check in enumerate(own)]


def links_of(node: int, nodes: int, link: LinkCheck) -> dict[tuple[int, int], LinkCheck]:
    return {(min(node, other), max(node, other)): link for other in range(nodes) if other != node}


def test_healthy_gang_is_reported_with_its_slowest_link(messages: Messages):
    verdict = judge(gang(checks(3, {(0, 2): LinkCheck(0, FAST, 800_000_000, 300)})))
    assert verdict.problems == ()
    messages.check(verdict.sentence)


@pytest.mark.parametrize("nodes", [3, 4, 8])
def test_node_with_slow_links_is_the_worst(nodes: int, messages: Messages):
    verdict = judge(gang(checks(nodes, links_of(1, nodes, LinkCheck(0, FAST, SLOW, 200)))))
    assert verdict.worst == 1
    messages.check(verdict.sentence)


def test_slow_link_between_good_nodes_is_named_by_both(messages: Messages):
    verdict = judge(gang(checks(4, {(1, 2): LinkCheck(0, SLOW, FAST, 200)})))
    assert [one.nodes for one in verdict.problems] == [(1, 2)]
    messages.check(verdict.sentence)


def test_two_nodes_have_no_other_link_to_be_slower_than():
    assert judge(gang(checks(2, {(0, 1): LinkCheck(0, SLOW, SLOW, 200)}))).problems == ()


@pytest.mark.parametrize(("ms", "words"), [(7200, "7.2 s ahead of"), (-61_000, "61.0 s behind")])
def test_clock_that_is_off_is_reported(ms: int, words: str, messages: Messages):
    ahead = {(0, 1): LinkCheck(0, FAST, FAST, 200, -ms), (1, 2): LinkCheck(0, FAST, FAST, 200, ms)}
    own = checks(3, ahead)  # The higher node says how far the lower one is ahead.
    verdict = judge(gang(own))
    assert [one.nodes for one in verdict.problems] == [(1,)]
    messages.check(verdict.sentence)


def test_two_clocks_that_differ_are_reported_once():
    verdict = judge(gang(checks(2, {(0, 1): LinkCheck(0, FAST, FAST, 200, 9000)})))
    assert [one.nodes for one in verdict.problems] == [(1,)]


def test_devices_and_disks_are_reported_with_missing_devices_first(messages: Messages):
    own = [replace(one, gpus=8) for one in checks(3)]
    own[0] = replace(own[0], free_bytes=300 << 20)
    own[1] = replace(own[1], write_ms=8200)
    own[2] = replace(own[2], gpus=7)
    sentence = judge(gang(own, gpus=8)).sentence
    messages.check(sentence)


def test_distant_node_is_reported(messages: Messages):
    verdict = judge(gang(checks(4, links_of(3, 4, LinkCheck(0, FAST, FAST, 40_000)))))
    messages.check(verdict.sentence)


def test_pair_without_a_route_is_the_worst_and_stops_nothing(messages: Messages):
    verdict = judge(gang(checks(3, {(0, 2): LinkCheck(0, error="no answer")})))
    assert (verdict.isolated, verdict.is_partitioned) == (None, False)
    messages.check(verdict.sentence)


def test_node_that_reaches_no_other_one_is_isolated(messages: Messages):
    verdict = judge(gang(checks(4, links_of(2, 4, LinkCheck(0, error="no route to host")))))
    assert verdict.isolated == 2
    messages.check(verdict.sentence)


def test_links_that_were_not_tried_for_lack_of_time_say_nothing(messages: Messages):
    verdict = judge(gang(checks(2, {(0, 1): LinkCheck(0)})))
    assert (verdict.is_partitioned, verdict.problems) == (False, ())
    messages.check(verdict.sentence)


@pytest.mark.parametrize(
    ("rate", "said_rate"), [(940e6, "940 Mbit/s"), (1.25e9, "1.2 Gbit/s"), (25e9, "25 Gbit/s"), (300, "300 bit/s")]
)
def test_rates_have_at_least_two_digits(rate: float, said_rate: str):
    assert format_rate(rate) == said_rate


def test_times_are_in_ms():
    assert [format_time(one) for one in (120, 3400, 52_000)] == ["0.12 ms", "3.4 ms", "52 ms"]


# --- in the life of a job -----------------------------------------------------------------------------------------


def decided(job: Job, own: list[NodeCheck], at_s: float = 2):
    slots = tuple(Slot(node, f"m{job.attempt}{node}", 1) for node in range(len(own)))
    now = decide(job, Placed(slots), at(at_s)).job
    for node, check in enumerate(own):
        decision = decide(now, said(node, Phase.READY, attempt=now.attempt, preflight=check), at(at_s))
        now = decision.job
    return decision


def test_story_has_the_verdict_once_before_the_ranks_start():
    decision = decided(a_job(2, 1), checks(2))
    sentences = [line.sentence for line in decision.events]
    assert [one.startswith("pre-flight of 2 nodes: all is well") for one in sentences] == [False, True, False]
    assert decision.job.state is State.RUNNING
    assert "pre-flight" in decision.job.reported_subjects


def test_isolated_node_is_replaced_and_its_machine_left_out(messages: Messages):
    decision = decided(a_job(3, 1), checks(3, links_of(1, 3, LinkCheck(0, error="no answer"))))
    assert (decision.job.state, decision.job.lacking) == (State.QUEUED, ("m01",))
    assert decision.job.failures[0].verdict.reason is Reason.NODE_UNUSABLE
    messages.check(decision.job.sentence)


def test_unconnected_nodes_are_replaced_once_before_the_job_fails(messages: Messages):
    apart = checks(2, {(0, 1): LinkCheck(0, error="no answer")})
    again = decided(a_job(2, 1), apart).job
    assert (again.state, again.lacking) == (State.QUEUED, ("m01",))
    ended = decided(again, apart).job
    assert (ended.state, ended.reason) == (State.FAILED, Reason.STAGING_FAILED)
    messages.check(ended.sentence)


def test_nodes_of_which_none_reaches_another_fail_the_job(messages: Messages):
    links = {(low, high): LinkCheck(0, error="no answer") for high in range(3) for low in range(high)}
    ended = decided(a_job(3, 1), checks(3, links)).job
    assert (ended.state, ended.reason) == (State.FAILED, Reason.STAGING_FAILED)
    messages.check(ended.sentence)


def test_machine_whose_disk_takes_nothing_is_given_up():
    job = decide(a_job(2, 1), Placed((Slot(0, "a", 1), Slot(1, "b", 1))), at(1)).job
    event = said(1, Phase.STAGING, error="the disk accepts no file: No space left on device", is_unusable=True)
    decision = decide(job, event, at(2))
    assert (decision.job.state, decision.job.lacking) == (State.QUEUED, ("b",))
    assert decision.job.machine_faults[0].reason is Reason.NODE_UNUSABLE


def test_nodes_that_measure_nothing_start_without_a_word_of_it():
    job = decide(a_job(2, 1), Placed((Slot(0, "a", 1), Slot(1, "b", 1))), at(1)).job
    for node in range(2):
        decision = decide(job, said(node, Phase.READY), at(2))
        job = decision.job
    assert job.state is State.RUNNING
    assert not any("pre-flight" in line.sentence for line in decision.events)

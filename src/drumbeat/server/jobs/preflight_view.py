"""Converts the pre-flight of a job to its view in the API."""

from __future__ import annotations

from drumbeat.core.diagnosis.preflight import clocks_ms, judge, tried_pairs
from drumbeat.core.lifecycle.job import Job
from drumbeat.core.lifecycle.unusable_machines import checked_nodes
from drumbeat.model import python_fingerprint
from drumbeat.model.agent import AgentStatus
from drumbeat.model.api.preflight import LinkView, NodePreflightView, PreflightView
from drumbeat.model.preflight import NodeCheck

_HASH_LETTERS = 12


def preflight_view(job: Job) -> PreflightView | None:
    """Returns the pre-flight of the current attempt, None = its nodes ran none."""
    checked = checked_nodes(job)
    if not checked:
        return None
    verdict = judge(checked)
    pairs = tried_pairs({one.node: one.check for one in checked})
    machines, clocks = {slot.node: slot.machine for slot in job.slots}, clocks_ms(pairs)
    nodes = tuple(
        _node(status, status.preflight, machines.get(node, ""), clocks.get(node, 0))
        for node, status in enumerate(job.nodes)
        if status and status.preflight
    )
    links = tuple(
        LinkView(
            pair.node,
            pair.link.peer,
            pair.link.out_bits_per_s,
            pair.link.in_bits_per_s,
            pair.link.round_trip_us,
            pair.link.error,
        )
        for pair in pairs
    )
    return PreflightView(verdict.sentence, tuple(one.sentence for one in verdict.problems), nodes, links)


def _node(status: AgentStatus, check: NodeCheck, machine: str, clock_ms: int) -> NodePreflightView:
    member, environment = status.member, python_fingerprint.read(status.member.environment)
    return NodePreflightView(
        member.node,
        machine,
        member.host,
        member.interface,
        clock_ms,
        check.free_bytes,
        check.write_ms,
        check.gpus,
        environment.digest[:_HASH_LETTERS] if environment else "",
        check.elapsed_ms,
    )

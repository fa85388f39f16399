"""Machines that a job gives up: they lack a share, can't write to their disk, or reach no other node."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from drumbeat.core.diagnosis.preflight import CheckedNode
from drumbeat.core.lifecycle import ending, verdict_rules
from drumbeat.core.lifecycle.events import Decision
from drumbeat.core.lifecycle.job import Job
from drumbeat.model.states import Reason

MAX_UNKNOWN_LACKING = 3
"""Gangs that may lack a share on a cluster that chooses machines itself: it can't be asked to avoid some."""


def give_up(job: Job, node: int, why: str, reason: Reason, now: datetime) -> Decision:
    """Gives the node up, as if it were lost: its machine isn't used for the job again, unless all are like it."""
    machine = next((slot.machine for slot in job.slots if slot.node == node), "")
    sentence = f"{machine or f'node {node}'} can't be used for this job: {why}"
    lacked = sum(one.verdict.reason is reason for one in job.failures)
    if machine in job.lacking or (not machine and lacked >= MAX_UNKNOWN_LACKING):
        others = f"no machine of {job.plan.compute} has it"
        if reason is Reason.NODE_UNUSABLE:
            others = f"so were the other machines of {job.plan.compute} that the job was given"
        sentence = f"{sentence.removesuffix('.')}; {others}"
        return ending.stop(job, verdict_rules.for_reason(Reason.STAGING_FAILED, sentence, node=node), now)
    lacking = (*job.lacking, machine) if machine else job.lacking
    return ending.stop(
        replace(job.without_node(node), lacking=lacking), verdict_rules.for_reason(reason, sentence, node=node), now
    )


def checked_nodes(job: Job) -> list[CheckedNode]:
    """Returns the nodes of the attempt with what they measured; none where not all did."""
    machines = {slot.node: slot.machine for slot in job.slots}
    checked = [
        CheckedNode(node, _place(node, machines.get(node, "") or status.member.host), status.preflight, asked)
        for node, status in enumerate(job.nodes)
        if status and status.preflight
        for asked in [job.plan.gpus_per_node]
    ]
    return checked if len(checked) == len(job.nodes) > 1 else []


def _place(node: int, machine: str) -> str:
    return f"node {node} ({machine})" if machine else f"node {node}"

"""What a job must say of why it is where it is, and whether that is so.

Written again from what a user needs to know, not taken from the room that makes the sentences.
"""

from __future__ import annotations

import re
from functools import lru_cache

from drumbeat.core.lifecycle.job import Job
from drumbeat.core.reason_table import REASONS
from drumbeat.core.scheduling.resource_needs import Need
from drumbeat.model.states import Reason, State

_REASONS = {
    State.QUEUED: {
        Reason.ACCEPTED,
        Reason.WAITING_FOR_SLOTS,
        Reason.WAITING_FOR_TURN,
        Reason.WAITING_FOR_QUOTA,
        Reason.BACKING_OFF,
        Reason.REPLACING_NODES,
        Reason.RESIZING,
    },
    State.PROVISIONING: {Reason.STARTING_NODES, Reason.IN_QUEUE},
    State.STAGING: {
        Reason.PREPARING_NODES,
        Reason.BUILDING_ENVIRONMENT,
        Reason.BACKING_OFF,
        Reason.RESTARTING_RANKS,
    },
    State.RUNNING: {
        Reason.RANKS_RUNNING,
        Reason.TRAINING,
        Reason.HANGING,
        Reason.TRIALS_RUNNING,
        Reason.STEPS_RUNNING,
        Reason.REPLICAS_RUNNING,
    },
    State.STOPPING: {Reason.RESIZING, *(reason for reason, row in REASONS.items() if row.ends)},
    State.FINALIZING: {Reason.KEEPING_RESULTS},
}
"""Why a job can be in a state that isn't its end. Of an end, the table of reasons says it."""

_SAID = {
    Reason.ACCEPTED: "accepted for compute {compute}(; .+)?",
    Reason.WAITING_FOR_SLOTS: r"needs {amount} of {compute}, where (?P<free>\d+) of \d+ CPU slots? (is|are) free"
    "(; (all|the others) are held by .+)?; it is next.*",
    Reason.WAITING_FOR_TURN: r"number [1-9]\d* in the queue of {compute}: .+ is next, and the slots are held by .+",
    Reason.WAITING_FOR_QUOTA: r"(experiment )?.+ uses \d+ of \d+ CPU slots? of the quota, and the job needs \d+(; .+)?"
    r"|(experiment )?.+ may use \d+ CPU slots? at a time, and the job needs \d+: it waits until .+ raises the quota",
    Reason.BACKING_OFF: ".+; the (ranks start again|job gets a new set of nodes|job continues with \\d+ to \\d+ nodes?)"
    ".*retr.+; waits [1-9]\\d* s before (round|attempt) \\d+",
    Reason.REPLACING_NODES: ".+; the job (gets a new set of nodes|continues with \\d+ to \\d+ nodes?); .*retr.+"
    "|the wait is over; the job asks for nodes again",
    Reason.RESIZING: r"the job grows from \d+ to \d+ nodes( after the checkpoint of step \d+)?(; SIGTERM to .+)?",
    Reason.STARTING_NODES: "{nodes} granted on {compute}(: the job grows from .+|; the job asks for .+)?"
    "(; takes over the nodes of .+)?"
    r"|continues with \d+ of \d+ nodes?.*; {nodes} granted on {compute}"
    "|{compute} has given the nodes: .+|no agent of .+ called .+",
    Reason.IN_QUEUE: "{compute} could not be asked for nodes yet: .+",
    Reason.PREPARING_NODES: "{agents} enrolled",
    Reason.RESTARTING_RANKS: ".+; the ranks start again.*retr.+|the wait is over; the ranks start again",
    Reason.RANKS_RUNNING: "{ranks} started on {nodes}|.+; the rank that failed first has 5 s to say why"
    "|the ranks go on",
}
"""The sentence of each reason that says for what a job waits."""

PLACED = (Reason.WAITING_FOR_SLOTS, Reason.WAITING_FOR_TURN, Reason.WAITING_FOR_QUOTA)
"""Of a job that placement has looked at, and left in the queue."""


def wrong_of(job: Job) -> str:
    """What is wrong with a job's reason or sentence, "" = nothing."""
    row = REASONS[job.reason]
    if not (row.ends is job.state if job.state.is_terminal else job.reason in _REASONS[job.state]):
        return f"its reason is {job.reason}"
    pattern = _pattern(job.reason, job.plan.compute, job.need, job.plan.nodes, job.plan.world_size)
    match = re.fullmatch(pattern, job.sentence)
    if match is None:
        return f"it says only {job.sentence!r}"
    if job.reason is Reason.WAITING_FOR_SLOTS and int(match["free"]) >= awaited(job):
        return f"it waits for what there is: {job.sentence}"
    return ""


def awaited(job: Job) -> int:
    """The CPU slots that a job waits for: of an elastic one those of its smallest size, mostly."""
    if "needs at least" in job.sentence:
        return job.need.least.nodes * job.need.cpus
    return max(job.need.nodes, job.growth) * job.need.cpus


@lru_cache
def _pattern(reason: Reason, compute: str, need: Need, nodes: int, ranks: int) -> str:
    amount = _amount(need)
    if need.is_elastic:
        amount = f"({_counted(need.cpus, 'CPU slot')}( on each of \\d+ nodes)?|at least {_amount(need.least)})"
    return _SAID.get(reason, ".*[a-z]+ .*[a-z]+.*").format(
        compute=compute,
        amount=amount,
        nodes=_counted(nodes, "node"),
        agents=_counted(nodes, "agent"),
        ranks=_counted(ranks, "rank"),
    )


def _amount(need: Need) -> str:
    each = _counted(need.cpus, "CPU slot")
    return each if need.nodes == 1 else f"{each} on each of {need.nodes} nodes"


def _counted(count: int, what: str) -> str:
    return f"{count} {what}" + "s" * (count != 1)

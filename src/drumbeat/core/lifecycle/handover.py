"""Handing the nodes of a job that has ended to the next one: whose nodes may go on, and which job may have them.

Pure rules. `ending.end` asks whether the nodes are worth keeping; the server's loop whether a job is there, or will be
in a moment, that can have them (`server/loop/kept_gangs.py`), and placement which job is next
(`server/loop/takeovers.py`). Why it is so is in docs/decisions/0053.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable

from drumbeat.core.child_jobs import PipelineProgress, SweepProgress
from drumbeat.core.end_verdict import Verdict
from drumbeat.core.lifecycle.job import Job
from drumbeat.core.reason_table import REASONS, Evidence
from drumbeat.model.agent import VOID, AgentStatus, Phase
from drumbeat.model.states import State

KEEP_S = 2.0
"""How long the nodes of a job that has ended are kept for the next one."""


def shape(job: Job) -> Hashable:
    """What two jobs must have in common for one to take over the other's nodes: whose they are, and all that nodes
    and agents have prepared for them.
    """
    plan = job.plan
    return (
        job.user, plan.compute, job.need, plan.nodes, plan.gpus_per_node, plan.launcher, plan.environment,
        plan.python.key if plan.python else "", plan.code, plan.path_first, plan.network, plan.shares,
    )  # fmt: skip


def is_able(job: Job) -> bool:
    """Whether a job may take over nodes, and leave its own to another one.

    One that may change its number of nodes keeps its own. Containers, services and clusters of a launcher leave more
    on a node than its agent knows of. A folder of checkpoints is named by the job, so that a job whose name another
    one had before has nodes of its own.
    """
    plan = job.plan
    is_plain = not (plan.elastic or plan.container or plan.services or plan.ray or plan.mpi_options)
    return is_plain and not plan.fresh_nodes and job.unique_name == job.name and bool(plan.nodes)


def keep_s(job: Job, verdict: Verdict) -> float:
    """How long the nodes of a job that ends now may wait for another one; 0 = they are given back at once.

    Only nodes on which everything has ended as it should: each has sent its outputs, and its agent is the one that
    enrolled.
    """
    row = REASONS[verdict.reason]
    has_ended_well = row.ends in (State.COMPLETED, State.CANCELED) or row.evidence is Evidence.RANKS
    is_whole = job.state is State.FINALIZING and not job.lost and job.attempt > 0
    if not (has_ended_well and is_whole and is_able(job)):
        return 0.0
    return KEEP_S if all(status and _can_go_on(status) for status in job.nodes) else 0.0


def _can_go_on(status: AgentStatus) -> bool:
    is_well = status.phase is Phase.UPLOADED and not (status.is_preempted or status.error or status.lost)
    return is_well and status.handover not in ("", VOID)


def has_heir(job: Job, queued: Iterable[Job], parents: Iterable[Job]) -> bool:
    """Whether another job can take over the nodes of this one, now or as soon as one of its parents submits it.

    parents: the sweep or pipeline that it is a part of, and those around that one, while they are unfinished.
    """
    if any(parent.state is State.RUNNING and _has_more(parent) for parent in parents):
        return True
    wanted = None
    for other in queued:
        if (other.user, other.plan.compute, other.plan.code) == (job.user, job.plan.compute, job.plan.code):
            wanted = wanted or shape(job)
            if fits(other, wanted):
                return True
    return False


def fits(job: Job, wanted: Hashable) -> bool:
    """Whether a job that waits for slots may take over nodes of this shape."""
    return job.state is State.QUEUED and is_able(job) and not job.lacking and not job.avoided and shape(job) == wanted


def _has_more(parent: Job) -> bool:
    """Whether a parent has children that aren't submitted yet."""
    if parent.sweep:
        return _has_trials_left(parent.sweep)
    return parent.pipeline is not None and _has_steps_left(parent.pipeline)


def _has_trials_left(sweep: SweepProgress) -> bool:
    is_full = sweep.is_exhausted or len(sweep.trials) >= sweep.max_trials
    return not is_full or any(trial.state is None for trial in sweep.trials)


def _has_steps_left(pipeline: PipelineProgress) -> bool:
    return any(step.state is None and not step.has_ended for step in pipeline.steps)

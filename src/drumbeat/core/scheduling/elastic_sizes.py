"""The sizes of elastic jobs: what a job file allows, and the plan for another number of nodes. Pure.

The keys are `min_nodes`, `max_nodes` and `grow` in `jobfile/job/timeouts_and_retries.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from drumbeat.core.scheduling.resource_needs import Need
from drumbeat.jobfile.job.job import CommandJob
from drumbeat.launchers.launcher import JobShape
from drumbeat.launchers.launcher_table import LAUNCHERS
from drumbeat.model.plan import Elastic, Growth, Plan
from drumbeat.model.plurals import counted


def elastic_for_job(job: CommandJob) -> Elastic | None:
    """Returns the sizes that a job file allows, None = its number of nodes is fixed."""
    if not job.is_elastic:
        return None
    return Elastic(job.min_nodes, job.node_count, job.max_nodes, Growth(job.drumbeat.grow))


def stretched(need: Need, elastic: Elastic | None) -> Need:
    """Returns the need with the sizes that the job allows."""
    return replace(need, min_nodes=elastic.min_nodes, max_nodes=elastic.max_nodes) if elastic else need


def largest_world(job: CommandJob) -> int:
    """Returns the number of ranks that the job has on all the nodes it may grow to."""
    return job.world_size // job.node_count * job.max_nodes if job.is_elastic else job.world_size


def notes(job: CommandJob) -> Iterator[str]:
    """Yields what is to be said of the sizes of a job."""
    if "grow" in job.drumbeat.model_fields_set and not job.is_elastic:
        yield "drumbeat.grow changes nothing: the number of nodes is fixed, without drumbeat.min_nodes and max_nodes"
    if job.is_elastic:
        grows = "at once" if job.drumbeat.grow == Growth.AT_ONCE else "after a checkpoint of drumbeat.train.Checkpoints"
        yield (
            f"the job runs on {job.min_nodes} to {counted(job.max_nodes, 'node')} and starts again from its last "
            f"checkpoint when their number changes; it grows {grows}"
        )


def resized(plan: Plan, nodes: int) -> Plan:
    """Returns the plan of an elastic job for that many nodes: its ranks are dealt again."""
    if plan.elastic is None or nodes == plan.nodes:
        return plan
    address = plan.ray.address if plan.ray else ""
    shape = JobShape(nodes, plan.processes_per_node, workers=nodes, address=address)
    return replace(plan, nodes=nodes, ranks=LAUNCHERS[plan.launcher].ranks(shape))


def format_sizes(elastic: Elastic) -> str:
    """Returns the sizes of a job in words: `2 to 4 nodes`."""
    return f"{elastic.min_nodes} to {counted(elastic.max_nodes, 'node')}"

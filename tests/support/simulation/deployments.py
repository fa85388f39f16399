"""What must hold of deployments after every step of a simulation."""

from __future__ import annotations

from drumbeat.core.child_jobs import DeploymentProgress, replica_name
from drumbeat.core.lifecycle.job import Job
from tests.support.simulation.backing import Sight
from tests.support.simulation.violation import require

MAX_WANTED = 3
"""Replicas that a user asks for in a simulation, at most."""


def check(sight: Sight) -> None:
    """Checks every deployment. Raises Violation."""
    for record in sight.records.values():
        if record.job.deployment:
            _check_deployment(sight, record.job, record.job.deployment)


def _check_deployment(sight: Sight, job: Job, progress: DeploymentProgress) -> None:
    numbers = [one.number for one in progress.replicas]
    require(len(set(numbers)) == len(numbers), f"{job.name} knows a replica twice: {numbers}")
    require(all(one < progress.next_number for one in numbers), f"{job.name} has forgotten its numbers: {numbers}")
    require(len(numbers) <= MAX_WANTED + 1, f"{job.name} has {len(numbers)} replicas, more than one too many")
    children = [record.job for record in sight.records.values() if record.job.parent == job.name]
    known = {replica_name(job.name, one) for one in numbers}
    strangers = [child.name for child in children if not child.state.is_terminal and child.name not in known]
    require(not strangers, f"{job.name} does not know {strangers}")
    require(not (job.state.is_terminal and numbers), f"{job.name} has ended, and replicas {numbers} have not")
    for one in progress.replicas:
        record = sight.records.get(replica_name(job.name, one.number))
        require(one.state is None or record is not None, f"replica {one.number} of {job.name} has no job")
        require(not one.is_canceling or one.is_leaving, f"replica {one.number} of {job.name} is canceled and stays")

"""The unique names of jobs and gangs: a job that has the name of a deleted one is never taken for it.

Records, machines, schedulers and caches that may outlive a job know it by its unique name, not by its name alone.
"""

from __future__ import annotations

_MARK = "~"
"""Which no name of a job has, and which paths, URLs and schedulers take as it is."""


def unique_name(job: str, first_version: int) -> str:
    """Returns `train`, or `train~7` for a job whose name a deleted one had. first_version: as `Job` has it."""
    return f"{job}{_MARK}{first_version}" if first_version > 1 else job


def gang_name(unique_job: str, attempt: int) -> str:
    """Returns the name of the gang of an attempt: the unique name of the job, a dot, and the attempt."""
    return f"{unique_job}.{attempt}"


def parse_gang_name(gang: str) -> tuple[str, str]:
    """Returns the job's own name and the attempt in the name of a gang."""
    unique_job, _, attempt = gang.rpartition(".")
    return unique_job.partition(_MARK)[0], attempt

"""The names of a gang's objects in Ray: pure.

A gang's placement group and actors have its name with the owner's prefix, so a repeated start starts nothing twice.
Each job has a number, too, because Ray confuses a job with an earlier one of its name that was just deleted.
"""

from __future__ import annotations

NAMESPACE = "drumbeat"
"""The Ray namespace of the actors."""
START, STOP = "start", "stop"
"""The verb of a job, between the gang's name and the job's number in the job's name."""
NOTICE = "DrainNotice"
"""The class of the actors that report that a node's machine is leaving."""
LEAVING = "leaving"
"""Precedes the node's number in the name of such an actor."""


def prefix(compute: str, mark: str) -> str:
    """The prefix of the names of all gangs of one server's compute."""
    return f"drumbeat-{compute}-{mark}-"


def job_name(gang_object: str, verb: str, number: int) -> str:
    """The name of a job of a gang."""
    return f"{gang_object}.{verb}.{number}"


def parse_job(name: str) -> tuple[str, str, int] | None:
    """The gang's object name, START or STOP, and the job's number; None if it isn't a gang's job."""
    gang, verb, number = ([*name.rsplit(".", 2), "", ""])[:3]
    return (gang, verb, int(number)) if verb in (START, STOP) and number.isdecimal() else None


def actor_name(gang_object: str, node: int) -> str:
    """The name of the actor of one node."""
    return f"{gang_object}/{node}"


def parse_actor(name: str) -> tuple[str, str, int] | None:
    """The gang's object name, the kind ("" or LEAVING) and the node's number; None if it isn't drumbeat's."""
    parts = name.split("/")
    if len(parts) not in (2, 3) or not parts[-1].isdecimal():
        return None
    return parts[0], parts[1] if len(parts) == 3 else "", int(parts[-1])

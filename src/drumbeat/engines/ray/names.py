"""The names of a gang's objects in Ray: pure.

A gang's placement group and actors have its name, with whose it is in front, so a start that is repeated starts nothing
twice. Each job has a number too: Ray mixes a job up with an earlier one of its name that was deleted a moment ago.
"""

from __future__ import annotations

NAMESPACE = "drumbeat"
"""The Ray namespace of the actors."""
START, STOP = "start", "stop"
"""What a job does: between the gang's name and the job's number in the job's name."""
NOTICE = "DrainNotice"
"""The class of actors that say that a node's machine leaves."""
LEAVING = "leaving"
"""Stands before the node's number in the name of such an actor."""


def prefix(compute: str, mark: str) -> str:
    """What begins the names of all gangs of one server's compute."""
    return f"drumbeat-{compute}-{mark}-"


def job_name(gang_object: str, verb: str, number: int) -> str:
    """The name of a job of a gang."""
    return f"{gang_object}.{verb}.{number}"


def parse_job(name: str) -> tuple[str, str, int] | None:
    """The gang's object name, START or STOP, and the job's number; None = it isn't one of a gang."""
    gang, verb, number = ([*name.rsplit(".", 2), "", ""])[:3]
    return (gang, verb, int(number)) if verb in (START, STOP) and number.isdecimal() else None


def actor_name(gang_object: str, node: int) -> str:
    """The name of the actor of one node."""
    return f"{gang_object}/{node}"


def parse_actor(name: str) -> tuple[str, str, int] | None:
    """The gang's object name, the kind ("" or LEAVING) and the node's number; None = it isn't drumbeat's."""
    parts = name.split("/")
    if len(parts) not in (2, 3) or not parts[-1].isdecimal():
        return None
    return parts[0], parts[1] if len(parts) == 3 else "", int(parts[-1])

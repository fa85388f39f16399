"""The names of a gang's objects in Ray: pure.

A gang's job, placement group and actors have its name, with whose it is in front, so a start that is repeated starts
nothing twice. Ray's names take any character but `/`, which stands between a gang and the number of a node.
"""

from __future__ import annotations

NAMESPACE = "drumbeat"
"""The Ray namespace of the actors."""
STOP = ".stop"
"""Follows the gang's name in the name of the job that ends it."""
NOTICE = "DrainNotice"
"""The class of actors that say that a node's machine leaves."""
LEAVING = "leaving"
"""Stands before the node's number in the name of such an actor."""


def prefix(compute: str, mark: str) -> str:
    """What begins the names of all gangs of one server's compute."""
    return f"drumbeat-{compute}-{mark}-"


def actor_name(gang_object: str, node: int) -> str:
    """The name of the actor of one node."""
    return f"{gang_object}/{node}"


def parse_actor(name: str) -> tuple[str, str, int] | None:
    """The gang's object name, the kind ("" or LEAVING) and the node's number; None = it isn't drumbeat's."""
    parts = name.split("/")
    if len(parts) not in (2, 3) or not parts[-1].isdecimal():
        return None
    return parts[0], parts[1] if len(parts) == 3 else "", int(parts[-1])

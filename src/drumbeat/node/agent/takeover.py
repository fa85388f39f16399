"""Going on with another job on the same node, in the same process, when the server says so.

What the agent keeps is its program, the node's own address and devices, the supervisor and the result of the
pre-flight. Everything else begins again: the folder, the secret, the files, the environment of the ranks.
"""

from __future__ import annotations

import os
from dataclasses import replace

from drumbeat.model import wire
from drumbeat.model.agent import Enrolment, Takeover
from drumbeat.model.failpoints import failpoint
from drumbeat.model.preflight import NodeCheck
from drumbeat.node.host.gangs import remove_folder, write_enrolment
from drumbeat.node.platform.server_addresses import latest_addresses

ROOT = "root"
"""How the names of the attempts' folders in the folder of a node begin."""


def next_enrolment(before: Enrolment, wanted: Takeover, preflight: NodeCheck | None) -> Enrolment:
    """Returns the enrolment for the job that takes over the node."""
    return replace(
        before,
        job=wanted.job,
        attempt=wanted.attempt,
        servers=latest_addresses(before),
        secret=wanted.secret,
        peer_secret=wanted.peer_secret,
        plan=wanted.plan,
        root=f"{os.path.dirname(before.root)}/{wanted.root}",
        checkpoints=_checkpoints(before, wanted.job),
        preflight=preflight,
    )


def _checkpoints(before: Enrolment, job: str) -> str:
    """Returns the folder of the job's checkpoints: its engine named that of the job before after that one."""
    jobs, name = os.path.split(os.path.dirname(before.checkpoints))
    if before.checkpoints == f"{os.path.dirname(os.path.dirname(before.root))}/checkpoints":
        return f"{os.path.dirname(before.root)}/checkpoints.{job}"  # A pod's own disk, which had one job's only.
    if not name.endswith(before.job):
        return f"{before.checkpoints.rstrip('/')}.{job}"
    return f"{jobs}/{name.removesuffix(before.job)}{job}/checkpoints"


def clear_earlier(root: str) -> None:
    """Ends and removes what is left of earlier jobs of the node, whose agent was killed while it went on."""
    folder, name = os.path.split(root)
    others = [one for one in os.listdir(folder) if one.startswith(ROOT) and one != name]
    if not others:
        return
    from drumbeat.node.agent import cleanup  # Needed after a kill only.

    for one in others:
        cleanup.clean(f"{folder}/{one}")
        remove_folder(f"{folder}/{one}")


def give_up(before: Enrolment, file: str, now: Enrolment) -> None:
    """Removes what is left of the earlier job, and makes the node the next one's, also for an agent that is restarted.

    file: of the enrolment. Raises OSError.
    """
    write_enrolment(file, wire.dumps(now))
    failpoint("agent.handed_over")
    remove_folder(before.root)

"""Runs a gang's node as a Slurm step: `python -I FILE drumbeat.node.host.slurm_step FOLDER`, started by srun on each
node.

FOLDER, which all nodes see, has an enrolment file for each of them. The node's own files are on its own disk (TMPDIR).
When the agent has left, or keeps ending, everything of the gang on this node ends, and so does the step. The next step
on a node clears what a killed step left.
"""

from __future__ import annotations

import os
import socket
import sys
from dataclasses import replace
from pathlib import Path

from drumbeat.model import wire
from drumbeat.model.agent import Enrolment
from drumbeat.node.host.gang_claims import claimed
from drumbeat.node.host.gangs import Gangs
from drumbeat.node.host.machine import is_private
from drumbeat.node.host.node_holder import LEFT, WONT_STAY, NodeHolder, own_folder
from drumbeat.node.host.server_names import require_resolvable

RESOLVE_S = 20.0


def main() -> int:
    """Returns 0 = the server dismissed the node; 143 = the node was told to stop; 1 = its agent keeps ending."""
    if os.environ.get("SLURM_RESTART_COUNT", "0") not in ("", "0"):
        print("drumbeat: this Slurm job was requeued, which ended its attempt; another attempt follows", flush=True)  # noqa: T201
        return LEFT
    given, node, own = Path(sys.argv[1]), int(os.environ["SLURM_PROCID"]), own_folder()
    own.mkdir(0o700, parents=True, exist_ok=True)

    def say(what: str) -> None:
        print(f"drumbeat: node {node}: {what}", flush=True)  # noqa: T201 (Slurm keeps it)

    if not is_private(own):
        say(f"{own} isn't private: remove it, or `chmod 700` it if it's yours")
        return WONT_STAY
    gangs = Gangs(own, leave_s=1.0, killed_s=3.0)
    enrolment = (given / str(node) / "enrolment.json").read_bytes()
    with claimed(gangs, given.name):
        holder = NodeHolder(gangs, given.name, node, say)
        # Gangs without a claim have been ended at this point.
        if holder.is_held:
            say("another Slurm job holds this node's part of the gang")
            return LEFT
        own = _enrolment(enrolment, holder.root)
        try:
            require_resolvable(own.servers, RESOLVE_S)
        except socket.gaierror as error:
            say(str(error.strerror))
            return WONT_STAY
        return holder.hold(wire.dumps(own))


def _enrolment(given: bytes, root: str) -> Enrolment:
    enrolment = wire.loads(Enrolment, given)
    return replace(enrolment, root=root, gpus=_own_gpus(enrolment.gpus))


def _own_gpus(wanted: tuple[str, ...]) -> tuple[str, ...]:
    """The GPUs of the node: as many of those that Slurm granted as it wants."""
    given = [one for one in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if one]
    return tuple(given[: len(wanted)]) if given else wanted


if __name__ == "__main__":
    sys.exit(main())

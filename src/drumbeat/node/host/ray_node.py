"""Starts a node of a gang on a machine of a Ray cluster: `python -I FILE drumbeat.node.host.ray_node GANG NODE`.

Standard input is JSON with the `enrolment`, the `address` by which Ray's other machines reach this one, and the `gpus`
that Ray granted. The answer, JSON too, has the node's `folder`, which exists until the node is over, or an `error`. The
agent is held by a daemon that is forked twice: Ray kills the children of its worker processes with SIGKILL.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from drumbeat.model import wire
from drumbeat.model.agent import Enrolment
from drumbeat.node.host.gang_claims import claimed
from drumbeat.node.host.gangs import Gangs
from drumbeat.node.host.machine import is_private
from drumbeat.node.host.node_holder import NodeHolder, own_folder
from drumbeat.node.host.server_names import require_resolvable

RESOLVE_S = 20.0


@dataclass(frozen=True)
class _Call:
    gang: str
    node: int
    request: dict[str, Any]


def main() -> int:
    """Starts the node, and returns 0 if its agent runs."""
    call = _Call(sys.argv[1], int(sys.argv[2]), json.load(sys.stdin))
    reading, writing = os.pipe()
    if os.fork() == 0:
        os.close(reading)
        _become_daemon()
        _hold(call, writing)
    os.close(writing)
    with open(reading, encoding="utf-8") as report:
        answer = json.loads(report.read() or '{"error": "its daemon could not be started"}')
    print(json.dumps(answer))  # noqa: T201 (the answer)
    return 1 if "error" in answer else 0


def _become_daemon() -> None:
    """Leaves the worker's session and its files, and becomes a child of the machine's first process."""
    os.setsid()
    if os.fork():
        os._exit(0)
    null = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(null, number)
    os.chdir("/")


def _hold(call: _Call, writing: int) -> None:
    """Holds the node, and doesn't return. writing: the open file for the answer."""
    pending = [writing]

    def report(**answer: str) -> None:
        if pending:  # Only the first answer is read.
            with open(pending.pop(), "w", encoding="utf-8") as file:
                json.dump(answer, file)

    try:
        gangs = Gangs(_private_folder(), leave_s=1.0, killed_s=3.0)
        with claimed(gangs, call.gang):
            holder = NodeHolder(gangs, call.gang, call.node, lambda what: report(error=what))
            if holder.is_held:
                report(folder=holder.folder)
            else:
                own = _enrolment(call.request, holder)
                require_resolvable(own.servers, RESOLVE_S)
                holder.hold(wire.dumps(own), lambda: report(folder=holder.folder))
    except OSError as error:
        report(error=f"{error.strerror or error}: {error.filename or ''}".rstrip(": "))
    os._exit(0)


def _private_folder() -> Path:
    own = own_folder()
    own.mkdir(0o700, parents=True, exist_ok=True)
    if not is_private(own):
        raise PermissionError(1, "the folder isn't private: remove it, or `chmod 700` it if it's yours", str(own))
    return own


def _enrolment(request: dict[str, Any], holder: NodeHolder) -> Enrolment:
    given = wire.loads(Enrolment, request["enrolment"].encode())
    gpus = tuple(request["gpus"])[: len(given.gpus)] if request["gpus"] else given.gpus
    checkpoints = os.path.expanduser(given.checkpoints)
    address = request["address"]
    return replace(given, root=holder.root, gpus=gpus, checkpoints=checkpoints, address=address)


if __name__ == "__main__":
    sys.exit(main())

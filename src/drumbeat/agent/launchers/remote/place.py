"""The folder in which the programs of a round find what they must know to reach the other nodes' doors."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import shlex
from dataclasses import asdict, dataclass, field

from drumbeat.agent.ground.files import write_whole
from drumbeat.host.program import program
from drumbeat.launch import hosts
from drumbeat.protocol import programs
from drumbeat.protocol.errors import StorageError
from drumbeat.protocol.plan import Plan
from drumbeat.protocol.roster import Roster

_KNOWN = "known.json"
Address = tuple[str, int]


@dataclass(frozen=True)
class Known:
    """What is known of the round. key: that its doors ask for. own: names of this node. doors: address and port of
    each other node's, by every name that the node has. places: folders of this node (`frames.Request`).
    """

    key: str
    own: tuple[str, ...]
    doors: dict[str, Address]
    places: dict[str, str] = field(default_factory=dict[str, str])


def make(plan: Plan, roster: Roster, node: int, secret: str) -> None:
    """The host file of the job, and what stands in for ssh and pdsh, in this node's folder. Raises StorageError."""
    root = roster.members[node].root
    folder = hosts.folder(root)
    try:
        write_whole(hosts.file(root), hosts.text(plan, roster), 0o644)
        if not hosts.is_alone(plan):
            return
        os.makedirs(hosts.programs(root), mode=0o700, exist_ok=True)
        note(folder, _knowledge(plan, roster, node, secret))
        for name, module in (("ssh", programs.SHELL), ("pdsh", programs.PDSH)):
            write_whole(f"{hosts.programs(root)}/{name}", script(module, folder))
    except OSError as error:
        what = f"what the nodes need to reach each other can't be written: {error.strerror}"
        raise StorageError(what, where=root, fix="Make room on that disk, or mend the right to write there.") from error


def note(folder: str, known: Known) -> None:
    """Writes it down. Raises OSError."""
    write_whole(f"{folder}/{_KNOWN}", json.dumps(asdict(known)))


def read(folder: str) -> Known:
    """What is written there."""
    with open(f"{folder}/{_KNOWN}", encoding="utf-8") as file:
        said = json.load(file)
    doors = {name: (address, port) for name, (address, port) in said["doors"].items()}
    return Known(said["key"], tuple(said["own"]), doors, said["places"])


def key(secret: str, *words: object) -> str:
    """A key for what these words name, made from the attempt's secret."""
    return hmac.new(secret.encode(), " ".join(map(str, words)).encode(), hashlib.sha256).hexdigest()


def script(module: str, folder: str) -> str:
    """A program for a shell: a module of ours that is given the folder before its other words."""
    # Hydra calls it with -x, as it would ssh, and a shell would say what it does.
    return f'#!/bin/sh\n{{ set +x; }} 2>/dev/null\nexec {shlex.join([*program(module), folder])} "$@"\n'


def _knowledge(plan: Plan, roster: Roster, node: int, secret: str) -> Known:
    known = hosts.known_as(roster)
    doors = {
        name: (roster.members[other].address, hosts.port(roster, other))
        for other in range(plan.nodes)
        for name in known[other]
        if other != node
    }
    return Known(
        key=key(secret, "remote", plan.job, roster.attempt, roster.round),
        own=(*known[node], "localhost", "127.0.0.1", "::1"),
        doors=doors,
        places={"root": roster.members[node].root, "python": plan.variables.get("VIRTUAL_ENV", "")},
    )

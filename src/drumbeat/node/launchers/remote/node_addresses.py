"""The folder with the addresses of the other nodes' command servers, for the programs of a round."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import shlex
from dataclasses import dataclass, field

from drumbeat.launchers import host_file
from drumbeat.model import programs
from drumbeat.model.errors import StorageError
from drumbeat.model.plan import Plan, RankTable
from drumbeat.model.roster import Roster
from drumbeat.node.host.own_programs import program
from drumbeat.node.platform.files import write_whole

_FILE = "known.json"
Address = tuple[str, int]


@dataclass(frozen=True)
class NodeAddresses:
    """The addresses and key by which programs of one round and node run commands on the others."""

    key: str
    """The key that the command servers of the round require."""
    own: tuple[str, ...]
    """The names of this node."""
    servers: dict[str, Address]
    """Address and port of each other node's command server, by every name that the node has."""
    places: dict[str, str] = field(default_factory=dict[str, str])
    """Folders of this node (`frames.CommandRequest`)."""


def make(plan: Plan, roster: Roster, node: int, secret: str) -> None:
    """Writes the job's host file and the replacements of ssh and pdsh to this node's folder, if it knows all hosts.

    Raises StorageError.
    """
    if not roster.is_whole:
        return
    root = roster.member(node).root
    folder = host_file.folder(root)
    try:
        write_whole(host_file.file(root), host_file.text(plan, roster), 0o644)
        if not host_file.is_alone(plan):
            return
        os.makedirs(host_file.programs(root), mode=0o700, exist_ok=True)
        note(folder, _addresses(plan, roster, node, secret))
        for name, module in (("ssh", programs.SHELL), ("pdsh", programs.PDSH)):
            write_whole(f"{host_file.programs(root)}/{name}", script(module, folder))
    except OSError as error:
        what = f"the files by which nodes reach each other can't be written: {error.strerror}"
        raise StorageError(what, where=root, fix="Free space on that disk, or grant write permission there.") from error


def note(folder: str, addresses: NodeAddresses) -> None:
    """Writes the addresses to the folder. Raises OSError."""
    form = {"key": addresses.key, "own": addresses.own, "doors": addresses.servers, "places": addresses.places}
    write_whole(f"{folder}/{_FILE}", json.dumps(form))


def read(folder: str) -> NodeAddresses:
    """Reads the addresses from the folder."""
    with open(f"{folder}/{_FILE}", encoding="utf-8") as file:
        form = json.load(file)
    servers = {name: (address, port) for name, (address, port) in form["doors"].items()}
    return NodeAddresses(form["key"], tuple(form["own"]), servers, form["places"])


def key(secret: str, *words: object) -> str:
    """Returns a key for the purpose that these words name, derived from the secret of the attempt's nodes."""
    return hmac.new(secret.encode(), " ".join(map(str, words)).encode(), hashlib.sha256).hexdigest()


def script(module: str, folder: str) -> str:
    """Returns a shell script that runs a module of drumbeat with the folder before its other arguments."""
    # Hydra passes -x, as it would to ssh, and a shell would print every command.
    return f'#!/bin/sh\n{{ set +x; }} 2>/dev/null\nexec {shlex.join([*program(module), folder])} "$@"\n'


def _addresses(plan: RankTable, roster: Roster, node: int, secret: str) -> NodeAddresses:
    names = host_file.known_as(roster)
    servers = {
        name: (roster.members[other].address, host_file.port(roster, other))
        for other in range(plan.nodes)
        for name in names[other]
        if other != node
    }
    return NodeAddresses(
        key=key(secret, "remote", plan.job, roster.attempt, roster.round),
        own=(*names[node], "localhost", "127.0.0.1", "::1"),
        servers=servers,
        places={"root": roster.member(node).root, "python": plan.variables.get("VIRTUAL_ENV", "")},
    )

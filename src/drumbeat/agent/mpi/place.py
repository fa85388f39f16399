"""The folder that mpirun, its daemons and the ranks of one round share on a machine (`launch.mpi.place`)."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import os
import secrets
import shlex
import shutil
from typing import Any

from drumbeat.host.program import program
from drumbeat.launch import mpi
from drumbeat.protocol.errors import StorageError
from drumbeat.protocol.plan import Plan
from drumbeat.protocol.roster import Roster

_KNOWN = "known.json"


def make(plan: Plan, roster: Roster, node: int, secret: str) -> str:
    """The folder, with all that this node's processes need in it. Raises StorageError.

    Nodes of one machine have it together, and write the same into it.
    """
    folder = mpi.place(roster)
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        _check_own(folder)
        _write(f"{folder}/node.{node}", "")
        _write(f"{folder}/{_KNOWN}", json.dumps(_knowledge(plan, roster, secret)))
        _write(f"{folder}/rank", _script("drumbeat.agent.mpi.child", folder))
        _write(f"{folder}/shell", _script("drumbeat.agent.mpi.shell", folder))
    except OSError as error:
        what = f"mpirun's folder can't be made: {error.strerror}"
        raise StorageError(what, where=folder, fix="Make room in /dev/shm, or the right to write there.") from error
    return folder


def note(path: str, roster: Roster, node: int) -> None:
    """Writes down what is about to be made, for whoever must clear it."""
    with open(path, "w", encoding="utf-8") as file:
        json.dump([mpi.place(roster), node], file)


def clear_noted(path: str) -> None:
    """Clears what was noted there, if anything was."""
    with contextlib.suppress(FileNotFoundError, ValueError):
        with open(path, encoding="utf-8") as file:
            folder, node = json.load(file)
        clear(folder, node)
        os.unlink(path)


def clear(folder: str, node: int) -> None:
    """The node needs it no more; the last one on the machine removes it."""
    with contextlib.suppress(OSError):
        os.unlink(f"{folder}/node.{node}")
        if not any(name.startswith("node.") for name in os.listdir(folder)):
            shutil.rmtree(folder, ignore_errors=True)


def known(folder: str) -> dict[str, Any]:
    """key: of the doors. round. own: the address that mpirun itself runs at. doors: port by address.

    ranks: the folder of each rank's keeper.
    """
    with open(f"{folder}/{_KNOWN}", encoding="utf-8") as file:
        return json.load(file)


def _knowledge(plan: Plan, roster: Roster, secret: str) -> dict[str, Any]:
    told = f"mpi {plan.job} {roster.attempt} {roster.round}"
    return {
        "key": hmac.new(secret.encode(), told.encode(), hashlib.sha256).hexdigest(),
        "round": roster.round,
        "own": roster.master.address,
        "doors": {host.address: mpi.port(roster, host.node) for host in mpi.hosts(plan, roster)},
        "ranks": {str(rank.rank): f"{roster.members[rank.node].root}/keeper" for rank in plan.ranks},
    }


def _check_own(folder: str) -> None:
    """Raises OSError when somebody else made it: the key must not fall into their hands."""
    there = os.lstat(folder)
    if there.st_uid != os.geteuid() or there.st_mode & 0o77:
        raise OSError(13, f"{folder} belongs to somebody else")


def _script(module: str, folder: str) -> str:
    # Hydra calls it with -x, as it would ssh, and a shell would say what it does.
    return f'#!/bin/sh\n{{ set +x; }} 2>/dev/null\nexec {shlex.join([*program(module), folder])} "$@"\n'


def _write(path: str, text: str) -> None:
    part = f"{path}.{secrets.token_hex(4)}.part"  # Nodes in PID namespaces of their own have the same pids.
    with open(part, "w", encoding="utf-8", opener=lambda name, how: os.open(name, how, 0o700)) as file:
        file.write(text)
    os.replace(part, path)

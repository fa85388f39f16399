"""The folder that mpirun, its daemons and the ranks of one round share on a machine (`launchers.mpi.place`)."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from typing import Any

from drumbeat.launchers import mpi
from drumbeat.model import programs
from drumbeat.model.errors import StorageError
from drumbeat.model.plan import Plan, RankTable
from drumbeat.model.roster import Roster
from drumbeat.node.launchers.remote import node_addresses
from drumbeat.node.launchers.remote.node_addresses import NodeAddresses
from drumbeat.node.platform.files import require_own, write_whole

_RANKS = "ranks.json"


def make(plan: Plan, roster: Roster, node: int, secret: str) -> str:
    """Creates the folder with everything that this node's processes need, and returns it. Raises StorageError.

    Nodes of one machine share it, and write the same files.
    """
    folder = mpi.place(roster)
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        require_own(folder)
        write_whole(f"{folder}/node.{node}", "")
        write_whole(f"{folder}/{_RANKS}", json.dumps(_ranks(plan, roster)))
        node_addresses.note(folder, _servers(plan, roster, secret))
        write_whole(f"{folder}/rank", node_addresses.script(programs.MPI_CHILD, folder))
        write_whole(f"{folder}/shell", node_addresses.script(programs.SHELL, folder))
    except OSError as error:
        what = f"mpirun's folder can't be created: {error.strerror}"
        raise StorageError(what, where=folder, fix="Free space in /dev/shm, or grant write permission.") from error
    return folder


def note(path: str, roster: Roster, node: int) -> None:
    """Records the folder that is about to be created, for `clear_noted`; clears a leftover one of an earlier round."""
    entry = [mpi.place(roster), node]
    if _noted(path) != entry:
        clear_noted(path)
    with open(path, "w", encoding="utf-8") as file:
        json.dump(entry, file)


def clear_noted(path: str) -> None:
    """Clears the folder that the file names, if there is one."""
    if entry := _noted(path):
        clear(*entry)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)


def _noted(path: str) -> list[Any]:
    with contextlib.suppress(FileNotFoundError, ValueError), open(path, encoding="utf-8") as file:
        return json.load(file)
    return []


def clear(folder: str, node: int) -> None:
    """Removes the node's file; the last node on the machine removes the folder."""
    with contextlib.suppress(OSError):  # An agent that was killed may have done this already.
        os.unlink(f"{folder}/node.{node}")
    with contextlib.suppress(OSError):
        if not any(name.startswith("node.") for name in os.listdir(folder)):
            shutil.rmtree(folder, ignore_errors=True)


def ranks(folder: str) -> dict[str, Any]:
    """Reads the number of the round, and the folder of each rank's supervisor."""
    with open(f"{folder}/{_RANKS}", encoding="utf-8") as file:
        return json.load(file)


def _ranks(plan: RankTable, roster: Roster) -> dict[str, Any]:
    supervisors = {str(rank.rank): f"{roster.members[rank.node].root}/keeper" for rank in plan.ranks}
    return {"round": roster.round, "keepers": supervisors}


def _servers(plan: Plan, roster: Roster, secret: str) -> NodeAddresses:
    """Returns the addresses for mpirun, including its own node's."""
    return NodeAddresses(
        key=node_addresses.key(secret, "mpi", plan.job, roster.attempt, roster.round),
        own=(roster.master.address,),
        servers={host.address: (host.address, mpi.port(roster, host.node)) for host in mpi.hosts(plan, roster)},
    )

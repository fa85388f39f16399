"""The folder that mpirun, its daemons and the ranks of one round share on a machine (`launch.mpi.place`)."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from typing import Any

from drumbeat.agent.ground.files import write_whole
from drumbeat.agent.launchers.remote import place
from drumbeat.agent.launchers.remote.place import Known
from drumbeat.launch import mpi
from drumbeat.protocol import programs
from drumbeat.protocol.errors import StorageError
from drumbeat.protocol.plan import Plan
from drumbeat.protocol.roster import Roster

_RANKS = "ranks.json"


def make(plan: Plan, roster: Roster, node: int, secret: str) -> str:
    """The folder, with all that this node's processes need in it. Raises StorageError.

    Nodes of one machine have it together, and write the same into it.
    """
    folder = mpi.place(roster)
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        _check_own(folder)
        write_whole(f"{folder}/node.{node}", "")
        write_whole(f"{folder}/{_RANKS}", json.dumps(_ranks(plan, roster)))
        place.note(folder, _doors(plan, roster, secret))
        write_whole(f"{folder}/rank", place.script(programs.MPI_CHILD, folder))
        write_whole(f"{folder}/shell", place.script(programs.SHELL, folder))
    except OSError as error:
        what = f"mpirun's folder can't be made: {error.strerror}"
        raise StorageError(what, where=folder, fix="Make room in /dev/shm, or the right to write there.") from error
    return folder


def note(path: str, roster: Roster, node: int) -> None:
    """Writes down what is about to be made, for whoever must clear it; an earlier round's that nobody did goes now."""
    noted = [mpi.place(roster), node]
    if _noted(path) != noted:
        clear_noted(path)
    with open(path, "w", encoding="utf-8") as file:
        json.dump(noted, file)


def clear_noted(path: str) -> None:
    """Clears what was noted there, if anything was."""
    if noted := _noted(path):
        clear(*noted)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)


def _noted(path: str) -> list[Any]:
    with contextlib.suppress(FileNotFoundError, ValueError), open(path, encoding="utf-8") as file:
        return json.load(file)
    return []


def clear(folder: str, node: int) -> None:
    """The node needs it no more; the last one on the machine removes it."""
    with contextlib.suppress(OSError):  # Who was killed in this may have come so far.
        os.unlink(f"{folder}/node.{node}")
    with contextlib.suppress(OSError):
        if not any(name.startswith("node.") for name in os.listdir(folder)):
            shutil.rmtree(folder, ignore_errors=True)


def ranks(folder: str) -> dict[str, Any]:
    """What is known of them. round. keepers: the folder of each rank's keeper."""
    with open(f"{folder}/{_RANKS}", encoding="utf-8") as file:
        return json.load(file)


def _ranks(plan: Plan, roster: Roster) -> dict[str, Any]:
    keepers = {str(rank.rank): f"{roster.members[rank.node].root}/keeper" for rank in plan.ranks}
    return {"round": roster.round, "keepers": keepers}


def _doors(plan: Plan, roster: Roster, secret: str) -> Known:
    """own: the address that mpirun itself runs at."""
    return Known(
        key=place.key(secret, "mpi", plan.job, roster.attempt, roster.round),
        own=(roster.master.address,),
        doors={host.address: (host.address, mpi.port(roster, host.node)) for host in mpi.hosts(plan, roster)},
    )


def _check_own(folder: str) -> None:
    """Raises OSError when somebody else made it: the key must not fall into their hands."""
    there = os.lstat(folder)
    if there.st_uid != os.geteuid() or there.st_mode & 0o77:
        raise OSError(13, f"{folder} belongs to somebody else")

"""Spare supervisors: supervisors without an attempt, whose warm workers wait for the next job of the same command.

Each is a folder among the user's caches, separate for each boot of each machine, with a living supervisor in it. An
agent takes one over by moving the folder to its own attempt's: of two agents only one succeeds. A spare supervisor ends
by itself after some minutes.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from drumbeat._version import __version__
from drumbeat.model.agent import Enrolment
from drumbeat.model.failpoints import failpoint
from drumbeat.model.supervisor import LeaveNode
from drumbeat.node.host.machine import boot
from drumbeat.node.platform import machine_memory
from drumbeat.node.supervisor import listener
from drumbeat.node.supervisor.machine import MACHINE, SupervisorMachine

if TYPE_CHECKING:
    from drumbeat.node.supervisor.warm_pool import WarmPool

IDLE_S = "DRUMBEAT_SPARE_S"
"""The variable of the agent that overrides `_IDLE_S`; 0 = no spare supervisors."""
_IDLE_S = 600.0
MAX_SPARES = 4
"""The maximum number of a user's spare supervisors on a machine: one more ends the oldest."""
_FILE = "spare.json"
_DEAD = "dead"
_DAY_S = 86_400.0


@dataclass(frozen=True)
class Spare:
    """A spare supervisor."""

    folder: str
    pid: int
    commands: tuple[str, ...]
    """The commands of its warm workers."""
    interpreters: tuple[int, ...]
    """The pids of its warm workers."""
    since: float
    """When it became a spare one, in seconds since the epoch."""

    @property
    def bytes(self) -> int:
        """The memory of its warm workers."""
        return sum(machine_memory.resident(pid) for pid in self.interpreters)


def idle_s(machine: SupervisorMachine = MACHINE) -> float:
    """Returns how long a spare supervisor waits, 0 = none is kept."""
    return float(machine.variables.get(IDLE_S, _IDLE_S))


def are_kept(enrolment: Enrolment, machine: SupervisorMachine = MACHINE) -> bool:
    """Whether a supervisor of this attempt may become, or have been, a spare one."""
    return enrolment.keeps_spares and idle_s(machine) > 0


def key(enrolment: Enrolment, confinement: str) -> str:
    """Returns the key that jobs share whose agents may take over each other's supervisors.

    The supervisor compares each warm worker with its rank before it uses it; the key only finds likely ones.
    """
    plan, node = enrolment.plan, enrolment.node
    network = os.stat("/proc/self/ns/net")
    facts = (
        __version__, plan.command, sorted(plan.variables), plan.python.key if plan.python else "", plan.launcher,
        [rank.rank for rank in plan.on(node)], sorted(enrolment.gpus), confinement, network.st_ino,
    )  # fmt: skip
    return hashlib.sha256(json.dumps(facts, default=str).encode()).hexdigest()[:24]


def new_folder(spare_key: str, machine: SupervisorMachine = MACHINE) -> str:
    """Returns the folder in which a supervisor may become a spare one of this key, after ending surplus ones."""
    home = machine.spares_home()
    _clear_other_boots(home, machine)
    for path in list(_folders(home)):
        _clear_dead(path, machine)
    spares = sorted(listed(machine), key=lambda spare: spare.since)
    for spare in spares[: max(0, len(spares) - MAX_SPARES + 1)]:
        end(spare, machine)
    return f"{home}/{spare_key}-{os.urandom(6).hex()}"


def place(folder: str, spare_folder: str, warm_pool: WarmPool, machine: SupervisorMachine = MACHINE) -> None:
    """Moves a supervisor's folder to the spare ones. Raises OSError."""
    os.makedirs(os.path.dirname(spare_folder), mode=0o700, exist_ok=True)
    spare = {
        "pid": machine.pid, "interpreters": sorted(warm_pool.pids), "commands": warm_pool.commands,
        "since": machine.now(),
    }  # fmt: skip
    with open(f"{folder}/{_FILE}", "w", encoding="utf-8") as file:
        json.dump(spare, file)
    failpoint("supervisor.retiring")
    os.rename(folder, spare_folder)
    failpoint("supervisor.retired")


def claim(spare_key: str, folder: str, machine: SupervisorMachine = MACHINE) -> bool:
    """Moves a living spare supervisor of this key to an agent's folder, which must not hold one; returns whether there
    was one.
    """
    with contextlib.ExitStack() as held:
        with contextlib.suppress(FileNotFoundError):  # Without the folder there is nothing to hold.
            lock = listener.hold_folder(folder)
            if lock is None:
                return False  # An earlier agent has started a supervisor.
            held.callback(os.close, lock)
        for path in list(_folders(machine.spares_home())):
            if not os.path.basename(path).startswith(f"{spare_key}-") or _clear_dead(path, machine):
                continue
            failpoint("agent.spare_found")
            with contextlib.suppress(OSError):  # Another agent was first, or the folder isn't empty.
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(f"{folder}/{listener.LOCK}")
                os.rename(path, folder)
                failpoint("agent.spare_taken")
                return True
    return False


def listed(machine: SupervisorMachine = MACHINE) -> list[Spare]:
    """Returns the living spare supervisors of this user on this machine."""
    return [spare for path in _folders(machine.spares_home()) if listener.is_held(path) and (spare := _read(path))]


def end(spare: Spare, machine: SupervisorMachine = MACHINE) -> None:
    """Tells a spare supervisor to end, and waits until it has."""
    with contextlib.suppress(OSError):
        machine.tell(spare.folder, LeaveNode(0.0, is_spare=True))


def is_surplus(folder: str, machine: SupervisorMachine = MACHINE) -> bool:
    """Whether enough other supervisors have become spare after this folder's.

    `new_folder` alone couldn't enforce the limit: the nodes of a job, or several jobs, may end at the same time.
    """
    spares = sorted(listed(machine), key=lambda spare: (spare.since, spare.folder))
    return folder in [spare.folder for spare in spares[: max(0, len(spares) - MAX_SPARES)]]


def remove(folder: str) -> None:
    """Removes the folder of a spare supervisor."""
    import shutil

    shutil.rmtree(folder, ignore_errors=True)


def _clear_dead(path: str, machine: SupervisorMachine) -> bool:
    """Removes the remains of a killed spare supervisor; returns whether it was killed.

    They are moved away first: an agent that saw it alive a moment ago may have claimed it, with its own ranks in it.
    """
    if listener.is_held(path):
        return False
    failpoint("agent.spare_dead")
    grave = f"{os.path.dirname(path)}/{_DEAD}-{os.urandom(6).hex()}"
    with contextlib.suppress(OSError):  # Another agent is taking it over, or removing it, too.
        os.rename(path, grave)
        machine.end_rest(grave)
        remove(grave)
    return True


def _clear_other_boots(home: str, machine: SupervisorMachine) -> None:
    """Removes the remains of spare supervisors from before this boot and, if old, from other machines of this home."""
    if os.path.basename(home) != boot():
        return
    oldest = machine.now() - idle_s(machine) - _DAY_S
    for path in _folders(os.path.dirname(home)):
        with contextlib.suppress(OSError):
            if path != home and os.stat(path).st_mtime < oldest:
                remove(path)


def _folders(home: str) -> Iterator[str]:
    with contextlib.suppress(OSError):
        yield from (entry.path for entry in os.scandir(home) if entry.is_dir(follow_symlinks=False))


def _read(folder: str) -> Spare | None:
    with contextlib.suppress(OSError, ValueError, KeyError), open(f"{folder}/{_FILE}", encoding="utf-8") as file:
        value: dict[str, Any] = json.load(file)
        return Spare(
            folder, value["pid"], tuple(value["commands"]), tuple(value["interpreters"]), float(value["since"])
        )
    return None

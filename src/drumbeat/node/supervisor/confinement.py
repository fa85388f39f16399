"""How a supervisor holds on to everything that it starts, so that nothing can outlive a round.

There are three ways, and the first that this machine allows is taken: a PID namespace, a control group, or being the
subreaper. Each writes what a later process needs to end what is left if the supervisor dies (`hold.json` beside it).
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
from collections.abc import Callable
from typing import Any

from drumbeat.node.host import processes
from drumbeat.node.supervisor import cgroups, listener, shared_memory
from drumbeat.node.supervisor.cgroups import Group
from drumbeat.node.supervisor.namespaces import Namespace

VARIABLE = "DRUMBEAT_CONFINEMENT"
"""The variable of the agent that names the one of `WAYS` to use."""

LEFTOVER_GRACE_S = 1.0
"""Between SIGTERM and SIGKILL, for what a round or a command leaves behind; that of the ranks themselves is `grace_s`
of the plan (`jobfile/job/timeouts_and_retries.py`)."""
KILL_TIMEOUT_S = 10.0
"""After SIGKILL, for a process that cannot be killed (a disk that hangs)."""
ENDING_INTERVAL_S = 0.03
"""How often they are looked at."""

_HOLD = "hold.json"
WARM_POOL = "standby"
"""The folder, in a supervisor's, of what it prepares for the next round."""


class Subreaper:
    """Keeps every descendant below the supervisor, in whatever session; a marker finds them if the supervisor dies."""

    way = "subreaper"

    def __init__(self, folder: str, marker: str) -> None:
        self._folder, self._marker, self._hold = folder, marker, f"{folder}/{_HOLD}"
        self._is_of_pool = folder.endswith(f"/{WARM_POOL}")
        """Whether this one of two was made for the warm workers; the two change places with each round."""
        self._supervisor = os.getpid()
        self._adopts = processes.adopt_orphans()
        self._asked: set[int] = set()
        self.spares: Callable[[], set[int]] = set
        """Processes below the supervisor that are no members of its round."""

    def open(self) -> None:
        """Begins a round. Raises OSError if it can't be held."""
        self._asked.clear()
        self._note({})

    def resume(self) -> None:
        """Begins a round with processes that were started before it, after `open`."""
        self._asked.clear()

    def move(self, folder: str) -> None:
        """Takes note that the supervisor's folder is another one. What was made for the pool stays below it."""
        self._folder = f"{folder}/{WARM_POOL}" if self._is_of_pool else folder
        self._hold = f"{self._folder}/{_HOLD}"

    def of_pool(self) -> Subreaper:
        """Returns another one, of the same way, for the warm workers."""
        return type(self)(f"{self._folder}/{WARM_POOL}", self._marker)

    @property
    def holders(self) -> set[int]:
        """Processes that hold the members and are none of them."""
        return set()

    def variables(self) -> dict[str, str]:
        """Returns what is added to a rank's environment."""
        return {processes.MARKER: self._marker}

    def enter(self) -> None:
        """Confines the calling process, between fork and exec."""
        processes.die_with_parent(self._supervisor)

    def members(self) -> list[int]:
        """Returns all processes of the round that are alive."""
        below = self._below()
        if self._adopts:
            return below
        return sorted({*below, *processes.marked(self._marker)} - self.spares())

    def _below(self) -> list[int]:
        below, spared = processes.descendants(self._supervisor), self.spares()
        return [pid for pid in below if pid not in spared]

    def ask(self, *, helpers: bool = False, spared: int = 0) -> None:
        """Sends SIGTERM to each member that hasn't had it, and continues stopped ones, so that they can act on it.

        helpers: also to what belongs to a Python program that gets SIGTERM itself (a data loader's workers). These are
        the program's to end: it could not save a checkpoint without them. spared: gets no signal, nor does what it
        started. Nor does what removes files that members share: it ends by itself after them.
        """
        members = [pid for pid in self.members() if pid not in self._asked and not processes.removes_files(pid)]
        if spared:
            kept = {spared, *processes.descendants(spared)}
            members = [pid for pid in members if pid not in kept]
        asked = members if helpers else [pid for pid in members if not processes.is_helper(pid)]
        self._asked.update(asked)
        processes.signal_all(asked, signal.SIGTERM)
        processes.signal_all(asked, signal.SIGCONT)

    def kill(self) -> None:
        """Sends SIGKILL to all members."""
        processes.signal_all(self.members(), signal.SIGKILL)

    def close(self, *, is_empty: bool = True) -> None:
        """Ends the round. is_empty: no member is left."""
        del is_empty
        with contextlib.suppress(OSError):
            os.unlink(self._hold)

    def _note(self, trace: dict[str, Any]) -> None:
        """Writes what `end_rest` goes by. Not synced: what it names doesn't outlive the machine either."""
        with open(self._hold, "w", encoding="utf-8") as file:
            json.dump({"way": self.way, **trace}, file)

    def _note_or_close(self, trace: dict[str, Any]) -> None:
        """Writes it, or gives the round up: what isn't on disk could not be ended after the supervisor was killed."""
        try:
            self._note(trace)
        except OSError:
            self.close()
            raise


class InNamespace(Subreaper):
    """Gives the round a PID namespace: nothing leaves it, and all of it ends with the supervisor."""

    way = "PID namespace"
    _namespace: Namespace

    def open(self) -> None:
        super().open()
        self._namespace = Namespace()
        first = self._namespace.first
        self._note_or_close({"first": first, "birth": processes.birth(first)})

    def resume(self) -> None:
        super().resume()
        self._namespace.take_children()

    @property
    def holders(self) -> set[int]:
        return {self._namespace.first}

    def enter(self) -> None:
        self._namespace.enter()

    def members(self) -> list[int]:
        return [pid for pid in self._below() if pid != self._namespace.first]

    def kill(self) -> None:
        self._namespace.end()

    def close(self, *, is_empty: bool = True) -> None:
        self._namespace.close(is_waiting=is_empty)
        super().close()


class InGroup(Subreaper):
    """Gives the round a control group: nothing leaves it, and the next supervisor ends it by name."""

    way = "control group"
    _group: Group

    def open(self) -> None:
        super().open()
        self._group = Group(f"drumbeat-{self._marker.rpartition('#')[2]}{self._ending()}")
        self._note_or_close({"group": self._group.path})

    def _ending(self) -> str:
        return f"-{WARM_POOL}" if self._is_of_pool else ""

    def enter(self) -> None:
        self._group.enter()
        super().enter()

    def members(self) -> list[int]:
        return sorted({*super().members(), *filter(processes.is_alive, self._group.members())})

    def kill(self) -> None:
        cgroups.kill(self._group.path)
        super().kill()

    def close(self, *, is_empty: bool = True) -> None:
        self._group.close(is_waiting=is_empty)
        super().close()


WAYS: dict[str, type[Subreaper]] = {"namespace": InNamespace, "cgroup": InGroup, "subreaper": Subreaper}
"""Best first."""


def choose(folder: str, marker: str) -> Subreaper:
    """Returns the best way that works here, or the one that `DRUMBEAT_CONFINEMENT` names. Raises OSError."""
    named = os.environ.get(VARIABLE)
    for name, way in WAYS.items():
        if named not in (None, "", name):
            continue
        try:
            return _tried(way(folder, marker))
        except OSError:
            if named:
                raise
    raise OSError(22, f"{VARIABLE}={named}: there are only {', '.join(WAYS)}")


def _tried(way: Subreaper) -> Subreaper:
    way.open()
    way.close()
    return way


def end_rest(folder: str, reap: Callable[[], None] = lambda: None) -> list[int]:
    """Ends what a supervisor of this folder left when it died; returns the processes that can't be killed.

    reap: reaps the children that this process has adopted, while it waits: a namespace isn't gone before.
    """
    marker = listener.read_marker(folder)
    holds = (f"{folder}/{_HOLD}", f"{folder}/{WARM_POOL}/{_HOLD}")
    for hold in holds:
        with contextlib.suppress(OSError, ValueError), open(hold, encoding="utf-8") as file:
            _end_held(json.load(file), reap)
    left = processes.end_marked(marker)
    shared_memory.clear(folder)
    for hold in holds if not left else ():
        with contextlib.suppress(OSError):
            os.unlink(hold)
    return left


def _end_held(trace: dict[str, Any], reap: Callable[[], None]) -> None:
    if "group" in trace:
        cgroups.end(trace["group"], within_s=2.0)
    if "first" in trace:
        # Nothing of a namespace is left when its first process is gone.
        processes.end_one(trace["first"], trace["birth"], reap)

"""The confinement of a round: how a supervisor holds all processes that it starts, so that none can outlive the round.

There are three ways, and the first one that this machine allows is used: a PID namespace, a control group, or being the
subreaper. Each records how a later process can end the rest if the supervisor dies (`hold.json` beside it).
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
"""The variable of the agent that selects one of `WAYS`."""

LEFTOVER_GRACE_S = 1.0
"""The time between SIGTERM and SIGKILL for leftovers of a round or a command; that of the ranks themselves is `grace_s`
of the plan (`jobfile/job/timeouts_and_retries.py`).
"""
KILL_TIMEOUT_S = 10.0
"""How long to wait after SIGKILL for a process that can't be killed (a hanging disk)."""
ENDING_INTERVAL_S = 0.03
"""How often ending processes are checked."""

_HOLD = "hold.json"
WARM_POOL = "standby"
"""The subfolder of the warm workers that a supervisor prepares for the next round."""


class Subreaper:
    """Keeps every descendant below the supervisor, whatever its session; a marker finds them if the supervisor dies."""

    way = "subreaper"

    def __init__(self, folder: str, marker: str) -> None:
        self._folder, self._marker, self._hold = folder, marker, f"{folder}/{_HOLD}"
        self._is_for_pool = folder.endswith(f"/{WARM_POOL}")
        """Whether this one of the two was created for the warm workers; the two change roles with each round."""
        self._supervisor = os.getpid()
        self._adopts = processes.adopt_orphans()
        self._asked: set[int] = set()
        self.spares: Callable[[], set[int]] = set
        """Descendants of the supervisor that aren't members of its round."""

    def open(self) -> None:
        """Begins a round. Raises OSError if it can't be confined."""
        self._asked.clear()
        self._note({})

    def resume(self) -> None:
        """Begins a round with processes that were started earlier, after `open`."""
        self._asked.clear()

    def move(self, folder: str) -> None:
        """Records the supervisor's new folder. Files of the pool stay below it."""
        self._folder = f"{folder}/{WARM_POOL}" if self._is_for_pool else folder
        self._hold = f"{self._folder}/{_HOLD}"

    def for_warm_pool(self) -> Subreaper:
        """Returns a confinement of the same kind for the warm workers."""
        return type(self)(f"{self._folder}/{WARM_POOL}", self._marker)

    @property
    def holders(self) -> set[int]:
        """Processes that hold the members without being members."""
        return set()

    def variables(self) -> dict[str, str]:
        """Returns the variables for a rank's environment."""
        return {processes.MARKER: self._marker}

    def enter(self) -> None:
        """Confines the calling process, between fork and exec."""
        processes.die_with_parent(self._supervisor)

    def members(self) -> list[int]:
        """Returns all live processes of the round."""
        below = self._below()
        if self._adopts:
            return below
        return sorted({*below, *processes.marked(self._marker)} - self.spares())

    def _below(self) -> list[int]:
        below, spared = processes.descendants(self._supervisor), self.spares()
        return [pid for pid in below if pid not in spared]

    def ask(self, *, helpers: bool = False, spared: int = 0) -> None:
        """Sends SIGTERM once to each member, and continues stopped ones so that they can react.

        helpers: also to helpers of a Python program that gets SIGTERM itself (a data loader's workers). The program
        ends these itself: without them it could not save a checkpoint. spared: gets no signal, nor do its descendants,
        nor do programs that remove files that members share: they end by themselves after them. Where a rank is a
        scoring server, only scoring servers get a signal: each answers its requests, which may need its helpers, and
        then ends these.
        """
        members = [pid for pid in self.members() if pid not in self._asked and not processes.removes_files(pid)]
        if spared:
            kept = {spared, *processes.descendants(spared)}
            members = [pid for pid in members if pid not in kept]
        if not helpers:
            servers = [pid for pid in members if processes.is_scoring_server(pid, {self._supervisor})]
            members = servers or [pid for pid in members if not processes.is_helper(pid)]
        self._asked.update(members)
        processes.signal_all(members, signal.SIGTERM)
        processes.signal_all(members, signal.SIGCONT)

    def kill(self) -> None:
        """Sends SIGKILL to all members."""
        processes.signal_all(self.members(), signal.SIGKILL)

    def close(self, *, is_empty: bool = True) -> None:
        """Ends the round. is_empty: whether no member is left."""
        del is_empty
        with contextlib.suppress(OSError):
            os.unlink(self._hold)

    def _note(self, trace: dict[str, Any]) -> None:
        """Writes the record for `end_rest`. Not synced, because the processes don't outlive the machine either."""
        with open(self._hold, "w", encoding="utf-8") as file:
            json.dump({"way": self.way, **trace}, file)

    def _note_or_close(self, trace: dict[str, Any]) -> None:
        """Writes the record, or gives up the round: unrecorded processes could not be ended after the supervisor's
        death.
        """
        try:
            self._note(trace)
        except OSError:
            self.close()
            raise


class InNamespace(Subreaper):
    """Confines the round to a PID namespace: nothing leaves it, and all of it ends with the supervisor."""

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
    """Confines the round to a control group: nothing leaves it, and the next supervisor ends it by name."""

    way = "control group"
    _group: Group

    def open(self) -> None:
        super().open()
        self._group = Group(f"drumbeat-{self._marker.rpartition('#')[2]}{self._ending()}")
        self._note_or_close({"group": self._group.path})

    def _ending(self) -> str:
        return f"-{WARM_POOL}" if self._is_for_pool else ""

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
"""The ways of confinement, best first."""


def choose(folder: str, marker: str) -> Subreaper:
    """Returns the best way that works here, or the one in `DRUMBEAT_CONFINEMENT`. Raises OSError."""
    named = os.environ.get(VARIABLE)
    for name, way in WAYS.items():
        if named not in (None, "", name):
            continue
        try:
            return _tried(way(folder, marker))
        except OSError:
            if named:
                raise
    raise OSError(22, f"{VARIABLE}={named}: choose one of {', '.join(WAYS)}")


def _tried(way: Subreaper) -> Subreaper:
    way.open()
    way.close()
    return way


def end_rest(folder: str, reap: Callable[[], None] = lambda: None) -> list[int]:
    """Ends the processes that a dead supervisor of this folder left; returns those that can't be killed.

    reap: reaps the adopted children of this process meanwhile, without which a namespace doesn't end.
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
        # A namespace is gone when its first process is.
        processes.end_one(trace["first"], trace["birth"], reap)

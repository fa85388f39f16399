"""The launcher's own process on a node (mpirun, or what starts its daemon): no rank, but the ranks can't go without."""

from __future__ import annotations

import os
import selectors
import time
from collections.abc import Collection
from functools import partial
from typing import Any

from drumbeat.agent.ground import locks
from drumbeat.agent.keeper import ranks
from drumbeat.agent.keeper.confinement import Subreaper
from drumbeat.launch.hosts import DOOR

WAIT_S = 5.0
"""How long after the end of a launcher that failed its ranks have to end for reasons of their own."""

SAY_S = 1.0
"""How long a launcher may take to end when MPI has ended what it started."""
ENDED = "MPI has ended the job"


class Starter:
    """That of one round; there may be none. pid: 0 = it isn't running. is_gone: a signal has ended it.

    Has a rope to each rank's child, where the launcher lets it have one: its end says that MPI has ended the child.
    """

    def __init__(self, selector: selectors.BaseSelector) -> None:
        self.pid = 0
        self._selector = selector
        self._ropes: dict[int, int] = {}
        self._held, self._ended = set[int](), set[int]()
        self._ended_at = 0.0
        self._why, self.is_gone = "", False
        self._failed_at: float | None = None
        self._joins: dict[int, str] = {}
        self._role, self._is_door = "", False

    def start(self, wanted: dict[str, Any], todo: list[dict[str, Any]], confinement: Subreaper) -> None:
        """Begins with its ranks; one that can't be started has failed."""
        self._role, self._joins = wanted["role"], {rank["rank"]: rank["joins"] for rank in todo}
        self._is_door = self._role == DOOR
        try:
            self.pid = ranks.start(wanted, confinement)
        except OSError as error:
            if self._is_door:
                return
            self._fail(f"{self._role} can't be started: {error.strerror}")
            self._failed_at = time.monotonic() - WAIT_S

    def rope_to(self, rank: dict[str, Any]) -> int:
        """The rank's end of a rope, which the caller closes when the rank has it; -1 = it needs none."""
        if not rank.get("joins"):
            return -1
        here, there = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._ropes[here] = rank["rank"]
        self._selector.register(here, selectors.EVENT_READ, partial(self._feel, here))
        return there

    def _feel(self, rope: int) -> None:
        rank = self._ropes[rope]
        if os.read(rope, 16):
            self._held.add(rank)
            return
        self._let_go(rope)
        if rank in self._held:
            self._ended_at = self._ended_at or time.monotonic()
            self._ended.add(rank)

    def _let_go(self, rope: int) -> None:
        self._ropes.pop(rope)
        self._selector.unregister(rope)
        os.close(rope)

    def close(self) -> None:
        """The round is over."""
        for rope in list(self._ropes):
            self._let_go(rope)

    def end(self, code: int) -> None:
        """It has ended: by the negative of a signal's number, or with this exit code."""
        self.pid = 0
        if code and not self._is_door:
            how = f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
            self.is_gone = code < 0
            self._fail(f"{self._role} {how}")

    @property
    def door(self) -> int:
        """The pid of an open door, which the ranks can go without, and by which commands of other nodes come; 0 = none.

        It is told to stop as they are, passes that on to the commands, and goes when the last of them has ended.
        """
        return self.pid if self._is_door else 0

    def is_missed(self, now: float) -> bool:
        """Whether it has failed, and its ranks have had the time to end by themselves."""
        return self._failed_at is not None and now >= self._failed_at + WAIT_S

    def has_ended(self, ranks: Collection[int], now: float) -> bool:
        """Whether MPI has ended what stands for one of these ranks, which run: the launcher ends then, and says why."""
        return not self._ended.isdisjoint(ranks) and (not self.pid or now >= self._ended_at + SAY_S)

    def due_s(self, now: float) -> list[float]:
        """Seconds until it is missed."""
        due = [] if self._failed_at is None else [self._failed_at + WAIT_S - now]
        return [*due, self._ended_at + SAY_S - now] if self._ended and self.pid else due

    def part_in(self, rank: int, code: int, now: float) -> dict[str, Any]:
        """What its end has to do with that of a rank: `error` of one that never began, `launcher` of any other.

        A rank that ended well has not, when MPI had ended its child before: in MPICH, a rank that aborts waits to
        be killed, and goes on when nobody does it.
        """
        if code == 0:
            is_ended = _is_gone(self._joins.get(rank, ""))
            return {"code": 1, "launcher": self._why or ENDED} if is_ended else {}
        if rank in self._ended:
            return {"launcher": self._why or ENDED}
        if self._failed_at is None or not (self.is_gone or self.is_missed(now)):
            return {}
        return {"error" if _is_waiting(self._joins.get(rank, "")) else "launcher": self._why}

    def _fail(self, sentence: str) -> None:
        self._why, self._failed_at = sentence, time.monotonic()


def _is_waiting(joins: str) -> bool:
    """Whether no child has come to the rank: its socket is still there, or not yet."""
    return bool(joins) and (os.path.exists(joins) or not os.path.exists(_child(joins)))


def _is_gone(joins: str) -> bool:
    """Whether the child that comes to this socket has been there and has ended."""
    return bool(joins) and os.path.exists(_child(joins)) and not locks.is_held(_child(joins))


def _child(joins: str) -> str:
    """The lock that a child holds from its beginning to its end."""
    folder, _, name = joins.rpartition("/")
    return f"{folder}/{name.replace('.sock', '.child')}.lock"

"""The launcher's own process on a node (mpirun, or what starts its daemon): not a rank, but needed by the ranks."""

from __future__ import annotations

import os
import selectors
import time
from collections.abc import Collection, Sequence
from functools import partial
from typing import Any

from drumbeat.model.process import COMMAND_SERVER
from drumbeat.model.supervisor import ProcessStart
from drumbeat.node.platform import locks
from drumbeat.node.supervisor import rank_start
from drumbeat.node.supervisor.confinement import Subreaper

WAIT_S = 5.0
"""How long after a launcher's failure its ranks may still end for their own reasons."""

REPORT_S = 1.0
"""How long a launcher may take to end after MPI has ended its children."""
ENDED = "MPI has ended the job"


class Starter:
    """The launcher's own process of one round; there may be none.

    It keeps the read end of a liveness pipe for each rank that joins the launcher's child: the pipe closes when MPI has
    ended that child.
    """

    def __init__(self, selector: selectors.BaseSelector) -> None:
        self.pid = 0
        """The pid, 0 = it isn't running."""
        self._selector = selector
        self._pipes: dict[int, int] = {}
        """The rank of each read end."""
        self._attached, self._ended = set[int](), set[int]()
        self._ended_at = 0.0
        self._why = ""
        self.is_gone = False
        """Whether a signal ended it."""
        self._failed_at: float | None = None
        self._joins: dict[int, str] = {}
        self._role = ""
        self._is_command_server = False

    def start(self, process: ProcessStart, todo: Sequence[ProcessStart], confinement: Subreaper) -> None:
        """Starts the process after its ranks; an error counts as its failure."""
        self._role, self._joins = process.role, {rank.rank: rank.joins for rank in todo}
        self._is_command_server = self._role == COMMAND_SERVER
        try:
            self.pid = rank_start.start(process, confinement)
        except OSError as error:
            if self._is_command_server:
                return
            self._fail(f"{self._role} can't be started: {error.strerror}")
            self._failed_at = time.monotonic() - WAIT_S

    def open_pipe(self, rank: ProcessStart) -> int:
        """Returns the write end of the rank's liveness pipe, which the caller closes; -1 = the rank needs none."""
        if not rank.joins:
            return -1
        reader, writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._pipes[reader] = rank.rank
        self._selector.register(reader, selectors.EVENT_READ, partial(self._read, reader))
        return writer

    def _read(self, pipe: int) -> None:
        rank = self._pipes[pipe]
        if os.read(pipe, 16):
            self._attached.add(rank)
            return
        self._close_pipe(pipe)
        if rank in self._attached:
            self._ended_at = self._ended_at or time.monotonic()
            self._ended.add(rank)

    def _close_pipe(self, pipe: int) -> None:
        self._pipes.pop(pipe)
        self._selector.unregister(pipe)
        os.close(pipe)

    def close(self) -> None:
        """Closes the pipes at the end of the round."""
        for pipe in list(self._pipes):
            self._close_pipe(pipe)

    def end(self, code: int) -> None:
        """Records its end. code: the exit code, or the negative signal number."""
        self.pid = 0
        if code and not self._is_command_server:
            how = f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
            self.is_gone = code < 0
            self._fail(f"{self._role} {how}")

    @property
    def command_server(self) -> int:
        """The pid of a command server, which receives commands of other nodes; 0 = none. The ranks don't need it.

        It gets SIGTERM with the ranks, passes it on to the commands, and ends with the last of them.
        """
        return self.pid if self._is_command_server else 0

    def is_missed(self, now: float) -> bool:
        """Whether it has failed and its ranks have had the time to end by themselves."""
        return self._failed_at is not None and now >= self._failed_at + WAIT_S

    def has_ended(self, ranks: Collection[int], now: float) -> bool:
        """Whether MPI has ended the child of a running rank: then the launcher ends, too, with the reason."""
        return not self._ended.isdisjoint(ranks) and (not self.pid or now >= self._ended_at + REPORT_S)

    def due_s(self, now: float) -> list[float]:
        """Seconds until `is_missed` or `has_ended` may change."""
        due = [] if self._failed_at is None else [self._failed_at + WAIT_S - now]
        return [*due, self._ended_at + REPORT_S - now] if self._ended and self.pid else due

    def part_in(self, rank: int, code: int, now: float) -> dict[str, Any]:
        """Returns the fields of a rank's exit that this process's end changes.

        These are `error` for a rank that never began, and `launcher` for others. A rank that ended with 0 is only
        affected if MPI had ended its child before: under MPICH, a rank that aborts waits to be killed, and continues if
        it isn't.
        """
        if code == 0:
            is_ended = _is_gone(self._joins.get(rank, ""))
            return {"code": 1, "launcher": self._why or ENDED} if is_ended else {}
        if rank in self._ended:
            return {"launcher": self._why or ENDED}
        if self._failed_at is None or not (self.is_gone or self.is_missed(now)):
            return {}
        return {"error" if _is_waiting(self._joins.get(rank, "")) else "launcher": self._why}

    def _fail(self, message: str) -> None:
        self._why, self._failed_at = message, time.monotonic()


def _is_waiting(joins: str) -> bool:
    """Whether no child has connected to the rank: its socket still exists, or doesn't exist yet."""
    return bool(joins) and (os.path.exists(joins) or not os.path.exists(_child(joins)))


def _is_gone(joins: str) -> bool:
    """Whether the child that connects to this socket has begun and ended."""
    return bool(joins) and os.path.exists(_child(joins)) and not locks.is_held(_child(joins))


def _child(joins: str) -> str:
    """Returns the lock that a child holds from its start to its end."""
    folder, _, name = joins.rpartition("/")
    return f"{folder}/{name.replace('.sock', '.child')}.lock"

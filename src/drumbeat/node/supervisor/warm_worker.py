"""One warm worker: a rank's command that is started and held before its first line until the next round."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import socket
from collections.abc import Generator
from dataclasses import replace
from typing import Any

from drumbeat.model.process import is_scrubbed
from drumbeat.model.supervisor import ProcessStart, WarmPoolOrder
from drumbeat.node.host import processes
from drumbeat.node.supervisor import rank_start
from drumbeat.node.supervisor.confinement import Subreaper

VARIABLE = "DRUMBEAT_STANDBY"
"""The variable with the number of the warm worker's socket (`warm_worker_hook`)."""
_LATE = ("MASTER_ADDR", "MASTER_PORT")
"""Variables that a warm worker only gets with its round: the current round's would be wrong for it."""
LOW_PRIORITY = 5
"""The increment of a warm worker's nice value while it is prepared: it gets a third of a rank's share."""
_CAPABILITY_TO_RAISE = 23
"""CAP_SYS_NICE (capabilities(7))."""
_HOOK, _SITE = "warm_worker_hook.py", "sitecustomize.py"
_BEGINNING = """\
# Part of drumbeat: holds a warm worker until its round begins (docs/warm-start.md). Any Python can read this file.
import os
import sys

here = os.path.dirname(os.path.abspath(__file__))
if "DRUMBEAT_STANDBY" in os.environ:
    try:
        if sys.version_info < (3, 8):
            raise ImportError("too old")
        import warm_worker_hook

        warm_worker_hook.main(here)
    except BaseException:
        os._exit(0)  # The script must not run: this is no rank.
sys.path[:] = [folder for folder in sys.path if folder != here]
# The job's own sitecustomize, if it has one. If not, the ImportError is what `site` expects then.
del sys.modules["sitecustomize"]
__import__("sitecustomize")
"""
_ANSWER_BYTES = 4096
_BEGUN = b"begun\n"
"""The first answer of a warm worker, before it imports anything."""
_FOLLOW_TIMEOUT_S = 2.0
"""How long a warm worker may take to check the script of another job."""


class WarmWorker:
    """One warm worker: started → begun → ready → a rank, or refused → gone."""

    def __init__(self, rank: ProcessStart, confinement: Subreaper, folder: str, *, outlives: bool = False) -> None:
        """Starts the warm worker. folder: the pool's, below the supervisor's, below the attempt's. Raises OSError.

        outlives: it may become a rank of another job, so it must not count as part of this one's gang.
        """
        self.rank = rank
        self.root = os.path.dirname(os.path.dirname(folder))
        """The attempt's folder in which it started."""
        self.has_begun, self.is_ready = False, False
        """Whether it has read what it needs from the attempt's folder, and whether it can become a rank."""
        self.refusal = ""
        """Why it can't replace a fresh interpreter."""
        self._unread = b""
        self._priority = os.getpriority(os.PRIO_PROCESS, 0) if _can_raise() else None
        self._supervisor, interpreters = socket.socketpair()
        self._supervisor.setblocking(False)  # noqa: FBT003 (its only spelling)
        with interpreters:
            self._begun_with = first_variables(rank, outlives=outlives)
            start = replace(rank, log=f"{folder}/{rank.rank}.log", env=with_hook(self._begun_with, folder))
            with contextlib.suppress(FileNotFoundError):
                os.unlink(start.log)  # The output of an earlier warm worker.
            self.pid = rank_start.start(start, confinement, {VARIABLE: interpreters.fileno()})
        if self._priority is not None:
            with contextlib.suppress(OSError):
                os.setpriority(os.PRIO_PROCESS, self.pid, self._priority + LOW_PRIORITY)

    def fileno(self) -> int:
        """Returns the file that is readable when `read` has work."""
        return self._supervisor.fileno()

    def read(self) -> bool:
        """Reads the warm worker's answers; returns whether the last one is still missing."""
        try:
            piece = self._supervisor.recv(_ANSWER_BYTES)
        except BlockingIOError:
            return True
        except OSError:
            piece = b""
        self._unread += piece
        if self._unread.startswith(_BEGUN):
            self.has_begun, self._unread = True, self._unread[len(_BEGUN) :]
        answer, newline, _ = self._unread.partition(b"\n")
        if not newline and piece:
            return True
        if answer == b"ready" and newline:
            self.is_ready = True
        else:
            self.refusal = answer.decode(errors="replace") or "the interpreter ended while torch was imported"
        return False

    def difference(self, rank: ProcessStart, order: WarmPoolOrder, root: str) -> str:
        """Returns why it can't become this rank of the next round, "" = it can. root: the current folder of the
        attempt.

        Paths in the attempt's folder are compared relative to it, as a later job's is another one.
        """

        def moved(text: str) -> str:
            return text.replace(self.root, root)

        if (rank.argv, rank.cwd, rank.joins) != (self.rank.argv, moved(self.rank.cwd), self.rank.joins):
            return "the command of the ranks has changed"
        for name in sorted({*rank.env, *self.rank.env}):
            begun_with = self._begun_with.get(name)
            if rank.env.get(name) == (begun_with and moved(begun_with)):
                continue
            if not is_scrubbed(name, order.per_round):
                return f"{name} differs from the previous round"
            if name in order.fixed:
                return f"the command uses ${name}, which changes with each round"
        return ""

    def follow(self, root: str) -> str:
        """Moves it to the folder of another attempt; returns why it can't replace a fresh interpreter there, "" = it
        can.

        Its script may have changed.
        """
        try:
            with _order_file({"old": self.root, "new": root}) as message:
                socket.send_fds(self._supervisor, [b"m"], [message])
            self._supervisor.settimeout(_FOLLOW_TIMEOUT_S)
            answer = self._supervisor.recv(_ANSWER_BYTES)
        except OSError as error:
            return f"a warm worker doesn't answer: {error.strerror or error}"
        self.root = root
        return "" if answer == b"ready\n" else answer.decode(errors="replace").strip() or "a warm worker ended"

    def go(self, rank: ProcessStart) -> int:
        """Turns it into the rank; returns its pid. Raises OSError."""
        changed = {name: value for name, value in rank.env.items() if self._begun_with.get(name) != value}
        order = {
            "set": changed,
            "unset": [name for name in self._begun_with if name not in rank.env],
            "priority": self._priority,
        }
        log = rank_start.open_log(rank.log)
        try:
            with _order_file(order) as message:
                socket.send_fds(self._supervisor, [b"g"], [log, message])
        finally:
            os.close(log)
            self._supervisor.close()
        return self.pid

    def end(self) -> None:
        """Kills it and its children, without waiting."""
        processes.signal_all([*processes.descendants(self.pid), self.pid], 9)
        self._supervisor.close()


def first_variables(rank: ProcessStart, *, outlives: bool) -> dict[str, str]:
    """Returns the variables of a rank with which its warm worker starts. outlives: as for `WarmWorker`."""
    late = (*_LATE, processes.GANG, processes.OUTPUT) if outlives else _LATE
    return {name: value for name, value in rank.env.items() if name not in late}


@contextlib.contextmanager
def _order_file(content: dict[str, Any]) -> Generator[int]:
    """An open file with an order to a warm worker, whose socket can't hold all variables."""
    message = os.memfd_create("order")
    try:
        os.write(message, json.dumps(content).encode())
        yield message
    finally:
        os.close(message)


def write_hook(folder: str) -> None:
    """Writes the module that warm workers import at their start. Raises OSError."""
    import pkgutil  # Imported here, because a supervisor without warm workers starts faster without it.

    hook = pkgutil.get_data("drumbeat.node.supervisor", _HOOK) or b""
    os.makedirs(folder, mode=0o700, exist_ok=True)
    for name, content in ((_HOOK, hook), (_SITE, _BEGINNING.encode())):
        with open(f"{folder}/{name}", "wb") as file:
            file.write(content)


def with_hook(environment: dict[str, str], folder: str) -> dict[str, str]:
    """Returns the variables with which an interpreter imports the hook."""
    path = environment.get("PYTHONPATH", "")
    return {**environment, "PYTHONPATH": f"{folder}:{path}" if path else folder}


def _can_raise() -> bool:
    """Whether a process of this user may raise its priority again (setpriority(2))."""
    own = os.getpriority(os.PRIO_PROCESS, 0)
    soft, _ = resource.getrlimit(resource.RLIMIT_NICE)
    if soft == resource.RLIM_INFINITY or 20 - soft <= own:
        return True
    with contextlib.suppress(OSError), open("/proc/self/status", encoding="utf-8") as file:
        for line in file:
            if line.startswith("CapEff:"):
                return bool(int(line.split()[1], 16) >> _CAPABILITY_TO_RAISE & 1)
    return False

"""One warm worker: the command of a rank, begun and held before its first line until the next round."""

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
"""The variable that tells the interpreter the number of its socket (`warm_worker_hook`)."""
_LATE = ("MASTER_ADDR", "MASTER_PORT")
"""Variables that an interpreter gets with its round: without them it could not meet the ranks of the present one."""
LOW_PRIORITY = 5
"""What is added to the nice value of an interpreter that is being prepared: it gets a third of a rank's share."""
_CAPABILITY_TO_RAISE = 23
"""CAP_SYS_NICE (capabilities(7))."""
_HOOK, _SITE = "warm_worker_hook.py", "sitecustomize.py"
_BEGINNING = """\
# Of drumbeat: holds a warm worker until its round begins (docs/warm-start.md). Any Python can read this file.
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
"""The first answer of an interpreter, before it imports anything."""
_FOLLOW_TIMEOUT_S = 2.0
"""How long an interpreter may take to look at the script of another job."""


class WarmWorker:
    """One interpreter: started → begun → ready → a rank, or refused → gone."""

    def __init__(self, rank: ProcessStart, confinement: Subreaper, folder: str, *, outlives: bool = False) -> None:
        """Starts it. folder: of the pool, in the supervisor's, in the attempt's. Raises OSError.

        outlives: it may become a rank of another job, so it isn't to look like a part of this one's gang.
        """
        self.rank = rank
        self.root = os.path.dirname(os.path.dirname(folder))
        """The attempt's folder in which it began."""
        self.has_begun, self.is_ready = False, False
        """Whether it has read what it needs of the attempt's folder, and whether it can become a rank."""
        self.refusal = ""
        """Why it can't stand in for a fresh interpreter."""
        self._unread = b""
        self._priority = os.getpriority(os.PRIO_PROCESS, 0) if _can_raise() else None
        self._supervisor, interpreters = socket.socketpair()
        self._supervisor.setblocking(False)  # noqa: FBT003 (its only spelling)
        with interpreters:
            self._begun_with = first_variables(rank, outlives=outlives)
            start = replace(rank, log=f"{folder}/{rank.rank}.log", env=with_hook(self._begun_with, folder))
            with contextlib.suppress(FileNotFoundError):
                os.unlink(start.log)  # What an earlier one printed.
            self.pid = rank_start.start(start, confinement, {VARIABLE: interpreters.fileno()})
        if self._priority is not None:
            with contextlib.suppress(OSError):
                os.setpriority(os.PRIO_PROCESS, self.pid, self._priority + LOW_PRIORITY)

    def fileno(self) -> int:
        """Returns the file that is readable when `read` has something to do."""
        return self._supervisor.fileno()

    def read(self) -> bool:
        """Takes the interpreter's answers; returns whether the last one is missing yet."""
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
        """Returns why it can't become this rank of the next round, "" = it can. root: the attempt's folder now.

        A path in the attempt's folder may be the same path in that of a later job.
        """

        def moved(text: str) -> str:
            return text.replace(self.root, root)

        if (rank.argv, rank.cwd, rank.joins) != (self.rank.argv, moved(self.rank.cwd), self.rank.joins):
            return "the command of the ranks is another one"
        for name in sorted({*rank.env, *self.rank.env}):
            begun_with = self._begun_with.get(name)
            if rank.env.get(name) == (begun_with and moved(begun_with)):
                continue
            if not is_scrubbed(name, order.per_round):
                return f"{name} has another value than in the round before"
            if name in order.fixed:
                return f"the command uses ${name}, which is another one in each round"
        return ""

    def follow(self, root: str) -> str:
        """Moves it to the folder of another attempt; returns why it can't stand in for a fresh one there, "" = it can.

        Its script may be another one by now.
        """
        try:
            with _letter({"old": self.root, "new": root}) as letter:
                socket.send_fds(self._supervisor, [b"m"], [letter])
            self._supervisor.settimeout(_FOLLOW_TIMEOUT_S)
            answer = self._supervisor.recv(_ANSWER_BYTES)
        except OSError as error:
            return f"a warm worker doesn't answer: {error.strerror or error}"
        self.root = root
        return "" if answer == b"ready\n" else answer.decode(errors="replace").strip() or "a warm worker ended"

    def go(self, rank: ProcessStart) -> int:
        """Makes it the rank; returns its pid. Raises OSError."""
        changed = {name: value for name, value in rank.env.items() if self._begun_with.get(name) != value}
        order = {
            "set": changed,
            "unset": [name for name in self._begun_with if name not in rank.env],
            "priority": self._priority,
        }
        log = rank_start.open_log(rank.log)
        try:
            with _letter(order) as letter:
                socket.send_fds(self._supervisor, [b"g"], [log, letter])
        finally:
            os.close(log)
            self._supervisor.close()
        return self.pid

    def end(self) -> None:
        """Kills it and all that it started. It isn't waited for."""
        processes.signal_all([*processes.descendants(self.pid), self.pid], 9)
        self._supervisor.close()


def first_variables(rank: ProcessStart, *, outlives: bool) -> dict[str, str]:
    """Returns the variables of a rank with which its interpreter begins. outlives: as for `WarmWorker`."""
    late = (*_LATE, processes.GANG, processes.OUTPUT) if outlives else _LATE
    return {name: value for name, value in rank.env.items() if name not in late}


@contextlib.contextmanager
def _letter(content: dict[str, Any]) -> Generator[int]:
    """An open file with what an interpreter is to know, for its socket has no room for all variables."""
    letter = os.memfd_create("letter")
    try:
        os.write(letter, json.dumps(content).encode())
        yield letter
    finally:
        os.close(letter)


def write_hook(folder: str) -> None:
    """Writes the module that interpreters import at their start. Raises OSError."""
    import pkgutil  # Later: a supervisor that prepares nothing starts faster without it.

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
    """Whether a process of this user may leave a low priority again (setpriority(2))."""
    own = os.getpriority(os.PRIO_PROCESS, 0)
    soft, _ = resource.getrlimit(resource.RLIMIT_NICE)
    if soft == resource.RLIM_INFINITY or 20 - soft <= own:
        return True
    with contextlib.suppress(OSError), open("/proc/self/status", encoding="utf-8") as file:
        for line in file:
            if line.startswith("CapEff:"):
                return bool(int(line.split()[1], 16) >> _CAPABILITY_TO_RAISE & 1)
    return False

"""The agent's side of its keeper: starts it, finds it again, tells it what to do, hears how the ranks are."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

from drumbeat.agent.ground import children
from drumbeat.agent.ground.backoff import Backoff
from drumbeat.agent.ground.journal import Journal
from drumbeat.agent.keeper import listener
from drumbeat.agent.keeper.confinement import VARIABLE, end_rest
from drumbeat.host import processes
from drumbeat.host.program import program
from drumbeat.protocol import programs
from drumbeat.protocol.errors import EngineError
from drumbeat.protocol.process import ProcessSpec

_READ = 1 << 18
_LOOK_S, _LOOKS = 0.005, 12_000
"""How often a keeper that comes up is looked for. By number: while this machine stands still, nobody comes up."""
_LEAVE_S = 15.0
_PING_S = 1.0
_SILENT_S = 30.0
_STOPPED_S = 3.0
"""How long a keeper may leave pings unanswered: one that is at work but slow, and one that was stopped (SIGSTOP)."""

Message = dict[str, Any]


def rank_message(each: ProcessSpec, root: str) -> Message:
    """What a keeper must know to start a rank: it has no word for anything but files, arguments and variables."""
    joining = [*program(programs.MPI_RANK), each.joins] if each.joins else []
    serving = [*program(programs.HOROVOD_RENDEZVOUS), *each.rendezvous.split()] if each.rendezvous else []
    return {
        "rank": each.rank,
        "role": each.role,
        "joins": each.joins,
        "argv": [*serving, *joining, *each.argv],
        "cwd": each.cwd,
        "log": f"{root}/{each.log}",
        "env": each.environment(os.environ),
    }


class Keeping:
    """Hands every state that the keeper tells to `hear`, and a sentence to `complain` while there is no keeper.

    What the keeper was told is told again to each connection: a keeper does nothing twice. confinement: the way in
    which it holds its ranks (`agent.holding.confinement.WAYS`), "" = the best one.
    """

    def __init__(
        self,
        folder: str,
        journal: Journal,
        hear: Callable[[Message], None],
        complain: Callable[[str], None],
        *,
        confinement: str = "",
    ) -> None:
        self._folder, self._journal = folder, journal
        self.spared: Callable[[], set[int]] = set
        """Processes of the agent's that aren't a keeper's to begin with."""
        self._hear, self._complain = hear, complain
        self._environment = {**os.environ, **({VARIABLE: confinement} if confinement else {})}
        self._wants: dict[str, Message] = {}
        self._line: socket.socket | None = None
        self._lock = threading.Lock()
        self._silent_s = self._stopped_s = 0.0
        """How long the keeper was asked in vain. By no clock: when this agent stood still, nobody was asked."""
        self._child = 0
        self._pid = 0
        self._starting = threading.Lock()
        """Held from the look whether a keeper is wanted until it is there."""
        self._closing = False

    def begin(self, *, lost_after_s: float, grace_s: float) -> None:
        """Has a keeper from now on."""
        self._tell({"do": "patience", "lost_after_s": lost_after_s, "grace_s": grace_s})
        threading.Thread(target=self._follow, name="keeping", daemon=True).start()

    def start(self, number: int, ranks: list[Message], starter: Message | None = None) -> None:
        """Starts the ranks of a round, and the launcher's own process beside them."""
        with self._lock:
            self._wants.pop("stop", None)
        self._tell({"do": "start", "round": number, "ranks": ranks, "starter": starter})

    def cancel(self) -> None:
        """Doesn't start what no keeper has been told of yet."""
        with self._lock:
            self._wants.pop("start", None)

    def stop(self, number: int, grace_s: float) -> None:
        """SIGTERM to all of the round now, SIGKILL after the grace time."""
        self._tell({"do": "stop", "round": number, "grace_s": grace_s})

    def leave(self, grace_s: float) -> None:
        """Ends the keeper and everything that it holds; returns when it is gone."""
        with self._starting:
            self._closing = True
        self._tell({"do": "leave", "grace_s": grace_s})
        deadline = time.monotonic() + grace_s + _LEAVE_S
        while self._lives() and time.monotonic() < deadline:
            time.sleep(0.01)
        if self._lives() and self._pid:
            self._journal.note(f"the keeper (pid {self._pid}) doesn't leave: it is killed")
            self._end_keeper()

    def _tell(self, message: Message) -> None:
        with self._lock:
            self._wants[message["do"]] = message
            self._send(message)

    def _send(self, message: Message) -> bool:
        """To the keeper, should there be a line. One that takes no more is given up: the next is told everything."""
        if self._line is None:
            return False
        try:
            self._line.sendall(listener.encode(message))
        except OSError:
            with contextlib.suppress(OSError):
                self._line.shutdown(socket.SHUT_RDWR)
            self._line = None
            return False
        return True

    def _lives(self) -> bool:
        self._reap()
        return self._child != 0 or listener.is_held(self._folder)

    def _follow(self) -> None:
        backoff, is_missed = Backoff(), False
        while True:
            try:
                line = self._meet()
            except (EngineError, OSError) as error:
                self._journal.note(str(error))
                self._complain(str(error))
                is_missed = True
                backoff.wait()
                continue
            if is_missed:
                self._complain("")
            is_missed = False
            backoff.reset()
            self._listen(line)
            self._journal.note("the keeper's line is down")

    def _listen(self, line: socket.socket) -> None:
        line.settimeout(_PING_S)
        with line:
            self._pid = listener.peer(line)
            with self._lock:
                self._line = line
                is_told = all(self._send(message) for message in self._wants.values())
            with contextlib.suppress(OSError):
                self._hear_all(line)
            with self._lock:
                self._line = None
        if not is_told:
            self._ask_whether_it_lives()

    def _hear_all(self, line: socket.socket) -> None:
        """Until the line is down, or nothing has been heard for too long in spite of pings."""
        read = b""
        while True:
            try:
                piece = line.recv(_READ)
            except TimeoutError:
                self._ask_whether_it_lives()
                continue
            if not piece:
                return
            self._silent_s = self._stopped_s = 0.0
            *texts, read = (read + piece).split(b"\n")
            for text in texts:
                state = json.loads(text)
                self._pid = state["pid"]
                self._hear(state)

    def _ask_whether_it_lives(self) -> None:
        """A keeper that was stopped is woken; one that stays silent is ended, and the round is lost."""
        self._silent_s += _PING_S
        is_stopped = processes.is_stopped(self._pid)
        self._stopped_s = self._stopped_s + _PING_S if is_stopped else 0.0
        if self._stopped_s > _STOPPED_S or self._silent_s > _SILENT_S:
            silent = f"has said nothing for {self._silent_s:.0f} s"
            self._journal.note(f"the keeper (pid {self._pid}) {silent}: it is killed")
            self._end_keeper()
        elif is_stopped:
            self._journal.note(f"the keeper (pid {self._pid}) was stopped: it is woken")
            processes.signal_all([self._pid], signal.SIGCONT)
        with self._lock:
            self._send({"do": "ping"})

    def _end_keeper(self) -> None:
        processes.signal_all([self._pid], signal.SIGKILL)
        end_rest(self._folder, self._reap)

    def _meet(self) -> socket.socket:
        """A line to the keeper; one is started when there is none. Raises EngineError when it doesn't come up."""
        started = 0
        for _ in range(_LOOKS):
            with contextlib.suppress(OSError):
                return listener.connect(self._folder)
            with self._starting:
                if not self._closing and not self._lives():
                    if started == 3:
                        break
                    self._start_keeper()
                    started += 1
            time.sleep(_LOOK_S)
        raise EngineError(
            "the keeper doesn't come up",
            where=self._folder,
            fix=f"What it said is in {self._folder}/keeper.log",
        )

    def _start_keeper(self) -> None:
        # What a keeper that died had started has fallen to this process: it must be gone before the next one counts.
        with children.unchanged() as own:
            below = processes.descendants(os.getpid())  # First: what is spared may start others meanwhile.
            spared = {*own, *self.spared()}
            spared |= {one for pid in spared for one in processes.descendants(pid)}
            left = [pid for pid in below if pid not in spared]
            processes.signal_all(left, signal.SIGKILL)
        # What can't be killed is the host's to tell of, and keeps the slots; the new keeper tells of a lost round.
        end_rest(self._folder, self._reap)
        log = f"{self._folder}/keeper.log"
        command = [*program(programs.KEEPER), self._folder]
        self._child = os.posix_spawn(
            command[0],
            command,
            self._environment,
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
                (os.POSIX_SPAWN_OPEN, 1, log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600),
                (os.POSIX_SPAWN_DUP2, 1, 2),
            ],
            setsid=True,
        )
        self._silent_s = self._stopped_s = 0.0
        self._journal.note(f"keeper started, pid {self._child}")

    def _reap(self) -> None:
        """Takes ended children: the keeper, and what fell to this process when a keeper died.

        Who started another one waits for it, and would take its exit code for 0 if it were gone.
        """
        with children.unchanged() as own:
            while True:
                try:
                    ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
                    if ended is None or ended.si_pid in own:
                        return  # What comes behind it is seen at the next look.
                    os.waitpid(ended.si_pid, 0)
                except ChildProcessError:
                    self._child = 0
                    return
                if ended.si_pid == self._child:
                    self._child = 0

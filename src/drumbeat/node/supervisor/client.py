"""The agent's side of its supervisor: starts it or finds it, sends it requests, receives its state."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import threading
import time
from collections.abc import Callable

from drumbeat.model import programs
from drumbeat.model.errors import ConflictError, EngineError
from drumbeat.model.process import ProcessSpec
from drumbeat.model.supervisor import (
    Adopt,
    LeaveNode,
    Probe,
    ProcessStart,
    Retire,
    SessionStart,
    StartRound,
    StartSessions,
    StopRound,
    SupervisorRequest,
    SupervisorState,
    SupervisorTimeouts,
    decode_state,
    encode_request,
)
from drumbeat.node.host import processes
from drumbeat.node.host.own_programs import program
from drumbeat.node.platform import child_processes
from drumbeat.node.platform.agent_log import Journal
from drumbeat.node.platform.request_backoff import Backoff
from drumbeat.node.supervisor import listener
from drumbeat.node.supervisor.confinement import VARIABLE, end_rest

_READ_BYTES = 1 << 18
_CONNECT_INTERVAL_S, _MAX_CONNECTS = 0.005, 12_000
"""How often the agent tries to reach a starting supervisor. A count, because a suspended machine makes no progress."""
_MAX_STARTS = 3
_LEAVE_TIMEOUT_S = 15.0
_HANDOVER_TIMEOUT_S = 60.0
"""How long a supervisor waits for the agent of the next job."""
_PING_INTERVAL_S = 1.0
_SILENCE_TIMEOUT_S = 30.0
_STOPPED_TIMEOUT_S = 3.0
"""How long a supervisor may leave pings unanswered: a slow one, and a stopped one (SIGSTOP)."""


def process_start(spec: ProcessSpec, root: str) -> ProcessStart:
    """Returns the description by which a supervisor starts a process in this attempt's folder."""
    joining = [*program(programs.MPI_RANK), spec.joins] if spec.joins else []
    serving = [*program(programs.HOROVOD_RENDEZVOUS), *spec.rendezvous.split()] if spec.rendezvous else []
    return ProcessStart(
        argv=(*serving, *joining, *spec.argv),
        cwd=spec.cwd,
        log=f"{root}/{spec.log}",
        env=spec.environment(os.environ),
        rank=spec.rank,
        role=spec.role,
        joins=spec.joins,
    )


class SupervisorClient:
    """Keeps one supervisor running in `folder` and passes each of its states to `on_state`.

    Every new connection gets all requests again, as requests are idempotent. `on_failure` gets a message while no
    supervisor can be started, "" when one runs again. confinement: how it holds its ranks (`confinement.WAYS`), "" =
    the best that the machine allows.
    """

    def __init__(
        self,
        folder: str,
        journal: Journal,
        on_state: Callable[[SupervisorState], None],
        on_failure: Callable[[str], None],
        *,
        confinement: str = "",
    ) -> None:
        self._folder, self._journal = folder, journal
        self.claim: Callable[[str], bool] | None = None
        """Moves a spare supervisor into the folder, and returns whether there was one; None = spare supervisors aren't
        used.
        """
        self.spared: Callable[[], set[int]] = set
        """The agent's processes that don't belong to a supervisor."""
        self._on_state, self._on_failure = on_state, on_failure
        self._confinement = confinement
        self._requests: dict[type[SupervisorRequest], SupervisorRequest] = {}
        """The last request of each kind, in order of the kinds' first use."""
        self._connection: socket.socket | None = None
        self._lock = threading.Lock()
        self._silent_s = self._stopped_s = 0.0
        """How long pings have been unanswered. Counted in pings, because a suspended agent sends none."""
        self._child = 0
        """The supervisor's pid, if this process has started it and it hasn't ended."""
        self._pid = 0
        self._state = SupervisorState(0, -1)
        self._starting = threading.Lock()
        """Held from the check whether a supervisor is needed until it has started."""
        self._closing = self._is_retiring = self._has_claimed = self._is_over = False

    @property
    def pid(self) -> int:
        """The supervisor's pid, 0 = no living one is known."""
        return self._pid

    def begin(self, *, lost_after_s: float, grace_s: float) -> None:
        """Starts to keep a supervisor running."""
        # First: an earlier agent may have moved a spare supervisor here without connecting to it.
        self._request(Adopt(self._folder))
        self._request(SupervisorTimeouts(lost_after_s, grace_s))
        self._begin()

    def _begin(self) -> None:
        threading.Thread(target=self._follow, name="supervisor", daemon=True).start()

    @property
    def state(self) -> SupervisorState:
        """The last state that the supervisor sent."""
        return self._state

    def start(self, request: StartRound) -> None:
        """Starts the ranks and sidecars of a round; then prepares the next round."""
        with self._lock:
            self._requests.pop(StopRound, None)
            self._requests.pop(StartSessions, None)
        self._request(request)

    def start_session(self, session: SessionStart) -> None:
        """Starts a command beside a rank of the current round. Raises ConflictError if the rank doesn't run."""
        state = self._state
        if session.rank not in state.running or state.stopping:
            raise ConflictError(f"rank {session.rank} isn't running")
        with self._lock:
            before = self._requests.get(StartSessions)
            sessions = before.sessions if isinstance(before, StartSessions) and before.round == state.round else ()
            kept = [one for one in sessions if one.id in state.sidecars]
            self._requests[StartSessions] = request = StartSessions(state.round, (*kept, session))
            self._send(request)

    def cancel(self) -> None:
        """Withdraws a start that no supervisor has received yet."""
        with self._lock:
            self._requests.pop(StartRound, None)

    def stop(self, number: int, grace_s: float) -> None:
        """Sends SIGTERM to the round's processes now, and SIGKILL after the grace time."""
        self._request(StopRound(number, grace_s))

    def retire(self, folder: str, idle_s: float) -> None:
        """Makes the supervisor wait in another folder after `leave`, if it has warm workers."""
        self._is_retiring = True
        self._request(Retire(folder, idle_s))

    def hand_over(self, folder: str) -> None:
        """Makes the supervisor wait, after `leave`, in another folder for the agent of the next job on the node."""
        self._is_retiring = True
        self._request(Retire(folder, _HANDOVER_TIMEOUT_S, is_handover=True))

    def leave(self, grace_s: float) -> None:
        """Ends the supervisor and all its processes; returns when it is gone."""
        self._ask_to_leave(grace_s)
        deadline = time.monotonic() + grace_s + _LEAVE_TIMEOUT_S
        while self._lives() and time.monotonic() < deadline:
            time.sleep(0.01)
        if self._lives() and self._pid:
            self._journal.note(f"the supervisor (pid {self._pid}) doesn't leave; killing it")
            self._end_supervisor()

    def close(self) -> None:
        """Ends the thread that follows the supervisor, which this agent has nothing more to do with."""
        with self._lock:
            self._is_over = True
            if self._connection is not None:
                with contextlib.suppress(OSError):
                    self._connection.shutdown(socket.SHUT_RDWR)

    def _ask_to_leave(self, grace_s: float) -> None:
        with self._starting:
            self._closing = True
        self._request(LeaveNode(grace_s))

    def _request(self, request: SupervisorRequest) -> None:
        with self._lock:
            self._requests[type(request)] = request
            self._send(request)

    def _send(self, request: SupervisorRequest) -> bool:
        """Sends a request over the connection, if there is one. A failing connection is closed: the next one gets all
        requests.
        """
        if self._connection is None:
            return False
        try:
            self._connection.sendall(encode_request(request))
        except OSError:
            with contextlib.suppress(OSError):
                self._connection.shutdown(socket.SHUT_RDWR)
            self._connection = None
            return False
        return True

    def _lives(self) -> bool:
        self._reap()
        if self._is_retiring and not os.path.exists(f"{self._folder}/{listener.LOCK}"):
            return False  # It continues elsewhere.
        return self._child != 0 or listener.is_held(self._folder)

    def _follow(self) -> None:
        backoff, has_failed = Backoff(), False
        while not self._is_over:
            try:
                connection = self._connect()
            except (EngineError, OSError) as error:
                if self._is_over:
                    return
                self._journal.note(str(error))
                self._on_failure(str(error))
                has_failed = True
                backoff.wait()
                continue
            if has_failed:
                self._on_failure("")
            has_failed = False
            backoff.reset()
            self._serve(connection)
            self._journal.note("the connection to the supervisor is closed")

    def _serve(self, connection: socket.socket) -> None:
        connection.settimeout(_PING_INTERVAL_S)
        with connection:
            self._pid = listener.peer(connection)
            has_sent = self._open(connection)
            with contextlib.suppress(OSError):
                self._receive(connection)
            with self._lock:
                self._connection = None
        if not has_sent:
            self._check_alive()

    def _open(self, connection: socket.socket) -> bool:
        """Sends all requests over a new connection; returns whether they went out."""
        with self._lock:
            self._connection = connection
            return all(self._send(request) for request in self._requests.values())

    def _receive(self, connection: socket.socket) -> None:
        """Passes on states until the connection closes or the supervisor has been silent for too long."""
        unread = b""
        while True:
            try:
                piece = connection.recv(_READ_BYTES)
            except TimeoutError:
                self._check_alive()
                continue
            if not piece:
                return
            self._silent_s = self._stopped_s = 0.0
            *lines, unread = (unread + piece).split(b"\n")
            for line in lines:
                self._take(line)

    def _take(self, line: bytes) -> None:
        state = decode_state(line)
        self._pid, self._state = state.pid, state
        self._on_state(state)

    def _check_alive(self) -> None:
        """Pings the supervisor. A stopped one is continued; a silent one is killed, and the round is lost."""
        self._silent_s += _PING_INTERVAL_S
        is_stopped = processes.is_stopped(self._pid)
        self._stopped_s = self._stopped_s + _PING_INTERVAL_S if is_stopped else 0.0
        if self._stopped_s > _STOPPED_TIMEOUT_S or self._silent_s > _SILENCE_TIMEOUT_S:
            self._journal.note(
                f"the supervisor (pid {self._pid}) has been silent for {self._silent_s:.0f} s; killing it"
            )
            self._end_supervisor()
        elif is_stopped:
            self._journal.note(f"the supervisor (pid {self._pid}) was stopped; continuing it")
            processes.signal_all([self._pid], signal.SIGCONT)
        with self._lock:
            self._send(Probe())

    def _end_supervisor(self) -> None:
        processes.signal_all([self._pid], signal.SIGKILL)
        end_rest(self._folder, self._reap)

    def _connect(self) -> socket.socket:
        """Returns a connection to the supervisor, starting it if there is none. Raises EngineError on failure."""
        started = 0
        for _ in range(_MAX_CONNECTS):
            if self._is_over:
                break
            with contextlib.suppress(OSError):
                return listener.connect(self._folder)
            with self._starting:
                if self._is_needed():
                    if started == _MAX_STARTS:
                        break
                    self._start_supervisor()
                    started += 1
            time.sleep(_CONNECT_INTERVAL_S)
        raise EngineError(
            "the supervisor doesn't start",
            where=self._folder,
            fix=f"Its output is in {self._folder}/keeper.log",
        )

    def _is_needed(self) -> bool:
        """Whether a supervisor must be started: none lives, and there is no spare one."""
        return not self._closing and not self._lives() and not self._take_over()

    def _take_over(self) -> bool:
        """Takes over a spare supervisor; returns whether there was one. Only an agent's first one can be spare."""
        is_first, self._has_claimed = not self._has_claimed, True
        if self.claim is None or not is_first or not self.claim(self._folder):
            return False
        self._journal.note("taking over a spare supervisor with warm workers")
        return True

    def _start_supervisor(self) -> None:
        # This process has adopted the processes of a dead supervisor: they must be gone before the next one begins.
        with child_processes.unchanged() as own:
            below = processes.descendants(os.getpid())  # First: spared processes may start others meanwhile.
            spared = {*own, *self.spared()}
            spared |= {one for pid in spared for one in processes.descendants(pid)}
            left = [pid for pid in below if pid not in spared]
            processes.signal_all(left, signal.SIGKILL)
        # The host reports unkillable processes and keeps their slots; the new supervisor reports the lost round.
        end_rest(self._folder, self._reap)
        log = f"{self._folder}/keeper.log"
        command = [*program(programs.SUPERVISOR), self._folder]
        self._child = os.posix_spawn(
            command[0],
            command,
            self._environment(),
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
                (os.POSIX_SPAWN_OPEN, 1, log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600),
                (os.POSIX_SPAWN_DUP2, 1, 2),
            ],
            setsid=True,
        )
        self._silent_s = self._stopped_s = 0.0
        self._journal.note(f"supervisor started, pid {self._child}")

    def _environment(self) -> dict[str, str]:
        named = {VARIABLE: self._confinement} if self._confinement else {}
        # A supervisor that may become spare isn't ended with the gang.
        left_out = (processes.GANG, processes.OUTPUT) if self.claim else ()
        return {**{name: value for name, value in os.environ.items() if name not in left_out}, **named}

    def _reap(self) -> None:
        """Reaps ended children: the supervisor, and processes that were adopted when a supervisor died.

        Children of other threads are left alone, because a reaped child has no exit code for its thread.
        """
        with child_processes.unchanged() as own:
            while True:
                try:
                    ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
                    if ended is None or ended.si_pid in own:
                        return  # The next call reaps those behind it.
                    os.waitpid(ended.si_pid, 0)
                except ChildProcessError:
                    self._child = 0
                    return
                if ended.si_pid == self._child:
                    self._child = 0

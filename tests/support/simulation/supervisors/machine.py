"""A played machine: the processes of one user, and what a real supervisor sees of them."""

from __future__ import annotations

import contextlib
import os
import selectors
import shutil
import signal
import socket
import tempfile
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from drumbeat.model.supervisor import ProcessStart, SupervisorRequest, encode_request
from drumbeat.node.supervisor import listener, warm_worker
from drumbeat.node.supervisor.confinement import WARM_POOL, Subreaper
from drumbeat.node.supervisor.listener import AgentListener
from drumbeat.node.supervisor.machine import SupervisorMachine
from drumbeat.node.supervisor.shared_memory import Segments
from drumbeat.node.supervisor.signal_pipe import SignalPipe
from drumbeat.node.supervisor.supervisor import Supervisor
from drumbeat.node.supervisor.warm_worker import WarmWorker
from tests.support.fake_clock import FakeClock
from tests.support.simulation.supervisors.parts import NoSegments, NoSignals, PlayedListener

MEMORY_BYTES = 64 << 30
INTERPRETER_BYTES = 210 << 20
_SHM = "/dev/shm"


class ProcessKilledError(BaseException):
    """The process that acts is killed at this point."""


@dataclass(frozen=True)
class RankOfRound:
    """A rank of one round."""

    job: str
    attempt: int
    round: int
    rank: int

    def __str__(self) -> str:
        return f"{self.job}.{self.attempt}, round {self.round}, rank {self.rank}"


@dataclass
class PlayedProcess:
    """A rank, or an interpreter that may become one."""

    pid: int
    supervisor: int
    """The pid of its supervisor."""
    marker: str
    begun: ProcessStart
    is_interpreter: bool = False
    served: list[RankOfRound] = field(default_factory=list["RankOfRound"])
    """The ranks that it has been."""
    is_asked: bool = False
    """Whether it has had SIGTERM."""
    code: int | None = None
    is_reaped: bool = False

    @property
    def is_alive(self) -> bool:
        """Whether it runs."""
        return self.code is None


class SupervisorProcess:
    """A process that runs a real supervisor, one step after the other."""

    def __init__(self, box: Box, pid: int, folder: str) -> None:
        self.box, self.pid, self.folder = box, pid, folder
        self.lock: int | None = None
        self.supervisor: Supervisor | None = None
        self.is_alive = True
        self.is_busy = False
        """Whether it is in the middle of a step."""
        self.machine = PlayedMachine(box, self)
        self.opened = list[socket.socket]()

    def act(self) -> None:
        """Takes one step. Raises ProcessKilledError if it was killed meanwhile."""
        if self.supervisor is None:
            self._begin()
        elif self.supervisor.goes_on():
            self.supervisor.work()
        else:
            self.supervisor.end()
            self.box.bury(self)

    def check_stop(self) -> None:
        """Takes note if it stops ranks whose agent hasn't asked for it."""
        supervisor = self.supervisor
        if supervisor is not None and supervisor.listener.alone_s() > supervisor.agent_timeout_s:
            self.box.abandoned.add((self.root, supervisor.round.number))
        elif supervisor is not None and self.root not in self.box.stopping:
            self._stops_unasked()

    def _stops_unasked(self) -> None:
        ranks = [str(one.served[-1]) for one in self.box.of(self.pid) if one.served]
        if ranks:
            self.box.wrongs.append(f"{ranks} are stopped, and their agent hasn't asked for it")

    def _begin(self) -> None:
        try:
            self.lock = listener.hold_folder(self.folder)
        except FileNotFoundError:  # The attempt is over.
            self.lock = None
        if self.lock is None:
            self.box.bury(self)  # Another one holds the folder.
            return
        self.supervisor = Supervisor(self.folder, self.machine)

    @property
    def root(self) -> str:
        """The attempt in whose folder it really is, "" = none."""
        return next((root for root in self.box.roots if self.is_in(f"{root}/keeper")), "")

    def is_in(self, folder: str) -> bool:
        """Whether the supervisor's folder has this path now."""
        with contextlib.suppress(OSError):
            return self.lock is not None and os.path.samestat(os.fstat(self.lock), Path(folder, listener.LOCK).stat())
        return False


class Box:
    """The machine."""

    def __init__(self, clock: FakeClock) -> None:
        self.clock, self._free, self._free_since = clock, 0.6, clock.monotonic()
        self.home = tempfile.mkdtemp(prefix="drumbeat-supervisors-", dir=_SHM if os.access(_SHM, os.W_OK) else None)
        self.processes: dict[int, PlayedProcess] = {}
        self.supervisors: dict[int, SupervisorProcess] = {}
        self.wrongs: list[str] = []
        """What was done that mustn't be, in words."""
        self.on_rank: Callable[[PlayedProcess, ProcessStart], None] = lambda _process, _rank: None
        """Called with each process that has become a rank."""
        self.roots: set[str] = set()
        """The folders of attempts on this machine."""
        self.stopping: set[str] = set()
        """Those whose agents have asked for an end of the ranks."""
        self.abandoned: set[tuple[str, int]] = set()
        """The attempt's folder and the round whose ranks the supervisor has ended, since their agent didn't come."""
        self.letters: list[socket.socket] = []
        """Connections of those who have told a supervisor something, and wait."""
        self._pids = iter(range(100, 1 << 30))
        self._closes = weakref.finalize(self, shutil.rmtree, self.home, ignore_errors=True)

    @property
    def free(self) -> float:
        """The part of its memory that is left."""
        return self._free

    @free.setter
    def free(self, part: float) -> None:
        if part != self._free:
            self._free, self._free_since = part, self.clock.monotonic()

    @property
    def free_for_s(self) -> float:
        """Seconds since that part has changed."""
        return self.clock.monotonic() - self._free_since

    def close(self) -> None:
        """Ends everything."""
        for one in list(self.supervisors.values()):
            self.kill_supervisor(one)
        for letter in self.letters:
            letter.close()
        self._closes()

    # --- supervisors --------------------------------------------------------------------------------------------------
    def start_supervisor(self, folder: str) -> SupervisorProcess:
        """Starts a supervisor, which holds its folder at its first step."""
        supervisor = SupervisorProcess(self, next(self._pids), folder)
        self.supervisors[supervisor.pid] = supervisor
        return supervisor

    def supervisor_in(self, folder: str) -> SupervisorProcess | None:
        """The living supervisor whose folder has this path now."""
        return next((one for one in self.supervisors.values() if one.is_in(folder)), None)

    def kill_supervisor(self, supervisor: SupervisorProcess) -> None:
        """SIGKILL: its processes end with it."""
        self.bury(supervisor)

    def bury(self, supervisor: SupervisorProcess) -> None:
        """The supervisor's process is gone, and with it what was open in it and what hung on it."""
        if not supervisor.is_alive:
            return
        supervisor.is_alive = False
        self.supervisors.pop(supervisor.pid, None)
        for one in self.of(supervisor.pid):
            self.end(one, -signal.SIGKILL)
        for opened in supervisor.opened:
            opened.close()
        if supervisor.supervisor is not None:
            supervisor.supervisor.selector.close()
            ending = supervisor.supervisor.listener
            if isinstance(ending, PlayedListener):
                ending.close()
        if supervisor.lock is not None:
            os.close(supervisor.lock)
            supervisor.lock = None

    # --- processes ----------------------------------------------------------------------------------------------------
    def start(self, supervisor: int, marker: str, begun: ProcessStart, *, is_interpreter: bool) -> PlayedProcess:
        """Starts a process below a supervisor."""
        made = PlayedProcess(next(self._pids), supervisor, marker, begun, is_interpreter)
        self.processes[made.pid] = made
        if not is_interpreter:
            self.become(made, begun)
        return made

    def become(self, process: PlayedProcess, rank: ProcessStart) -> None:
        """A process is a rank from now on."""
        attempt, number = int(rank.env["DRUMBEAT_ATTEMPT"]), int(rank.env["DRUMBEAT_ROUND"])
        process.served.append(RankOfRound(rank.env["DRUMBEAT_JOB"], attempt, number, rank.rank))
        self.on_rank(process, rank)

    def end(self, process: PlayedProcess, code: int) -> None:
        """A process ends by itself, or by a signal."""
        if process.is_alive:
            process.code = code

    def of(self, supervisor: int) -> list[PlayedProcess]:
        """The living processes of a supervisor."""
        return [one for one in self.processes.values() if one.supervisor == supervisor and one.is_alive]

    def end_marked(self, marker: str) -> None:
        """Ends what a dead supervisor has left. A supervisor's processes end with it: whatever lives is another's."""
        for one in [one for one in self.processes.values() if one.marker == marker and one.is_alive]:
            if one.served:
                self.wrongs.append(
                    f"rank {one.served[-1]} of a living supervisor was ended as what a dead one had left"
                )
            self.end(one, -signal.SIGKILL)


class PlayedConfinement(Subreaper):
    """Holds the processes of a supervisor by their pids."""

    def __init__(self, machine: PlayedMachine, folder: str, marker: str) -> None:
        self.machine = machine
        self._folder, self._marker, self._hold = folder, marker, f"{folder}/hold.json"
        self._is_for_pool = folder.endswith(f"/{WARM_POOL}")
        self._supervisor, self._adopts = machine.pid, True
        self._asked: set[int] = set()
        self.spares: Callable[[], set[int]] = set

    def for_warm_pool(self) -> Subreaper:
        return PlayedConfinement(self.machine, f"{self._folder}/{WARM_POOL}", self._marker)

    @property
    def marker(self) -> str:
        """What its processes carry."""
        return self._marker

    def _note(self, trace: dict[str, object]) -> None:
        """Nothing goes by it."""

    def members(self) -> list[int]:
        spares = self.spares()
        return [one.pid for one in self.machine.box.of(self.machine.pid) if one.pid not in spares]

    def ask(self, *, helpers: bool = False, spared: int = 0) -> None:
        del helpers, spared
        self.machine.process.check_stop()
        for pid in self.members():
            self.machine.box.processes[pid].is_asked = True

    def kill(self) -> None:
        for pid in self.members():
            self.machine.box.end(self.machine.box.processes[pid], -signal.SIGKILL)


class PlayedWarmWorker(WarmWorker):
    """A warm worker: its answers come over a real socket."""

    def __init__(self, machine: PlayedMachine, rank: ProcessStart, held: PlayedConfinement, folder: str) -> None:
        self.rank, self._box = rank, machine.box
        self.root = str(Path(folder).parent.parent)
        self.has_begun = self.is_ready = False
        self.refusal, self._unread, self._priority = "", b"", None
        self._begun_with = warm_worker.first_variables(rank, outlives=True)
        self._supervisor, self.other = socket.socketpair()
        self._supervisor.setblocking(False)
        self.process = machine.box.start(machine.pid, held.marker, rank, is_interpreter=True)
        self.pid = self.process.pid
        machine.process.opened += [self._supervisor, self.other]
        self.answer("begun")

    def answer(self, text: str) -> None:
        """The interpreter says that it is ready, or why it can't be."""
        with contextlib.suppress(OSError):
            self.other.sendall(text.encode() + b"\n")

    def follow(self, root: str) -> str:
        if not self.process.is_alive:
            return "a warm worker ended"
        self.root = root
        return ""

    def go(self, rank: ProcessStart) -> int:
        self._supervisor.close()
        if not self.process.is_alive:
            raise BrokenPipeError(32, "Broken pipe")
        self._box.become(self.process, rank)
        return self.pid

    def end(self) -> None:
        if self.process.served and self.process.is_alive:
            self._box.wrongs.append(f"{self.process.served[-1]} was ended as an interpreter that waits")
        self._box.end(self.process, -signal.SIGKILL)
        self._supervisor.close()


class AgentMachine(SupervisorMachine):
    """What an agent sees of the box."""

    variables: Mapping[str, str] = MappingProxyType({})

    def __init__(self, box: Box) -> None:
        self.box = box

    def monotonic(self) -> float:
        return self.box.clock.monotonic()

    def now(self) -> float:
        return self.box.clock.now().timestamp()

    def end_rest(self, folder: str) -> list[int]:
        """Ends what lives and carries the folder's marker, as `confinement.end_rest` does."""
        self.box.end_marked(listener.read_marker(folder))
        return []

    def spares_home(self) -> str:
        return f"{self.box.home}/spares"

    def resident(self, pid: int) -> int:
        return INTERPRETER_BYTES if pid in self.box.processes and self.box.processes[pid].is_alive else 0

    def tell(self, folder: str, request: SupervisorRequest) -> None:
        """Doesn't wait: the other supervisor reads it at its next step."""
        opened = listener.connect(folder)
        self.box.letters.append(opened)
        opened.sendall(encode_request(request))


class PlayedMachine(AgentMachine):
    """What one supervisor sees of the box."""

    def __init__(self, box: Box, process: SupervisorProcess) -> None:
        super().__init__(box)
        self.process = process
        self.warm_workers = list[PlayedWarmWorker]()
        """Those that were begun."""

    @property
    def pid(self) -> int:
        return self.process.pid

    def listener(
        self, folder: str, selector: selectors.BaseSelector, obey: Callable[[bytes], None], state: Callable[[], bytes]
    ) -> AgentListener:
        return PlayedListener(folder, selector, obey, state, self.monotonic)

    def signals(self, selector: selectors.BaseSelector) -> SignalPipe:
        del selector
        return NoSignals()

    def segments(self, folder: str) -> Segments:
        return NoSegments(folder)

    def confinement(self, folder: str, marker: str) -> Subreaper:
        return PlayedConfinement(self, folder, marker)

    def start(self, rank: ProcessStart, held: Subreaper, files: Mapping[str, int]) -> int:
        del files
        return self.box.start(self.pid, _played(held).marker, rank, is_interpreter=False).pid

    def ended_children(self) -> dict[int, int]:
        ended: dict[int, int] = {}
        for one in self.box.processes.values():
            if one.supervisor == self.pid and one.code is not None and not one.is_reaped:
                one.is_reaped = True
                ended[one.pid] = one.code
        return ended

    def session(self, pid: int) -> int:
        return pid

    def signal_all(self, pids: list[int], number: int) -> None:
        del pids, number

    def descendants(self, *pids: int) -> list[int]:
        del pids
        return []

    def memory_left(self) -> tuple[int, int]:
        return int(self.box.free * MEMORY_BYTES), MEMORY_BYTES

    def write_hook(self, folder: str) -> None:
        Path(folder).mkdir(parents=True, exist_ok=True)

    def warm_worker(self, rank: ProcessStart, held: Subreaper, folder: str, *, outlives: bool) -> WarmWorker:
        del outlives
        self.warm_workers.append(PlayedWarmWorker(self, rank, _played(held), folder))
        return self.warm_workers[-1]

    def has_torch(self, pid: int) -> bool:
        return pid in self.box.processes

    def has_tensorflow(self, pid: int) -> bool:
        del pid
        return False

    def interpreter(self, rank: int) -> int:
        return rank

    def begun_with(self, pid: int, name: str) -> tuple[list[str], str]:
        return ["python", "train.py"], self.box.processes[pid].begun.env.get(name, "")

    def sees(self, pid: int, folder: str) -> bool:
        del pid, folder
        return True


def _played(held: Subreaper) -> PlayedConfinement:
    if not isinstance(held, PlayedConfinement):
        raise TypeError(held)
    return held

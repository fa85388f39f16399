"""The machine of a supervisor: a clock, memory, processes, and the socket on which its agent talks.

The simulator replaces it (`tests/support/simulation/supervisors`) under the same supervisor.
"""

from __future__ import annotations

import os
import selectors
import time
from collections.abc import Callable, Mapping

from drumbeat.model.supervisor import ProcessStart, SupervisorRequest, encode_request
from drumbeat.node.host import processes
from drumbeat.node.host.machine import boot
from drumbeat.node.platform import cache_folders, machine_memory
from drumbeat.node.supervisor import confinement, listener, rank_start
from drumbeat.node.supervisor.confinement import Subreaper
from drumbeat.node.supervisor.listener import AgentListener
from drumbeat.node.supervisor.shared_memory import Segments
from drumbeat.node.supervisor.signal_pipe import SignalPipe
from drumbeat.node.supervisor.warm_worker import WarmWorker, write_hook

_END_TIMEOUT_S, _READ_BYTES = 5.0, 1 << 16
_TORCH = ("/libtorch_python",)
_TENSORFLOW = ("/libtensorflow",)


class SupervisorMachine:
    """The machine on which a supervisor or an agent runs."""

    variables: Mapping[str, str] = os.environ
    """The environment variables of the process."""

    # --- the supervisor's own parts -----------------------------------------------------------------------------------
    @property
    def pid(self) -> int:
        """The pid of the supervisor's own process."""
        return os.getpid()

    def monotonic(self) -> float:
        """Returns the monotonic time in seconds."""
        return time.monotonic()

    def now(self) -> float:
        """Returns seconds since the epoch."""
        return time.time()

    def selector(self) -> selectors.BaseSelector:
        """Returns the selector with which the supervisor waits."""
        return selectors.DefaultSelector()

    def listener(
        self, folder: str, selector: selectors.BaseSelector, obey: Callable[[bytes], None], state: Callable[[], bytes]
    ) -> AgentListener:
        """Returns the supervisor's side of its socket."""
        return AgentListener(folder, selector, obey, state)

    def signals(self, selector: selectors.BaseSelector) -> SignalPipe:
        """Returns the pipe that reports the supervisor's signals."""
        return SignalPipe(selector)

    def segments(self, folder: str) -> Segments:
        """Returns the recorder of shared memory."""
        return Segments(folder)

    # --- processes ----------------------------------------------------------------------------------------------------
    def confinement(self, folder: str, marker: str) -> Subreaper:
        """Returns the confinement of the supervisor's ranks. Raises OSError."""
        return confinement.choose(folder, marker)

    def end_rest(self, folder: str) -> list[int]:
        """Ends the processes that a dead supervisor of this folder left; returns those that can't be killed."""
        return confinement.end_rest(folder)

    def start(self, rank: ProcessStart, held: Subreaper, files: Mapping[str, int]) -> int:
        """Starts a rank; returns its pid. Raises OSError."""
        return rank_start.start(rank, held, files)

    def ended_children(self) -> dict[int, int]:
        """Returns the exit codes of the children that have ended since the last call, by pid."""
        return dict(processes.ended_children())

    def session(self, pid: int) -> int:
        """Returns the session of a process, 0 if it has ended."""
        return processes.session(pid)

    def signal_all(self, pids: list[int], number: int) -> None:
        """Sends a signal to each of the processes that is alive."""
        processes.signal_all(pids, number)

    def descendants(self, *pids: int) -> list[int]:
        """Returns all descendants of the processes."""
        return processes.descendants(*pids)

    # --- warm workers -------------------------------------------------------------------------------------------------
    def memory_left(self) -> tuple[int, int]:
        """Returns the available bytes of memory, and the total."""
        return machine_memory.left()

    def resident(self, pid: int) -> int:
        """Returns the bytes of memory that a process uses, 0 if it has ended."""
        return machine_memory.resident(pid)

    def write_hook(self, folder: str) -> None:
        """Writes the module that warm workers import at their start. Raises OSError."""
        write_hook(folder)

    def warm_worker(self, rank: ProcessStart, held: Subreaper, folder: str, *, outlives: bool) -> WarmWorker:
        """Starts a warm worker for a rank. Raises OSError."""
        return WarmWorker(rank, held, folder, outlives=outlives)

    def has_torch(self, pid: int) -> bool:
        """Whether a process has loaded torch."""
        return processes.has_mapped(pid, _TORCH)

    def has_tensorflow(self, pid: int) -> bool:
        """Whether a process has loaded TensorFlow."""
        return processes.has_mapped(pid, _TENSORFLOW)

    def interpreter(self, rank: int) -> int:
        """Returns the pid of the Python program that a rank runs, below its shell or in its place; 0 = none yet."""
        if processes.is_python(rank):
            return rank
        return next((pid for pid in processes.descendants(rank) if processes.is_python(pid)), 0)

    def begun_with(self, pid: int, name: str) -> tuple[list[str], str]:
        """Returns the arguments of a process, and the initial value of a variable."""
        return processes.begun_with(pid, name)

    def sees(self, pid: int, folder: str) -> bool:
        """Whether a folder is the same one for a process."""
        return processes.shares_path(pid, folder)

    # --- spare supervisors --------------------------------------------------------------------------------------------
    def spares_home(self) -> str:
        """Returns the folder of this user's spare supervisors on this machine: a home may be shared by machines."""
        return os.path.join(cache_folders.folder("spares"), boot())

    def tell(self, folder: str, request: SupervisorRequest) -> None:
        """Sends one request to the supervisor of a folder, and waits until it ends the connection. Raises OSError."""
        with listener.connect(folder) as connection:
            connection.settimeout(_END_TIMEOUT_S)
            connection.sendall(encode_request(request))
            while connection.recv(_READ_BYTES):
                pass


MACHINE = SupervisorMachine()
"""The real machine."""

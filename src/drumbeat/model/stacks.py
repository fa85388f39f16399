"""The facts that a node's agent reports of its ranks' processes: their stacks, and their work between two looks."""

from __future__ import annotations

from dataclasses import dataclass

PY_SPY = "py-spy"
"""The program that reads stacks."""
DIGEST_HEADER = "X-Drumbeat-Sha256"
"""In the server's answer with a program, the hash of its content."""
STACKS = "stacks"
"""The kind of the request that the agent answers with `NodeFacts`."""
ROUND_FIELD, PAUSE_FIELD, NATIVE_FIELD, RANKS_FIELD = "round", "pause_s", "native", "ranks"
"""Fields of the request: the round, seconds between two looks, `1` for native frames too, and ranks joined by `,`."""
SAMPLE_FIELD = "sample_s"
"""A field of the request: for how many seconds the ranks' programs are sampled, instead of looks."""


@dataclass(frozen=True)
class StackFrame:
    """A function that a thread is in."""

    function: str
    """With the class around it where the interpreter says so, as `Queue.get`."""
    file: str = ""
    """The path as the interpreter has it, or the library of a native frame."""
    line: int = 0
    """0 = unknown, as in native frames."""

    @property
    def short_name(self) -> str:
        """The function without its class."""
        return self.function.rpartition(".")[2]

    @property
    def is_native(self) -> bool:
        """Whether the frame is one of compiled code."""
        return self.line == 0


@dataclass(frozen=True)
class ThreadStack:
    """A thread of a Python process."""

    id: int
    """The thread's number in the kernel (of the process's main thread, the pid)."""
    name: str = ""
    frames: tuple[StackFrame, ...] = ()
    """Innermost first."""
    kernel: str = ""
    """The function of the kernel in which the thread sleeps (/proc/PID/wchan); "" = none, or not shown."""


@dataclass(frozen=True)
class ProcessFacts:
    """A process of a rank."""

    pid: int
    command: str = ""
    is_helper: bool = False
    """Whether the process is a worker of the Python program above it, such as a data loader's."""
    state: str = ""
    """The kernel's letter: R runs, S sleeps, D waits for a device, T is stopped."""
    kernel: str = ""
    """As in `ThreadStack`, of the main thread."""
    cpu_s: float = 0.0
    """CPU time of all threads between the looks."""
    main_cpu_s: float = 0.0
    """CPU time of the main thread between the looks."""
    io_bytes: int = 0
    """What the process read and wrote between the looks, from caches and pipes too."""
    switches: int = 0
    """How often the main thread went to sleep between the looks."""
    swap_faults: int = 0
    """How many pages the process had to wait for between the looks."""
    swapped_mib: float = 0.0
    gpu_memory_percent: float = 0.0
    """For what part of a moment it read or wrote the memory of its GPU, at the looks; 0 = at rest, or not shown."""
    has_device: bool = False
    """Whether it has a GPU, or another accelerator, open."""
    threads: tuple[ThreadStack, ...] = ()
    """The main thread first; () = there is no stack."""
    place: str = ""
    """A digest of the main thread's functions, lines and local values at the second look; "" = there is no stack."""
    is_same_place: bool = False
    """Whether the first look gave the same digest."""
    problem: str = ""
    """Why there is no stack."""


@dataclass(frozen=True)
class StackSample:
    """A stack in which the main thread of a process was found."""

    frames: tuple[StackFrame, ...]
    """Innermost first."""
    count: int = 1
    """In how many samples."""


@dataclass(frozen=True)
class ProgramSamples:
    """What a Python program of a rank did in a short time."""

    seconds: float
    stacks: tuple[StackSample, ...] = ()
    """The most frequent first; () = there are none."""
    cpu_s: float = 0.0
    """CPU time of all threads."""
    ready_s: float = 0.0
    """For how long the main thread ran or waited for a processor; else it slept."""
    sleeps: int = 0
    """How often the main thread has gone to sleep since it began."""
    new_sleeps: int = 0
    """How often in this time."""
    has_device: bool = False
    """Whether it has a GPU, or another accelerator, open."""


@dataclass(frozen=True)
class RankFacts:
    """The processes of one rank, its first one first."""

    rank: int
    processes: tuple[ProcessFacts, ...] = ()
    log_bytes: int = 0
    """By how much the rank's log grew between the looks."""
    ended: int = 0
    """How many of the rank's processes ended between the looks."""
    idle_s: float = 0.0
    """How long the rank has neither written to its log nor used the CPU; 0 = unknown, or it does so now."""
    programs: tuple[ProgramSamples, ...] = ()
    """Its Python programs, where they were sampled, without workers that these have started."""


@dataclass(frozen=True)
class NodeFacts:
    """The ranks of one node."""

    seconds: float = 0.0
    """Time between the looks; 0 = there was one only."""
    ranks: tuple[RankFacts, ...] = ()

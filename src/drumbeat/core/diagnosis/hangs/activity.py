"""Derives what one rank does from the facts of its processes between two looks.

The counters are read on the node, in `node/stacks/`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from drumbeat.core.diagnosis.hangs import waits
from drumbeat.core.diagnosis.hangs.waits import Wait, WaitKind
from drumbeat.model.stacks import ProcessFacts, RankFacts, ThreadStack

WORKING_SHARE = 0.02
"""A process that uses more of a core works, unless its frames say that it polls."""
IO_BYTES = 256 << 10
"""Bytes that are read or written between two looks by a process that makes progress with files."""
NETWORK_SWITCHES_PER_S = 2.0
"""A thread that waits at a socket and is woken more often than this receives something."""
SWAP_FAULTS_PER_S = 50.0
STOPPED = "T"
"""The kernel's letter for a process that was stopped by a signal."""


@dataclass(frozen=True)
class Activity:
    """What a rank does."""

    rank: int
    node: int
    works: bool = False
    """Whether it makes progress."""
    works_by_gpu: bool = False
    """Whether only its GPU says so, whose memory is read or written: that may be the work of other processes."""
    has_busy_gpu: bool = False
    """Whether its GPU's memory was read or written at one of the looks."""
    is_on_device: bool = False
    """Whether it may wait for work of its own GPU, be it in a collective: a healthy long step can't be excluded."""
    is_stopped: bool = False
    is_swapped: bool = False
    """Whether it waits for pages in swap."""
    wait: Wait | None = None
    """What its main thread waits for; None = not known."""
    function: str = ""
    place: str = ""
    """The innermost line of the user's own code, `train.py:33`."""
    phase: str = ""
    """`data`, `compute`, `sync` or "" = unknown."""
    digest: str = ""
    """Where its main threads are, with local values: equal in two looks when nothing moved."""
    helper: str = ""
    """What the worker does that the rank waits for."""
    helper_kind: WaitKind | None = None
    """What that worker waits for; None = no worker is waited for."""
    is_guess: bool = False
    """Whether only the kernel says what it waits for, and that is a lock or a socket: compiled code waits so, too."""
    is_polling: bool = False
    """Whether it uses the CPU while it waits."""
    is_parked: bool = False
    """Whether another thread of its process waits for something from outside: a server does."""
    is_at_start: bool = False
    """Whether it waits for all other ranks in the rendezvous at the start of a round."""
    idle_s: float = 0.0
    """How long it has neither written to its log nor used the CPU, as its agent reports it."""
    problem: str = ""
    """Why nothing more is known."""

    @property
    def is_unclear(self) -> bool:
        """Whether native frames could say more: it stands in one place, and no table knows what it does there."""
        has_place = bool(self.digest) and not self.is_stopped and not self.is_swapped
        return has_place and (self.wait is None or self.is_guess)

    @property
    def is_blocked(self) -> bool:
        """Whether frames or the kernel show that it stands outside of any wait for other ranks."""
        if self.works or not self.digest or self.wait is None or self.wait.kind.is_for_ranks:
            return False
        if self.is_guess and self.has_busy_gpu:  # CUDA can sleep in the kernel while its GPU computes.
            return False
        return self.wait.kind is not WaitKind.DATA or bool(self.helper)

    @property
    def waits_for_ranks(self) -> bool:
        """Whether other ranks have to do something first."""
        return not self.works and self.wait is not None and self.wait.kind.is_for_ranks


def for_rank(node: int, facts: RankFacts, seconds: float) -> Activity:
    """Returns what a rank does. seconds: between the two looks."""
    unknown = Activity(facts.rank, node, idle_s=facts.idle_s)
    candidates = [(_for_process(unknown, one, seconds), one) for one in _programs(facts)]
    if not candidates:
        return replace(unknown, problem="it has no process")
    # A program that waits for another one has started the program that trains.
    training = (pair for pair in candidates if not (pair[0].wait and pair[0].wait.kind is WaitKind.CHILD))
    own, main = next(training, candidates[0])
    stopped = next((one for one in facts.processes if one.state == STOPPED), None)
    if stopped is not None:
        return replace(own, works=False, works_by_gpu=False, is_stopped=True, helper=_describe_stopped(main, stopped))
    helpers = [one for one in facts.processes if one is not main]
    if own.wait and own.wait.kind in (WaitKind.DATA, WaitKind.CHILD, WaitKind.LOCK, WaitKind.NETWORK) and not own.works:
        return replace(own, works=True) if facts.ended else _with_helpers(own, helpers, seconds)
    return own


def _programs(facts: RankFacts) -> list[ProcessFacts]:
    """Returns the processes of which one trains, the first first: Python programs that aren't workers of another."""
    programs = [one for one in facts.processes if not one.is_helper]
    pythons = [one for one in programs if one.threads or one.problem]
    return pythons or programs[::-1] or list(facts.processes)


def _for_process(unknown: Activity, process: ProcessFacts, seconds: float) -> Activity:
    thread = process.threads[0] if process.threads else None
    frames = thread.frames if thread else ()
    share = process.cpu_s / seconds if seconds else 0.0
    is_idle = share < WORKING_SHARE
    wait = waits.from_stack(frames)
    if wait and wait.needs_idle and not is_idle:
        wait = None
    kernel = waits.from_kernel(process.kernel, process.state)
    is_guess = wait is None
    is_file = kernel is not None and kernel.kind in (WaitKind.FILE, WaitKind.FILE_LOCK)
    if is_file or (wait is None and is_idle):
        wait = kernel
    place = waits.user_frame(frames)
    is_polling = wait is not None and wait.kind.is_for_ranks and not is_idle
    has_busy_gpu = process.gpu_memory_percent > 0
    activity = replace(
        unknown,
        has_busy_gpu=has_busy_gpu,
        is_on_device=_is_on_device(wait, kernel, has_gpu=process.has_device or has_busy_gpu, is_polling=is_polling),
        wait=wait,
        function=place.function if place else "",
        place=f"{place.file.rpartition('/')[2]}:{place.line}" if place else "",
        phase=_phase(thread, wait),
        digest=process.place if process.is_same_place else "",
        is_guess=is_guess and wait is not None and wait.kind in (WaitKind.LOCK, WaitKind.NETWORK),
        is_polling=is_polling,
        is_parked=_is_parked(process),
        is_at_start=wait is not None and wait.kind.is_for_ranks and waits.is_at_start(frames),
        problem=process.problem,
    )
    faults = process.swap_faults / seconds if seconds else 0.0
    is_swapped = faults >= SWAP_FAULTS_PER_S and process.swapped_mib > 1
    works = _works(process, activity, seconds)
    # The place of such a rank says little: a loop without local variables stands still in each look.
    by_gpu = has_busy_gpu and activity.is_on_device and not works and process.state != STOPPED
    return replace(activity, is_swapped=is_swapped, works=works or by_gpu, works_by_gpu=by_gpu)


def _is_on_device(wait: Wait | None, kernel: Wait | None, *, has_gpu: bool, is_polling: bool) -> bool:
    """Whether a wait may be one for the rank's own GPU: NCCL's barrier waits for all that the rank gave it before.

    NCCL uses the CPU meanwhile, or sleeps by the clock (a blocking wait); gloo sleeps in a lock.
    """
    if wait is None or wait.kind is WaitKind.DEVICE:
        return wait is not None
    is_collective = wait.kind in (WaitKind.COLLECTIVE, WaitKind.PEER)
    is_asleep_in_lock = not is_polling and kernel is not None and kernel.kind is WaitKind.LOCK
    return has_gpu and is_collective and not is_asleep_in_lock


def _works(process: ProcessFacts, activity: Activity, seconds: float) -> bool:
    """Whether a process makes progress: it moves in its code, uses the CPU, or reads and writes."""
    wait, share = activity.wait, process.cpu_s / seconds if seconds else 0.0
    if process.state == STOPPED:
        return False
    if process.io_bytes >= IO_BYTES:
        return True
    has_moved = bool(process.place) and not process.is_same_place
    if wait is None:
        return has_moved or share >= WORKING_SHARE
    if wait.kind.is_for_ranks:
        others = (process.cpu_s - process.main_cpu_s) / seconds if seconds else 0.0
        return has_moved or (not activity.is_polling and others >= WORKING_SHARE)
    if wait.kind is WaitKind.NETWORK and seconds and process.switches / seconds >= NETWORK_SWITCHES_PER_S:
        return True
    if wait.kind is WaitKind.SLEEP:  # A loop that looks for something counts its looks.
        return share >= WORKING_SHARE
    return has_moved or share >= WORKING_SHARE


def _is_parked(process: ProcessFacts) -> bool:
    outside = (WaitKind.NETWORK, WaitKind.SLEEP, WaitKind.CHILD)
    waiting = (waits.from_kernel(one.kernel) for one in process.threads[1:])
    return any(one is not None and one.kind in outside for one in waiting)


def _phase(thread: ThreadStack | None, wait: Wait | None) -> str:
    if wait is not None and wait.kind.is_for_ranks:
        # A rank that waits for its GPU and goes on computes there, as far as can be seen.
        return "compute" if wait.kind is WaitKind.DEVICE else "sync"
    if thread is None:
        return ""
    reads = wait is not None and wait.kind in (WaitKind.DATA, WaitKind.FILE)
    in_loader = any("torch/utils/data/" in frame.file for frame in thread.frames)
    return "data" if reads or in_loader else "compute"


def _with_helpers(own: Activity, helpers: list[ProcessFacts], seconds: float) -> Activity:
    """Returns what the rank does, where it waits for processes that it has started: theirs is its progress."""
    for process in helpers:
        theirs = _for_process(Activity(own.rank, own.node), process, seconds)
        if theirs.works:
            return replace(own, works=True, is_swapped=own.is_swapped or theirs.is_swapped)
    blocked = [one for one in helpers if one.is_helper and (one.threads or one.state == "D")]
    for process in sorted(blocked, key=lambda one: one.state != "D"):
        theirs = _for_process(Activity(own.rank, own.node), process, seconds)
        wait = theirs.wait
        if wait is None or (wait.kind is WaitKind.NETWORK) or _is_resting(process):
            continue
        at = f" at {theirs.place}" if theirs.place else ""
        sentence = f"its worker process {process.pid} {describe_wait(wait)}{at}"
        return replace(own, helper=sentence, helper_kind=wait.kind)
    return own


def _is_resting(process: ProcessFacts) -> bool:
    """Whether a data loader's worker waits for the next order."""
    frames = process.threads[0].frames if process.threads else ()
    own = [one for one in frames if not one.is_native]
    return any(one.short_name == "_worker_loop" for one in own) and not any(one.short_name == "fetch" for one in own)


def _describe_stopped(main: ProcessFacts, process: ProcessFacts) -> str:
    return "" if process is main else f"waits for its process {process.pid}, which is stopped"


def describe_activity(one: Activity) -> str:
    """Says what a rank does: `waits in all_reduce at train.py:20`."""
    at = f" at {one.place}" if one.place else ""
    if one.is_stopped:
        return f"{one.helper or 'is stopped'}{at}"
    if one.works:
        doing = {"data": "loads data", "sync": "exchanges data"}.get(one.phase, "works")
        return f"{doing}{at}"
    if one.wait is None:
        return f"stands{at}" if at else one.problem or "sleeps"
    return f"{describe_wait(one.wait)}{at}{f': {one.helper}' if one.helper else ''}"


def describe_wait(wait: Wait) -> str:
    """Says what a thread does that waits so: `waits in all_reduce`."""
    return _SENTENCES[wait.kind].format(wait.name)


_SENTENCES = {
    WaitKind.COLLECTIVE: "waits in {}",
    WaitKind.PEER: "waits in {}",
    WaitKind.STORE: "waits at {}",
    WaitKind.DEVICE: "waits for {}",
    WaitKind.DATA: "waits for its data loader",
    WaitKind.LOCK: "waits for a lock or another thread",
    WaitKind.SLEEP: "sleeps",
    WaitKind.NETWORK: "waits at a socket or pipe",
    WaitKind.CHILD: "waits for a process that it has started",
    WaitKind.FILE: "waits for a file system that doesn't answer ({})",
    WaitKind.FILE_LOCK: "waits for the lock of a file",
}

"""Divides a short time of a rank into phases: waiting for other ranks, for data, or working.

This is for slow ranks. Whether ranks hang is decided in `activity.py` and `hang_verdict.py`; `waits.py` has the frames.

From samples of its main thread's stack. Samples don't show whether a thread slept, so that a frame in which a rank both
computes and waits, such as torch's backward pass, counts as a wait for as long as the thread slept by the kernel.

A program that has a GPU open may wait for its own work there, in calls that have no frame of Python and in any of its
threads, asleep or not. Then only data, collectives, sockets, files and children are certain, and all else is undecided.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from drumbeat.core.diagnosis.hangs import waits
from drumbeat.core.diagnosis.hangs.waits import Wait, WaitKind
from drumbeat.model.stacks import ProgramSamples, RankFacts, StackFrame, StackSample

MIN_SAMPLES = 10
"""Fewer say nothing of a rank."""
IDLE_SHARE = 0.3
"""A rank that uses the CPU for less of its own time is asleep for most of it."""
_SLEEPING = (WaitKind.DATA, WaitKind.LOCK, WaitKind.NETWORK, WaitKind.CHILD)
"""Waits in which a thread sleeps for certain."""
_POLLS_PER_S = 30.0
"""A thread that goes to sleep more often polls."""
_LOADERS = re.compile(r"torch/utils/data/|torchdata/|drumbeat/train/(?:shards|resumable_loader)\.py$")


@dataclass(frozen=True)
class RankPhases:
    """The parts of a short time, which add up to 1."""

    rank: int
    node: int
    sync: float
    """It waited for other ranks."""
    data: float = 0.0
    """It loaded data, or waited for its data loader."""
    compute: float = 0.0
    """All else."""
    place: str = ""
    """The line of the user's own code at which it was most often in its larger phase: `train.py:33`."""
    is_asleep: bool = False
    """Whether it slept for most of the time that isn't `sync` or `undecided`."""
    sleeps: int = 0
    """How often its main thread has gone to sleep since it began."""
    polls: bool = False
    """Whether it goes to sleep again and again in one wait, so that `sleeps` says nothing."""
    waits_at: str = ""
    """The wait for others in which it was found most often, and its line of the user's code; "" = in none."""
    elsewhere: float = 0.0
    """The part of the samples in which it wasn't there."""
    undecided: float = 0.0
    """It waited for its GPU, or may have: the fourth part of the time."""

    @property
    def phase(self) -> str:
        """The larger part of the time that isn't `sync` or `undecided`."""
        return "data" if self.data > self.compute else "compute"


def from_samples(node: int, facts: RankFacts) -> RankPhases | None:
    """Returns how a rank has spent the time; None = it wasn't sampled often enough."""
    programs = [one for one in facts.programs if _count(one.stacks) >= MIN_SAMPLES]
    # A program that waits for another one has started the program that trains.
    training = next((one for one in programs if not _is_parent(one)), programs[0] if programs else None)
    return _from_program(facts.rank, node, training) if training else None


def _count(stacks: Sequence[StackSample]) -> int:
    return sum(one.count for one in stacks)


def _is_parent(program: ProgramSamples) -> bool:
    wait = waits.from_stack(program.stacks[0].frames)
    return wait is not None and wait.kind is WaitKind.CHILD


def _from_program(rank: int, node: int, program: ProgramSamples) -> RankPhases:
    stacks = [(one.frames, one.count, waits.from_stack(one.frames)) for one in program.stacks]
    has_device = program.has_device or any(wait and wait.kind is WaitKind.DEVICE for _, _, wait in stacks)
    total = _count(program.stacks)
    clear = unclear = asleep = data = undecided = 0.0
    places: dict[str, Counter[str]] = {"data": Counter(), "compute": Counter()}
    waiting: Counter[str] = Counter()
    for frames, count, wait in stacks:
        share, is_data = count / total, _loads(frames, wait)
        if wait is not None and wait.kind.is_for_ranks:
            waiting[f"{wait.name} at {_place(frames)}"] += count
            if not wait.needs_idle and wait.kind is not WaitKind.DEVICE:
                clear += share
                continue
        if has_device and not is_data and _may_be_for_device(wait):
            undecided += share
            continue
        data += share * is_data
        unclear += share * (wait is not None and wait.needs_idle)
        asleep += share * (wait is not None and wait.kind in _SLEEPING)
        places["data" if is_data else "compute"][_place(frames)] += count
    slept = 1.0 - min(1.0, _awake_s(program) / program.seconds) if program.seconds else 0.0
    # A rank that polls doesn't sleep in its wait, so that the remainder for the other phases may be negative.
    sync = clear + min(unclear, max(0.0, slept - clear - asleep))
    phases = RankPhases(rank, node, sync, data, max(0.0, 1.0 - sync - data - undecided), undecided=undecided)
    (place, _), *_ = places[phases.phase].most_common(1) or [("", 0)]
    (waits_at, held), *_ = waiting.most_common(1) or [("", 0)]
    return replace(
        phases,
        place=place,
        is_asleep=1.0 - slept < IDLE_SHARE * (1.0 - sync - undecided),
        sleeps=program.sleeps,
        polls=program.new_sleeps > _POLLS_PER_S * program.seconds or any(wait and wait.polls for _, _, wait in stacks),
        waits_at=waits_at,
        elsewhere=1.0 - held / total,
    )


def _may_be_for_device(wait: Wait | None) -> bool:
    """Whether a program that has a GPU open may wait for its own work there."""
    return wait is None or wait.needs_idle or wait.kind in (WaitKind.DEVICE, WaitKind.LOCK)


def _awake_s(program: ProgramSamples) -> float:
    """Returns for how long a program worked: with TensorFlow, other threads than the main one do."""
    is_threaded = any(waits.from_stack(one.frames) == waits.TENSORFLOW for one in program.stacks)
    return max(program.ready_s, program.cpu_s) if is_threaded else program.ready_s


def _loads(frames: Sequence[StackFrame], wait: Wait | None) -> bool:
    if wait is not None and wait.kind is WaitKind.DEVICE:
        return False
    is_waiting = wait is not None and wait.kind in (WaitKind.DATA, WaitKind.FILE)
    return is_waiting or any(_LOADERS.search(one.file) for one in frames)


def _place(frames: Sequence[StackFrame]) -> str:
    frame = waits.user_frame(frames)
    return f"{frame.file.rpartition('/')[2]}:{frame.line}" if frame else ""

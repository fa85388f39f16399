"""Observes the processes of a node's ranks, twice if requested: their activity between the observations, and their
stacks.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from drumbeat.model.stacks import NodeFacts, ProcessFacts, ProgramSamples, RankFacts
from drumbeat.node.host import processes
from drumbeat.node.platform.gpu_reader import gpu_reader
from drumbeat.node.platform.gpu_readings import GpuProcess, GpuReading
from drumbeat.node.platform.rank_pids import rank_pids
from drumbeat.node.stacks import procfs, py_spy, stack_samples

# Tells whether the GPU of a process computes, or only waits for other ranks or for a kernel that never ends.
#
# A waiting kernel keeps its GPU as busy as a computing one, but reads the same word of memory again and again from a
# cache: the GPU's memory is idle. Measured on one H200, as values of the whole GPU: 0 % in endless kernels and in
# NCCL's collectives, 13 to 20 % with several trainings at once. Light work with a GPU of its own wasn't measured, and
# may be rounded to 0 %.

_OWN_SHARE = 0.25
"""A GPU is a process's own if the process holds at least this share of its largest use there: on the first GPU of a
machine, each process may have a context and nothing else.
"""


def current_memory_percents() -> dict[int, float]:
    """Returns the current `memory_percents`; {} if the driver doesn't answer in time."""
    return memory_percents(gpu_reader().read())


def memory_percents(readings: Sequence[GpuReading]) -> dict[int, float]:
    """Returns the share of time in which a process read or wrote the memory of its GPU, by pid, in percent.

    If the driver reports only the whole GPU, the busiest of the process's own GPUs counts. Processes without a GPU are
    missing, and so are those that the driver doesn't report, as in some containers.
    """
    on_gpus: dict[int, list[tuple[GpuReading, GpuProcess]]] = {}
    for reading in readings:
        for process in reading.processes:
            on_gpus.setdefault(process.pid, []).append((reading, process))
    percents = ((pid, _percents(pairs)) for pid, pairs in on_gpus.items())
    return {pid: max(values) for pid, values in percents if values}


def _percents(pairs: Sequence[tuple[GpuReading, GpuProcess]]) -> list[float]:
    sizes = [process.used for _, process in pairs]
    least = 0.0 if None in sizes else _OWN_SHARE * max(one for one in sizes if one is not None)
    percents = [process.memory_percent for _, process in pairs]
    for reading, process in pairs:
        if process.memory_percent is None and (process.used or 0) >= least:
            percents.append(reading.memory_percent)
    return [one for one in percents if one is not None]


MAX_PROCESSES = 32
"""The maximum number of processes of a rank that are observed, its first ones: a data loader may have a hundred
workers.
"""
MAX_SAMPLERS = 8
"""The maximum number of programs sampled at once: each needs its own py-spy."""
_DEVICES = (
    "/libcuda.so", "/dev/nvidia", "/dev/kfd", "/dev/dri/", "/libtpu", "/dev/accel", "/dev/davinci", "/libSynapse.so",
)  # fmt: skip
"""Mapped files that show that a process has a GPU, or another accelerator, open."""


@dataclass
class _Glance:
    """One observation of a process."""

    usage: procfs.ProcessUse | None = None
    dump: py_spy.Dump | None = None
    problem: str = ""
    has_device: bool = False


@dataclass
class _Look:
    """One observation of all ranks of a node."""

    at: float
    logs: dict[int, int]
    glances: dict[int, _Glance] = field(default_factory=dict[int, _Glance])
    on_gpus: dict[int, float] = field(default_factory=dict[int, float])
    """The result of `current_memory_percents`."""


class RankLooks:
    """Observes ranks under one supervisor.

    program: py-spy; without one, `problem` has the reason. logs: the file of each rank's log. on_gpus: returns the use
    of GPUs like `current_memory_percents`, and is called if a process has one.
    """

    def __init__(
        self,
        supervisor: int,
        logs: Mapping[int, str],
        program: str,
        problem: str = "",
        on_gpus: Callable[[], dict[int, float]] = current_memory_percents,
    ) -> None:
        self._supervisor, self._logs, self._program, self._problem = supervisor, logs, program, problem
        self._on_gpus = on_gpus

    def look(self, pause_s: float = 0.0, *, ranks: Collection[int] = (), is_native: bool = False) -> NodeFacts:
        """Returns the activity of the ranks. pause_s: between two observations, 0 = only one. ranks: () = all of the
        node's.
        """
        members = self._members(ranks)
        first = self._glance(members, is_native=is_native and not pause_s)
        if not pause_s:
            return self._facts(members, first, first)
        time.sleep(pause_s)
        return self._facts(members, first, self._glance(members, is_native=is_native))

    def sample(self, seconds: float) -> NodeFacts:
        """Samples the ranks' Python programs for this time, up to `MAX_SAMPLERS` of them at once."""
        members = {rank: [pid for pid in pids if _is_program(pid)] for rank, pids in self._members(()).items()}
        pids = [pid for pids in members.values() for pid in pids]
        if not pids or not self._program:
            return NodeFacts()
        with ThreadPoolExecutor(min(len(pids), MAX_SAMPLERS), "samples") as pool:
            futures = {pid: pool.submit(self._sample, pid, seconds) for pid in pids}
            sampled = {pid: future.result() for pid, future in futures.items()}
        ranks = (
            RankFacts(rank, programs=tuple(one for pid in pids if (one := sampled[pid]) is not None))
            for rank, pids in members.items()
        )
        return NodeFacts(seconds, tuple(ranks))

    def _sample(self, pid: int, seconds: float) -> ProgramSamples | None:
        """Samples a program for this time; returns None if it has ended."""
        begun, before = time.monotonic(), procfs.usage(pid)
        stacks = stack_samples.sample(self._program, pid, seconds)
        passed_s, after = time.monotonic() - begun, procfs.usage(pid)
        if before is None or after is None:
            return None
        cpu_s, ready_s = after.cpu_s - before.cpu_s, after.main_ready_s - before.main_ready_s
        return ProgramSamples(
            round(passed_s, 3),
            stacks,
            round(max(cpu_s, 0.0), 4),
            round(max(ready_s, 0.0), 4),
            after.switches,
            after.switches - before.switches,
            processes.has_mapped(pid, _DEVICES),
        )

    def _members(self, ranks: Collection[int]) -> dict[int, list[int]]:
        members: dict[int, list[int]] = {}
        for pid, rank in rank_pids(self._supervisor):
            if not ranks or rank in ranks:
                members.setdefault(rank, []).append(pid)
        return {rank: pids[:MAX_PROCESSES] for rank, pids in sorted(members.items())}

    def _glance(self, members: dict[int, list[int]], *, is_native: bool) -> _Look:
        look = _Look(time.monotonic(), {rank: _size(path) for rank, path in self._logs.items()})
        for pids in members.values():
            for pid in pids:
                look.glances[pid] = self._process(pid, is_native=is_native)
        if any(one.has_device for one in look.glances.values()):
            look.on_gpus = self._on_gpus()
        return look

    def _process(self, pid: int, *, is_native: bool) -> _Glance:
        glance = _Glance(procfs.usage(pid), has_device=processes.has_mapped(pid, _DEVICES))
        if glance.usage is None or not processes.is_python(pid):
            return glance
        if not self._program:
            glance.problem = self._problem
            return glance
        try:
            glance.dump = py_spy.dump(self._program, pid, is_native=is_native)
        except py_spy.NoStackError as error:
            glance.problem = str(error)
        return glance

    def _facts(self, members: dict[int, list[int]], first: _Look, second: _Look) -> NodeFacts:
        ranks: list[RankFacts] = []
        for rank, pids in members.items():
            facts = [_process_facts(pid, first, second) for pid in pids]
            living = tuple(one for one in facts if one is not None)
            grown = second.logs.get(rank, 0) - first.logs.get(rank, 0)
            ranks.append(RankFacts(rank, living, grown, len(facts) - len(living)))
        return NodeFacts(round(second.at - first.at, 3), tuple(ranks))


def _process_facts(pid: int, earlier: _Look, later: _Look) -> ProcessFacts | None:
    """Returns the activity of a process between two observations, None = it has ended."""
    first, second = earlier.glances[pid], later.glances[pid]
    before, after = first.usage, second.usage
    if before is None or after is None:
        return None
    dump = second.dump
    return ProcessFacts(
        pid=pid,
        command=procfs.command(pid),
        is_helper=processes.is_helper(pid),
        state=after.state,
        kernel=procfs.waits_in(pid),
        cpu_s=round(max(after.cpu_s - before.cpu_s, 0.0), 4),
        main_cpu_s=round(after.main_cpu_s - before.main_cpu_s, 4),
        io_bytes=after.io_bytes - before.io_bytes,
        switches=after.switches - before.switches,
        swap_faults=after.swap_faults - before.swap_faults,
        swapped_mib=round(after.swapped_mib, 1),
        gpu_memory_percent=max(earlier.on_gpus.get(pid, 0.0), later.on_gpus.get(pid, 0.0)),
        has_device=second.has_device,
        threads=dump.threads if dump else (),
        place=dump.place if dump else "",
        is_same_place=dump is not None and first.dump is not None and first.dump.place == dump.place,
        problem=second.problem,
    )


def _is_program(pid: int) -> bool:
    """Whether a process is a Python program that isn't a worker of another one."""
    return processes.is_python(pid) and not processes.is_helper(pid)


def _size(path: str) -> int:
    try:
        return os.path.getsize(path)
    except OSError:
        return 0

"""The processes of one job on this machine: its ranks, and the agents and supervisors of its nodes.

A process belongs to a job by what drumbeat gave it at its start: ranks have their supervisor's marker in their
environment, and agents and supervisors have their folder on their command line; both start with the server's home. Warm
workers of an earlier job have the folder of that job: such a rank belongs to the job in whose folder it works, and so
does its supervisor. Each process is identified by its pid and birth, so that a reused pid is never hit.
"""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from drumbeat.model.programs import SUPERVISOR
from drumbeat.node.host import processes

_RANK_VARIABLES = ("RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID")


@dataclass(frozen=True)
class TargetProcess:
    """A process of a job. birth: as in `node.host.processes.birth`."""

    pid: int
    birth: str
    name: str
    """The description: `rank 1`, `the agent of node 0`."""
    order: int

    @property
    def is_alive(self) -> bool:
        """Whether the process is still this very one and runs."""
        return processes.is_still(self.pid, self.birth)

    def send(self, number: signal.Signals) -> bool:
        """Sends a signal; returns False if the process has ended."""
        if not self.is_alive:
            return False
        try:
            os.kill(self.pid, number)
        except ProcessLookupError:
            return False
        return True


def ranks(home: Path, job: str) -> list[TargetProcess]:
    """Returns the running ranks of a job, in the order of their numbers.

    For a rank that a shell starts it is the Python program in it. Warm workers aren't ranks yet.
    """
    own = _job_paths(home, job)
    spoken = {
        pid: values
        for pid, values in processes.environments(processes.MARKER, *_RANK_VARIABLES)
        if values[processes.MARKER]
        and not processes.is_spare(pid)
        and (own(values[processes.MARKER]) or own(f"{processes.present_folder(pid)}/"))
    }
    programs = [pid for pid in spoken if processes.is_python(pid)] or [*spoken]
    below = {*processes.descendants(*programs)}
    tops = [pid for pid in programs if pid not in below]
    numbered = sorted((_number(spoken[pid]), pid) for pid in tops)
    return [*_targets((pid, f"rank {number}", number) for number, pid in numbered)]


def agents(home: Path, job: str) -> list[TargetProcess]:
    """Returns the agents of a job's nodes."""
    return _node_processes(home, job, "agent", "/enrolment.json")


def supervisors(home: Path, job: str) -> list[TargetProcess]:
    """Returns the supervisors of a job's nodes: its own, and those of earlier jobs that have ranks of this one."""
    named = _node_processes(home, job, "keeper", "/root/keeper")
    nodes = {target.order for target in named}
    places = {rank.pid: f"{processes.present_folder(rank.pid)}/" for rank in ranks(home, job)}
    others = [pid for pid, words in processes.command_lines() if SUPERVISOR in words]
    inner = {*processes.descendants(*others)}
    adopted = {
        _node(places[rank], job): pid
        for pid in others
        if pid not in inner
        for rank in {*processes.descendants(pid)} & places.keys()
    }
    missing = sorted((node, pid) for node, pid in adopted.items() if node not in nodes)
    return [*named, *_targets((pid, f"the supervisor of node {node}", node) for node, pid in missing)]


def _job_paths(home: Path, job: str) -> Callable[[str], bool]:
    """Returns a predicate for paths of this job: below the home, in a folder named by the job and its attempt."""
    part = re.compile(rf"/{re.escape(job)}\.\d+/")
    begin = f"{home}/"
    return lambda path: path.startswith(begin) and bool(part.search(path))


def _node_processes(home: Path, job: str, whose: str, end: str) -> list[TargetProcess]:
    own = _job_paths(home, job)
    folders = {
        pid: folder
        for pid, words in processes.command_lines()
        if (folder := next((word for word in words if word.endswith(end) and own(word)), ""))
    }
    # A supervisor has a child with the same name, which holds its namespaces.
    below = {*processes.descendants(*folders)}
    numbered = sorted((_node(folder, job), pid) for pid, folder in folders.items() if pid not in below)
    return [*_targets((pid, f"the {whose} of node {node}", node) for node, pid in numbered)]


def _node(folder: str, job: str) -> int:
    number = re.search(rf"/{re.escape(job)}\.\d+/(\d+)", folder)
    return int(number[1]) if number else 0


def _number(values: dict[str, str]) -> int:
    return next((int(values[name]) for name in _RANK_VARIABLES if values[name].isdigit()), 0)


def _targets(pids: Iterable[tuple[int, str, int]]) -> Iterator[TargetProcess]:
    for pid, name, order in pids:
        if birth := processes.birth(pid):
            yield TargetProcess(pid, birth, name, order)

"""Faults that leave a job its world size: who is hit, found by what runs now, and how."""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import psutil

from drumbeat.node.host import processes
from tests.real.house import until
from tools.faults.engines import LOW, Ground

CUT_S = 5.0
AWAY_S = 2.0
"""How long nobody asks for a server that was killed."""
WITHIN_S = 120.0


@dataclass(frozen=True)
class Hit:
    """A fault. engines: on which it is played. sets: of the job file. compute: another one than the ground's."""

    name: str
    engines: tuple[str, ...]
    strike: Callable[[Ground, str], object]
    sets: tuple[str, ...] = ()
    compute: str = ""


def _ranks(job: str) -> Iterator[tuple[int, psutil.Process]]:
    """Yields the numbers and processes of a job's ranks: Python programs that work in a folder of the job's."""
    for pid, values in processes.environments("RANK"):
        if processes.is_python(pid) and not processes.is_spare(pid) and values["RANK"].isdigit():
            process = psutil.Process(pid)
            try:
                if _names(process.cwd(), job) and not _is_below_a_rank(process):
                    yield int(values["RANK"]), process
            except psutil.Error:
                continue


def _is_below_a_rank(process: psutil.Process) -> bool:
    above = process.parent()
    return bool(above and processes.is_python(above.pid) and "drumbeat" not in " ".join(above.cmdline()))


def _names(path: str, job: str) -> bool:
    """Whether a path leads into a folder of the job."""
    return bool(re.search(rf"[/-]{re.escape(job)}(?:\.\d+)?/", f"{path}/"))


def rank_of(job: str, number: int) -> psutil.Process:
    """Returns the process of a rank, once it runs."""
    found: dict[int, psutil.Process] = {}

    def is_there() -> bool:
        found.update(_ranks(job))
        return number in found

    until(is_there, WITHIN_S, f"rank {number} of {job}")
    return found[number]


def _supervisor_of(rank: psutil.Process) -> psutil.Process:
    """Returns the outermost supervisor above a rank: its child of the same name holds the namespaces."""
    supervisors = [above for above in rank.parents() if "drumbeat.node.supervisor.supervisor" in above.cmdline()]
    assert supervisors, f"no supervisor above {rank}: {[above.cmdline() for above in rank.parents()]}"
    return supervisors[-1]


def agent_of(job: str, node: int) -> psutil.Process:
    """Returns the agent of a node of the job."""
    end = re.compile(rf"[/-]{re.escape(job)}\.\d+/{node}/enrolment\.json$")
    for pid, words in processes.command_lines():
        if "drumbeat.node.agent" in " ".join(words) and any(end.search(word) for word in words):
            return psutil.Process(pid)
    raise LookupError(f"no agent of node {node} of {job}")


# --- strikes ------------------------------------------------------------------------------------------------------
def _kill_rank(_: Ground, job: str) -> None:
    rank_of(job, 1).kill()


def _stop_rank(_: Ground, job: str) -> None:
    rank_of(job, 3).send_signal(signal.SIGSTOP)


def _kill_agent(_: Ground, job: str) -> None:
    agent_of(job, 1).kill()


def _kill_supervisor(_: Ground, job: str) -> None:
    _supervisor_of(rank_of(job, 2)).kill()


def _kill_server(ground: Ground, _: str) -> None:
    server = ground.house.server()
    server.kill()
    until(lambda: not server.is_running() or server.status() == psutil.STATUS_ZOMBIE, WITHIN_S, "its end")
    time.sleep(AWAY_S)
    ground.house.client.status()


def _machine(ground: Ground, job: str) -> str:
    """Returns the machine of the job's second node."""
    node = ground.house.client.get(job).nodes[1]
    return node.host if ground.cluster else node.machine


def _cut_for_a_while(ground: Ground, job: str) -> None:
    machine, lab = _machine(ground, job), ground.nodes.lab
    lab.set_link(machine, is_up=False)
    time.sleep(CUT_S)
    lab.set_link(machine, is_up=True)


def _cut_for_good(ground: Ground, job: str) -> None:
    ground.nodes.lab.set_link(_machine(ground, job), is_up=False)


def _switch_off(ground: Ground, job: str) -> None:
    ground.nodes.switch_off(_machine(ground, job))


def _preempt(ground: Ground, job: str) -> None:
    ground.take_nodes()
    until(lambda: ground.house.client.get(job).attempt == 2, WITHIN_S, "the next attempt")
    ground.give_back()


ALL = ("local", "netlab", "slurm")
HITS = (
    Hit("`kill -9` of a rank", ALL, _kill_rank),
    Hit("SIGSTOP of a rank (`on_hang: restart`)", ALL, _stop_rank,
        ("drumbeat.hang_after_s=4", "drumbeat.on_hang=restart")),
    Hit("`kill -9` of an agent", ALL, _kill_agent),
    Hit("`kill -9` of a supervisor", ALL, _kill_supervisor),
    Hit("`kill -9` of the server", ALL, _kill_server),
    Hit(f"the link of a node is down for {CUT_S:.0f} s", ("netlab", "slurm"), _cut_for_a_while),
    Hit("the link of a node goes down for good", ("netlab", "slurm"), _cut_for_good, ("drumbeat.lost_after_s=10",)),
    Hit("a node is switched off", ("netlab", "slurm"), _switch_off, ("drumbeat.lost_after_s=120",)),
    Hit("preempted and queued again", ("slurm",), _preempt, (), LOW),
)  # fmt: skip

"""A house's processes are killed or stopped, its disk is filled, a node's link cut; all found by its own paths."""

from __future__ import annotations

import contextlib
import re
import signal
import subprocess
import time
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import psutil

from drumbeat import Client
from drumbeat.model.errors import ConflictError
from tests.real.house import House, a_house, until
from tests.real.places import Place
from tools.slurmlab import SlurmLab

from .instants import Instant
from .mortal import Mortal

DISK_MIB = 64


def victim(house: House, who: str, job: str, node: int) -> psutil.Process | None:
    """The server of the house, or the agent or supervisor of a node of the job's; None = there is none now."""
    own = {
        "server": ("drumbeat.server", rf"{re.escape(str(house.home))}$"),
        "agent": ("drumbeat.node.agent", rf".*[/-]{job}\.1/{node}/enrolment\.json$"),
        "supervisor": ("drumbeat.node.supervisor.supervisor", rf".*[/-]{job}\.1/{node}(/root)?/keeper$"),
    }
    module, place = own[who]
    for process, words in programs_in(house.folder):
        if module in words and any(re.match(place, word) for word in words):
            return process
    return None


def programs_in(folder: Path) -> Iterator[tuple[psutil.Process, list[str]]]:
    """Yields the processes with a path in the folder on their command line, and that."""
    psutil.process_iter.cache_clear()  # type: ignore[attr-defined] # A pid may be another's by now.
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            words = process.cmdline()
            if any(str(folder) in word for word in words) and process.status() != psutil.STATUS_ZOMBIE:
                yield process, words


def strike(mortal: Mortal, instant: Instant, job: str, meanwhile: Callable[[], object]) -> list[str]:
    """The fault, to its end; `meanwhile` is done once it has struck. Gives who was really hit."""
    faults = {"stopped": stop, "disk full": fill, "link cut": cut, "node off": switch_off}
    return faults.get(instant.fault, kill)(mortal, instant, job, meanwhile)


def _found(mortal: Mortal, instant: Instant, job: str) -> dict[str, psutil.Process]:
    found = {who: victim(mortal.house, who, job, instant.node) for who in instant.victims}
    return {who: process for who, process in found.items() if process}


def kill(mortal: Mortal, instant: Instant, job: str, meanwhile: Callable[[], object]) -> list[str]:
    """`kill -9`, and nobody asks for a while."""
    found = _found(mortal, instant, job)
    for process in found.values():
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    for process in found.values():
        until(lambda one=process: is_gone(one), 60, "the end of a killed process")
    meanwhile()
    time.sleep(instant.lasts_s)
    return [*found]


def is_gone(process: psutil.Process) -> bool:
    """Whether it has ended, taken by its parent or not."""
    try:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def stop(mortal: Mortal, instant: Instant, job: str, meanwhile: Callable[[], object]) -> list[str]:
    """SIGSTOP, and SIGCONT after a while."""
    found = _found(mortal, instant, job)
    try:
        for process in found.values():
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(signal.SIGSTOP)
        meanwhile()
        time.sleep(instant.lasts_s)
    finally:
        for process in found.values():
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(signal.SIGCONT)
    return [*found]


def fill(mortal: Mortal, instant: Instant, job: str, meanwhile: Callable[[], object]) -> list[str]:
    """The disk that all of the house lies on has no byte left; after a while somebody makes room."""
    assert mortal.house.folder.is_mount(), "only a disk of the house's own is filled"
    filler = mortal.house.folder / "filler"
    try:
        with filler.open("wb", buffering=0) as file, contextlib.suppress(OSError):
            while file.write(bytes(1 << 16)):
                pass
        meanwhile()
        time.sleep(instant.lasts_s)
    finally:
        filler.unlink()
    return ["disk"]


def cut(mortal: Mortal, instant: Instant, job: str, meanwhile: Callable[[], object]) -> list[str]:
    """The link of a node of the job's is down for a while."""
    assert isinstance(mortal, Networked)
    machine = mortal.machine_of(job, instant.node)
    if not machine:
        return []
    mortal.place.lab.set_link(machine, is_up=False)
    try:
        meanwhile()
        time.sleep(instant.lasts_s)
    finally:
        mortal.place.lab.set_link(machine, is_up=True)
    return [machine]


def switch_off(mortal: Mortal, instant: Instant, job: str, meanwhile: Callable[[], object]) -> list[str]:
    """A node of the job's is off for a while, with everything on it."""
    assert isinstance(mortal, Networked)
    machine = mortal.machine_of(job, instant.node)
    if not machine:
        return []
    mortal.place.switch_off(machine)
    try:
        meanwhile()
        time.sleep(instant.lasts_s)
    finally:
        mortal.switch_on(machine)
    return [machine]


class Networked(Mortal):
    """A house whose jobs run on nodes of a lab."""

    def __init__(self, place: Place) -> None:
        super().__init__(place.house)
        self.place = place

    def machine_of(self, job: str, node: int) -> str:
        """Returns the lab's name of a node of a job, "" = it has no nodes now."""
        nodes = self.job(job).nodes
        return nodes[node].machine if nodes else ""

    def switch_on(self, machine: str) -> None:
        """Starts a node again, as it was."""
        self.place.switch_on(machine)

    def left(self) -> list[object]:
        """The lab's own processes stay."""
        lab = self.place
        return [*lab.processes(), *(gang for node in lab.nodes for gang in lab.gangs(node).glob("[!.]*"))]


class Clustered(Networked):
    """A house whose jobs run on a real Slurm on the nodes of a lab."""

    def __init__(self, place: Place, cluster: SlurmLab) -> None:
        super().__init__(place)
        self.cluster = cluster

    def checkpoints(self, name: str) -> Path:
        """Returns where a job's checkpoints lie: in the folder that all nodes see."""
        found = (self.cluster.shared / "jobs").glob(f"*-{name}/checkpoints")
        return next(found, self.cluster.shared / "jobs" / name)

    def machine_of(self, job: str, node: int) -> str:
        """Returns the lab's name of a node of a job: Slurm chooses it."""
        nodes = self.job(job).nodes
        return nodes[node].host if nodes else ""

    def switch_on(self, machine: str) -> None:
        """Starts a node again, with its daemons."""
        super().switch_on(machine)
        self.cluster.start(machine)

    def left(self) -> list[object]:
        """Slurm's own daemons stay."""
        self.ask(self.house.client.status)
        gangs = [*(self.cluster.shared / "gangs").glob("*"), *self.cluster.folder.glob("scratch/*/drumbeat-*/[!.]*")]
        programs = programs_in(self.cluster.folder)
        agents = [process.pid for process, words in programs if "drumbeat.node." in " ".join(words)]
        return [*gangs, *agents, *self.cluster.slurm("squeue", "-h", "-o", "%i %T").splitlines()]


@contextlib.contextmanager
def a_small_house(folder: Path) -> Generator[House]:
    """A house on a disk of its own, which can be filled. Needs root."""
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_MIB}m", "tmpfs", folder], check=True)
    try:
        with a_house(folder) as house:
            yield house
    finally:
        subprocess.run(["umount", "-l", folder], check=False)


def cancel_whoever_dies(mortal: Mortal, job: str) -> bool:
    """Asks until somebody answers: whether the job is canceled; else it was done already."""
    with Client(home=mortal.house.home) as client:

        def once() -> bool:
            try:
                client.cancel(job)
            except ConflictError:
                return False
            return True

        return bool(mortal.ask(once, 120))

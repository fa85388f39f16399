"""Faults, carried out on this machine: only on processes of the job, on the link of its node, on a disk of its own."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import subprocess
import time
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from pathlib import Path

from drumbeat.model.errors import EngineError
from drumbeat.rehearsal import target_processes
from drumbeat.rehearsal.fault_costs import Strike
from drumbeat.rehearsal.faults import DrawnFault, FaultKind
from drumbeat.rehearsal.target_processes import TargetProcess

_LOOK_S = 0.05
_DISK_PIECE = 1 << 16
FILLER = ".drumbeat-rehearsal-filler"


class MissedFaultError(Exception):
    """The job had no such process any more: it had ended, or its ranks were just being started."""


@dataclass(frozen=True)
class FaultScene:
    """The job that is hit, and what is asked while a fault lasts."""

    home: Path
    """Of the server."""
    job: str
    machines: tuple[str, ...]
    """Of its nodes."""
    lasts_s: float
    """After how many seconds a fault that can be undone is undone."""
    is_over: Callable[[], bool]
    """Whether the job has ended, or its ranks were started again."""
    lab: Path | None = None
    """The folder of the netlab that it runs on."""
    disk: Path | None = None
    """The folder of its checkpoints, where that is a disk of its own."""


def strike(fault: DrawnFault, scene: FaultScene) -> Strike:
    """Carries a fault out, and undoes it. Raises MissedFaultError, EngineError."""
    match fault.kind:
        case FaultKind.KILL:
            return _kill(_one_of(target_processes.ranks(scene.home, scene.job), fault))
        case FaultKind.AGENT:
            return _kill(_one_of(target_processes.agents(scene.home, scene.job), fault))
        case FaultKind.KEEPER:
            return _kill(_one_of(target_processes.supervisors(scene.home, scene.job), fault))
        case FaultKind.STOP:
            return _stop(_one_of(target_processes.ranks(scene.home, scene.job), fault), scene)
        case FaultKind.CUT:
            return _cut(fault, scene)
        case FaultKind.FILL_DISK:
            return _fill(scene)


def _one_of(candidates: list[TargetProcess], fault: DrawnFault) -> TargetProcess:
    if not candidates:
        raise MissedFaultError
    return candidates[fault.index(len(candidates))]


def _kill(target: TargetProcess) -> Strike:
    now = time.time()
    if not target.send(signal.SIGKILL):
        raise MissedFaultError
    return Strike(now, now, target.name)


def _stop(target: TargetProcess, scene: FaultScene) -> Strike:
    begin = time.time()
    if not target.send(signal.SIGSTOP):
        raise MissedFaultError
    try:
        for _ in _looks(scene):
            if not target.is_alive:
                break
    finally:
        target.send(signal.SIGCONT)
    return Strike(begin, time.time(), target.name)


def _looks(scene: FaultScene) -> Iterator[None]:
    """Yields again and again until the fault's time is up, or it has had its effect on the job."""
    end = time.monotonic() + scene.lasts_s
    while time.monotonic() < end and not scene.is_over():
        yield
        time.sleep(_LOOK_S)


def _cut(fault: DrawnFault, scene: FaultScene) -> Strike:
    from drumbeat.engines.netlab.lab import Lab

    if scene.lab is None or not scene.machines:
        raise MissedFaultError
    number = fault.index(len(scene.machines))
    lab = Lab(scene.lab, scene.lab.name, 0)
    begin = time.time()
    lab.set_link(scene.machines[number], is_up=False)
    try:
        for _ in _looks(scene):
            pass
    finally:
        lab.set_link(scene.machines[number], is_up=True)
    return Strike(begin, time.time(), f"the link of node {number}")


def _fill(scene: FaultScene) -> Strike:
    if scene.disk is None:
        raise MissedFaultError
    filler, begin = scene.disk / FILLER, time.time()
    try:
        with filler.open("wb", buffering=0) as file:
            for _ in _looks(scene):
                _fill_up(file.fileno())
    finally:
        filler.unlink(missing_ok=True)
    return Strike(begin, time.time(), "the disk of the checkpoints")


def _fill_up(file: int) -> None:
    """Takes what room there is: a job that removes a file makes some again."""
    piece = bytes(_DISK_PIECE)
    try:
        while os.write(file, piece):
            pass
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise


@contextlib.contextmanager
def own_disk(folder: Path, size: int) -> Generator[Path]:
    """A disk of so many bytes at a folder, which a job's checkpoints go to; gone afterwards with all on it. Needs root.

    Raises EngineError if it can't be mounted.
    """
    folder.mkdir(parents=True, exist_ok=True)
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size},mode=0755", "drumbeat-rehearsal", str(folder)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if mounted.returncode:
        what = f"no disk of its own can be mounted for the job: {mounted.stderr.strip()}"
        raise EngineError(what, where=str(folder), fix="Leave `fill-disk` out of --faults, or work as root.")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=False)

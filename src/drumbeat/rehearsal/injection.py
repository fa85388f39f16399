"""Injects faults on this machine: only into processes of the job, the link of its node, or a disk of its own."""

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
    """Raised when the job no longer had such a process: it had ended, or its ranks were just being started."""


@dataclass(frozen=True)
class FaultScene:
    """The target job of a fault, and the callbacks while it lasts."""

    home: Path
    """The home of the server."""
    job: str
    machines: tuple[str, ...]
    """The machines of its nodes."""
    lasts_s: float
    """How long a fault lasts that can be undone."""
    is_over: Callable[[], bool]
    """Whether the job has ended, or its ranks were restarted."""
    lab: Path | None = None
    """The folder of the netlab on which it runs."""
    disk: Path | None = None
    """The folder of its checkpoints, if that is a separate disk."""


def strike(fault: DrawnFault, scene: FaultScene) -> Strike:
    """Injects a fault, and undoes it. Raises MissedFaultError, EngineError."""
    match fault.kind:
        case FaultKind.KILL:
            return _kill(_choose(target_processes.ranks(scene.home, scene.job), fault))
        case FaultKind.AGENT:
            return _kill(_choose(target_processes.agents(scene.home, scene.job), fault))
        case FaultKind.KEEPER:
            return _kill(_choose(target_processes.supervisors(scene.home, scene.job), fault))
        case FaultKind.STOP:
            return _stop(_choose(target_processes.ranks(scene.home, scene.job), fault), scene)
        case FaultKind.CUT:
            return _cut(fault, scene)
        case FaultKind.FILL_DISK:
            return _fill(scene)


def _choose(candidates: list[TargetProcess], fault: DrawnFault) -> TargetProcess:
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
    """Yields repeatedly until the fault's time is up, or it has had its effect on the job."""
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
    """Fills the free space, repeatedly, because a job that removes a file frees some."""
    piece = bytes(_DISK_PIECE)
    try:
        while os.write(file, piece):
            pass
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise


@contextlib.contextmanager
def own_disk(folder: Path, size: int) -> Generator[Path]:
    """Mounts a disk of `size` bytes at a folder for a job's checkpoints, and removes it afterwards with its content.
    Needs root.

    Raises EngineError if it can't be mounted.
    """
    folder.mkdir(parents=True, exist_ok=True)
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size},mode=0755", "drumbeat-rehearsal", str(folder)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if mounted.returncode:
        what = f"no separate disk can be mounted for the job: {mounted.stderr.strip()}"
        raise EngineError(what, where=str(folder), fix="Omit `fill-disk` from --faults, or run as root.")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=False)

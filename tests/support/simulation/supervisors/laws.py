"""What must hold of supervisors, warm workers and ranks on the machine."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from drumbeat.model.supervisor import ProcessStart
from drumbeat.node.supervisor import listener, spare_folders
from drumbeat.node.supervisor.spare_supervisor import SPARE_CHECK_INTERVAL_S
from drumbeat.node.supervisor.warm_pool import MAX_WARM_WORKERS, MEMORY_CHECK_INTERVAL_S
from tests.support.simulation.supervisors.machine import Box, PlayedProcess, SupervisorProcess
from tests.support.simulation.violation import require

_FINGERPRINT = ("OMP_NUM_THREADS", "RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE")
"""Variables in which an interpreter and its rank must not differ."""


def check(box: Box) -> None:
    """All that must hold after every step."""
    require(not box.wrongs, "; ".join(box.wrongs))
    alive = [one for one in box.processes.values() if one.is_alive]
    for one in alive:
        require(len(one.served) <= 1, f"process {one.pid} has been {' and '.join(map(str, one.served))}")
        require(one.supervisor in box.supervisors, f"process {one.pid} has outlived its supervisor")
    _parts(box)
    for supervisor in box.supervisors.values():
        _place(box, supervisor)
    in_wait = Counter(one.supervisor for one in alive if one.is_interpreter and not one.served)
    require(all(count <= MAX_WARM_WORKERS for count in in_wait.values()), f"too many interpreters wait: {in_wait}")


def _parts(box: Box) -> None:
    parts = Counter(part for one in box.processes.values() for part in one.served)
    doubled = [str(part) for part, count in parts.items() if count > 1]
    require(not doubled, f"started twice: {doubled}")


def _place(box: Box, supervisor: SupervisorProcess) -> None:
    """Ranks run only below the supervisor of their own attempt."""
    ranks = [one.served[-1] for one in box.of(supervisor.pid) if one.served]
    if ranks:
        own = Path(supervisor.root).name
        strange = [str(part) for part in ranks if f"{part.job}.{part.attempt}" != own]
        require(not strange, f"{strange} run below the supervisor of {own or 'no attempt'}")


def check_rank(process: PlayedProcess, rank: ProcessStart) -> str:
    """Returns why a process mustn't be this rank, "" = it may."""
    begun = process.begun
    if begun.argv != rank.argv:
        return f"{process.served[-1]} began as another command: {begun.argv}"
    names = [name for name in _FINGERPRINT if begun.env.get(name) != rank.env.get(name)]
    return f"{process.served[-1]} has other values of {names} than it began with" if names else ""


def check_after_wait(box: Box, seconds: float) -> None:
    """What must hold when every supervisor has looked around. seconds: that have passed since it did so before."""
    home = f"{box.home}/spares"
    waiting = [one for one in box.supervisors.values() if one.supervisor is not None and one.supervisor.spare.is_spare]
    for one in waiting:
        spare = next((each for each in spare_folders.listed(one.machine) if each.pid == one.pid), None)
        age_s = box.clock.now().timestamp() - spare.since if spare else 0.0
        limit_s = spare_folders.idle_s(one.machine) + SPARE_CHECK_INTERVAL_S
        require(
            age_s <= limit_s, f"a spare supervisor has waited for {age_s:g} s, with {seconds:g} s since its last look"
        )
    here = [
        one for one in waiting if one.lock is not None and any(one.is_in(f"{home}/{name}") for name in _names(home))
    ]
    require(len(here) <= spare_folders.MAX_SPARES, f"{len(here)} spare supervisors wait")
    if box.free < 0.05 and box.free_for_s >= MEMORY_CHECK_INTERVAL_S:
        idle = [one.pid for one in box.processes.values() if one.is_alive and one.is_interpreter and not one.served]
        require(not idle, f"memory is short, and {idle} wait")


def check_at_the_end(box: Box) -> None:
    """When every job has ended, and every spare supervisor has waited long enough, nothing is left."""
    require(not box.supervisors, f"supervisors are left: {[one.folder for one in box.supervisors.values()]}")
    left = [one.pid for one in box.processes.values() if one.is_alive]
    require(not left, f"processes are left: {left}")
    dead = [name for name in _names(f"{box.home}/spares") if not listener.is_held(f"{box.home}/spares/{name}")]
    require(not dead, f"folders of spare supervisors are left: {dead}")


def _names(home: str) -> list[str]:
    return sorted(one.name for one in Path(home).iterdir()) if Path(home).is_dir() else []

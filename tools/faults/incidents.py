"""Runs labelled incidents through drumbeat, and counts what blame made of them."""

from __future__ import annotations

import json
import os
import signal
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from tests.real.house import House
from tests.support.incidents import Incident, Said

MEMORY_CGROUPS = (Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup"))
LIMIT_FILES = ("memory.limit_in_bytes", "memory.max")
LIMIT_BYTES = 64 << 20
DEADLINE_S = 120.0


@dataclass(frozen=True)
class Finding:
    """What became of one incident. wrong: what the verdict got wrong; empty = nothing."""

    incident: Incident
    said: Said
    wrong: tuple[str, ...]
    tail: str = ""
    rounds: int = 0


def find_missing(incident: Incident) -> str:
    """What this machine lacks for an incident; "" = nothing."""
    if "torch" in incident.needs and find_spec("torch") is None:
        return "torch isn't installed"
    if "cgroup" in incident.needs:
        with make_memory_cgroup() as folder:
            return "" if folder else "no memory cgroup can be made (root, and a cgroup file system that may be written)"
    return ""


def run_incident(house: House, incident: Incident, max_retries: int = 0) -> Finding:
    """The verdict on one run."""
    with make_memory_cgroup() if "cgroup" in incident.needs else nullcontext() as cgroup:
        job = house.client.submit(write_job(house, incident, cgroup, max_retries)).name
        ended = house.client.wait(job, DEADLINE_S)
    if ended is None:
        house.client.cancel(job)
        house.client.wait(job, DEADLINE_S)
        said = Said(None, "", f"had not ended after {DEADLINE_S:.0f} s")
        return Finding(incident, said, tuple(incident.wrong(said)))
    if ended.verdict is None:
        said = Said(None, ended.reason, ended.sentence)
        return Finding(incident, said, tuple(incident.wrong(said)))
    verdict = ended.verdict
    said = Said(verdict.rank, str(verdict.reason), verdict.sentence, verdict.advice)
    return Finding(incident, said, tuple(incident.wrong(said)), verdict.tail, ended.round)


def write_job(house: House, incident: Incident, cgroup: Path | None, max_retries: int) -> Path:
    """The job file of an incident, in a folder of its own."""
    folder = f"incident-{uuid.uuid4().hex[:8]}"
    path = house.job_file(
        folder,
        code="code",
        command=json.dumps(incident.command),
        distribution=f"{{type: pytorch, process_count_per_instance: {incident.world}}}",
        drumbeat=f"{{max_retries: {max_retries}, grace_s: 20}}",
        environment_variables=json.dumps({"INCIDENT_CGROUP": str(cgroup or "")}),
    )
    for name, text in incident.all_files.items():
        file = path.parent / "code" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return path


@contextmanager
def make_memory_cgroup(limit_bytes: int = LIMIT_BYTES) -> Iterator[Path | None]:
    """A cgroup of the first or second version that ends what takes more memory; None where none can be made."""
    folder = next((path for parent in MEMORY_CGROUPS if (path := make_in(parent, limit_bytes))), None)
    try:
        yield folder
    finally:
        if folder:
            end_cgroup(folder)


def make_in(parent: Path, limit_bytes: int) -> Path | None:
    """A cgroup below this one, with its limit; None when that can't be."""
    folder = parent / f"drumbeat-incident-{uuid.uuid4().hex[:8]}"
    try:
        folder.mkdir()
    except OSError:
        return None
    for name in LIMIT_FILES:
        with suppress(OSError):
            if (folder / name).exists():
                (folder / name).write_text(str(limit_bytes))
                return folder
    folder.rmdir()
    return None


def end_cgroup(folder: Path) -> None:
    """Ends what is left in it, and removes it."""
    while pids := (folder / "cgroup.procs").read_text(encoding="ascii").split():
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
    folder.rmdir()


def count_right(findings: Sequence[Finding], *parts: str) -> int:
    """How many verdicts got all of these right; no part = everything."""
    return sum(not (set(found.wrong) & set(parts) if parts else found.wrong) for found in findings)

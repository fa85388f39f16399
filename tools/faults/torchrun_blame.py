"""Runs labelled incidents under torchrun, with the same files and commands, and reads which rank it blames."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

from tests.support.agent_gang import end_all
from tests.support.incidents import Incident
from tools.faults.incidents import find_missing, make_memory_cgroup
from tools.faults.scene import Missed, Torchrun

DEADLINE_S = 90.0
"""After SIGTERM it waits 30 s for ranks that don't listen."""
AT_ONCE = 2
NEEDS_SHELL = re.compile(r"[^\w\s./=:-]")


@dataclass(frozen=True)
class Theirs:
    """What torchrun said of an incident. rank: None = it blamed none. word: what it said, without its 30 lines."""

    incident: Incident
    rank: int | None
    word: str
    seconds: float

    @property
    def is_right(self) -> bool:
        """Whether the rank is; it has no words for reasons."""
        return self.rank in self.incident.ranks


def play_all(incidents: Sequence[Incident], folder: Path) -> dict[str, Theirs]:
    """All that can be played here, by name, a few at a time; what went wrong is printed."""

    def once(number: int) -> Theirs | None:
        incident = incidents[number]
        try:
            return None if find_missing(incident) else play(incident, folder / f"torchrun{number:03}")
        except Exception as error:  # noqa: BLE001 - the others go on, and this one counts as not played
            print(f"torchrun could not be given {incident.name}: {error}", flush=True)
            return None

    with ThreadPoolExecutor(AT_ONCE) as pool:
        return {theirs.incident.name: theirs for theirs in pool.map(once, range(len(incidents))) if theirs}


def play(incident: Incident, folder: Path) -> Theirs:
    """One incident in a folder of its own, whose path is no other's beginning; whatever is left of it is ended."""
    for name, text in incident.all_files.items():
        file = folder / "code" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    with make_memory_cgroup() if "cgroup" in incident.needs else nullcontext() as cgroup:
        try:
            return look(incident, start(incident, folder, cgroup))
        finally:
            end_all(str(folder))


def start(incident: Incident, folder: Path, cgroup: Path | None) -> Torchrun:
    """One torchrun with every rank."""
    torchrun = Path(sys.executable).with_name("torchrun")
    environment = {
        **os.environ,
        "INCIDENT_CGROUP": str(cgroup or ""),
        "PATH": f"{torchrun.parent}:{os.environ['PATH']}",
        "TMPDIR": str(folder),
    }
    said = folder / "torchrun.txt"
    with said.open("wb") as out:
        process = subprocess.Popen(
            [torchrun, "--standalone", f"--nproc-per-node={incident.world}", *words(incident.command)],
            stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True, cwd=folder / "code",
            env=environment,
        )  # fmt: skip
    return Torchrun(process, said)


def words(command: str) -> list[str]:
    """The command as torchrun takes it: a script or a module of Python's; else a shell's, in bash as with drumbeat."""
    program, *others = command.split()
    is_script = others and (others[0] == "-m" or others[0].endswith(".py"))
    if program == "python" and is_script and not NEEDS_SHELL.search(command):
        return others
    return ["--no-python", "bash", "-c", command]


def look(incident: Incident, torchrun: Torchrun) -> Theirs:
    """What it says once it has ended, or after the deadline."""
    try:
        seconds = torchrun.wait(DEADLINE_S)
    except Missed:
        return Theirs(incident, None, f"nothing in {DEADLINE_S:.0f} s", DEADLINE_S)
    blamed = torchrun.blamed()
    if blamed is None:
        return Theirs(incident, None, f"no rank, exit code {torchrun.process.returncode}", seconds)
    rank, code = blamed
    return Theirs(incident, rank, f"rank {rank}, {say_code(code)}", seconds)


def say_code(code: int) -> str:
    """`exit code 1`, or `signal 9`."""
    return f"signal {-code}" if code < 0 else f"exit code {code}"

"""Where faults are played: one folder that everything lives under, so that nothing can be left behind."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from drumbeat.model.api.jobs import JobView
from tests.real.house import House, a_house
from tests.support.agent_gang import end_all

DEADLINE_S = 90.0
MARKS = """\
import os, pathlib, signal, sys, time
MARKS, RANK = pathlib.Path(os.environ["MARKS"]), int(os.environ["RANK"])
STARTS = len(list(MARKS.glob(f"start.{RANK}.*")))
(MARKS / f"start.{RANK}.{STARTS}").touch()
def mark(name): (MARKS / f"{name}.{RANK}").touch()
def wait():
    while True: time.sleep(0.05)
def is_marked(name): return (MARKS / name).exists()
"""
"""What every script of a fault begins with; torchrun runs the same file."""


@dataclass(frozen=True)
class Seen:
    """What became of one fault: in words, in seconds (None = not measured); whether that is as it must be.

    is_right: None = drumbeat can't do this yet, or nobody judges it.
    """

    sentence: str
    seconds: float | None = None
    is_right: bool | None = True


class Missed(Exception):
    """Something that had to happen didn't."""


def until(condition: Callable[[], object], what: str, within_s: float = DEADLINE_S) -> float:
    """Waits for it; the seconds that it took. Raises Missed."""
    begun = time.monotonic()
    while not condition():
        if time.monotonic() - begun > within_s:
            raise Missed(f"{what}: not within {within_s:.0f} s")
        time.sleep(0.01)
    return time.monotonic() - begun


@dataclass
class Scene:
    """The folder, a drumbeat in it, and what is needed to play a fault."""

    folder: Path
    house: House
    count: int = 0
    shared: dict[str, object] = field(default_factory=dict)

    def new_folder(self) -> Path:
        """A folder that nothing has used yet."""
        self.count += 1
        path = self.folder / f"f{self.count}"
        path.mkdir()
        return path

    @contextlib.contextmanager
    def own_house(self) -> Iterator[House]:
        """A drumbeat of its own, for faults that hit the server."""
        with a_house(self.new_folder()) as house:
            yield house


@dataclass
class Play:
    """A script that leaves marks: as a job of drumbeat, or under torchrun."""

    scene: Scene
    script: str
    ranks: int = 2
    house: House | None = None
    keys: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.folder = self.scene.new_folder()
        self.marks = self.folder / "marks"
        self.marks.mkdir()
        self.at = self.house or self.scene.house
        (self.folder / "code").mkdir()
        (self.folder / "code" / "fault.py").write_text(MARKS + textwrap.dedent(self.script), encoding="utf-8")

    # --- drumbeat ---------------------------------------------------------------------------------------------
    def submit(self, drumbeat: str = "max_retries: 0, grace_s: 5") -> str:
        """Sends it; gives the job's name."""
        keys = {
            "code": "code",
            "command": "python fault.py",
            "distribution": f"{{type: pytorch, process_count_per_instance: {self.ranks}}}",
            "environment_variables": f"{{MARKS: {self.marks}}}",
            "drumbeat": f"{{{drumbeat}}}",
            **self.keys,
        }
        path = self.folder / "job.yml"
        path.write_text("".join(f"{key}: {value}\n" for key, value in keys.items()), encoding="utf-8")
        return self.at.client.submit(path).name

    def end(self, job: str) -> JobView:
        """The job, once it has ended. Raises Missed."""
        found = self.at.client.wait(job, DEADLINE_S)
        if found is None:
            raise Missed(f"the job had not ended after {DEADLINE_S:.0f} s: {self.at.client.get(job).sentence}")
        return found

    # --- both -------------------------------------------------------------------------------------------------
    def is_up(self, start: int = 0) -> bool:
        """Whether every rank has come to its first line, in its n-th start."""
        return all((self.marks / f"start.{rank}.{start}").exists() for rank in range(self.ranks))

    def processes(self) -> list[psutil.Process]:
        """The ranks, by their environment: their own idea of their id may be another one."""
        return [p for p in psutil.process_iter() if environment(p).get("MARKS") == str(self.marks) and is_python(p)]

    def rank(self, rank: int) -> psutil.Process:
        """The process of one rank."""
        return next(p for p in self.processes() if environment(p).get("RANK") == str(rank))

    # --- torchrun ---------------------------------------------------------------------------------------------
    @contextlib.contextmanager
    def torchrun(self, *options: str) -> Iterator[Torchrun]:
        """Under torchrun, which is ended with all that is left of it."""
        torchrun = Path(sys.executable).with_name("torchrun")
        script = self.folder / "code" / "fault.py"
        said = self.folder / "torchrun.txt"
        with said.open("wb") as out:
            process = subprocess.Popen(
                [torchrun, f"--nproc-per-node={self.ranks}", *options, script],
                stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True,
                env={**os.environ, "MARKS": str(self.marks)},
            )  # fmt: skip
        try:
            yield Torchrun(process, said)
        finally:
            end_all(str(self.folder))
            process.wait()


@dataclass
class Torchrun:
    """A torchrun that runs."""

    process: subprocess.Popen[bytes]
    file: Path

    def said(self) -> str:
        """All that it and its ranks printed."""
        return self.file.read_text(errors="replace")

    def wait(self, within_s: float = DEADLINE_S) -> float:
        """Until it has ended; the seconds."""
        return until(lambda: self.process.poll() is not None, "the end of torchrun", within_s)

    def blamed(self) -> tuple[int, int] | None:
        """The rank that its closing table blames and its exit code, below 0 for a signal; None = it has no such table.

        The last one: a rank may be a torchrun, too.
        """
        _, found, table = self.said().rpartition("Root Cause (first observed failure)")
        rank, code = re.search(r"rank +: (\d+)", table), re.search(r"exitcode +: (-?\d+)", table)
        return (int(rank[1]), int(code[1])) if found and rank and code else None

    def named(self) -> str:
        """The rank of `blamed` in words, "none" = no rank."""
        blamed = self.blamed()
        return str(blamed[0]) if blamed else "none"


def environment(process: psutil.Process) -> dict[str, str]:
    """{} when it is gone or another's."""
    try:
        return process.environ()
    except psutil.Error:
        return {}


def is_python(process: psutil.Process) -> bool:
    """Whether it is a script's own process, not the shell above it nor torchrun."""
    try:
        return process.cmdline()[-1:] != [] and Path(process.cmdline()[-1]).name == "fault.py"
    except psutil.Error:
        return False


@contextlib.contextmanager
def make_folder() -> Iterator[Path]:
    """A folder for everything; whatever is started in it is ended, by id, and the folder removed."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    folder = Path(tempfile.mkdtemp(prefix="drumbeat-faults-"))
    try:
        yield folder
    finally:
        end_all(str(folder))
        for mount in reversed([p.mountpoint for p in psutil.disk_partitions(all=True)]):
            if mount.startswith(f"{folder}/"):
                subprocess.run(["umount", mount], check=False)
        shutil.rmtree(folder, ignore_errors=True)

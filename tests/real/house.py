"""A drumbeat of the test's own: a home in a temporary folder, a real server, and nothing left behind afterwards."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import psutil

from drumbeat import Client

from .guard import guarded

DRUMBEAT = str(Path(sys.executable).with_name("drumbeat"))
MAX_PAUSE_S = 0.15
"""Between two looks at a condition. Most ask a server or look at every process, which keeps a core busy."""


def until(condition: Callable[[], object], seconds: float = 60, what: str = "it") -> None:
    deadline, pause_s = time.monotonic() + seconds, 0.02
    while not condition():
        assert time.monotonic() < deadline, f"{what} didn't happen within {seconds} s"
        time.sleep(pause_s)
        pause_s = min(pause_s * 1.2, MAX_PAUSE_S)


def line_of(process: psutil.Process) -> str:
    """Its command line, "" = it has ended meanwhile."""
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


def contents(folder: Path) -> Iterator[tuple[Path, bytes]]:
    """Every file below it with its bytes; what goes meanwhile, and what can't be read, is left out."""
    for place, _, names in os.walk(folder):
        for path in (Path(place, name) for name in names):
            if path.is_file():
                with contextlib.suppress(OSError):
                    yield path, path.read_bytes()


class House:
    """A home folder, its client, and the command line that uses it."""

    def __init__(self, folder: Path) -> None:
        self.home, self.folder = folder / "home", folder
        self.client = Client(home=self.home)
        self.environment = {**os.environ, "DRUMBEAT_HOME": str(self.home), "NO_COLOR": "1", "COLUMNS": "120"}

    def job_file(self, name: str = "job", **keys: str) -> Path:
        """A folder with a job file; each key is a line of YAML as text."""
        path = self.folder / name / "job.yml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"{key}: {value}\n" for key, value in keys.items()))
        return path

    def script(self, text: str, job: str = "job", file: str = "t.py") -> None:
        """A script beside the job file."""
        (self.folder / job).mkdir(parents=True, exist_ok=True)
        (self.folder / job / file).write_text(text)

    def run(
        self, *arguments: str | Path, timeout: float = 240, cwd: Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Runs the command line to its end."""
        return subprocess.run(
            [DRUMBEAT, *map(str, arguments)], env=self.environment, capture_output=True, text=True, timeout=timeout,
            check=False, cwd=cwd,
        )  # fmt: skip

    def logs(self, job: str) -> dict[int, str]:
        """What each rank printed, by rank, of every round."""
        found: dict[int, str] = {}
        for piece in self.client.logs(job):
            found[piece.rank] = found.get(piece.rank, "") + piece.text
        return found

    def processes(self) -> list[psutil.Process]:
        """Everything that belongs to this home: the server, agents, supervisors, ranks and what they started."""
        found = list[psutil.Process]()
        for pid in psutil.pids():
            if pid != os.getpid() and _mentions(pid, os.fsencode(self.home)):
                with contextlib.suppress(psutil.NoSuchProcess):
                    found.append(psutil.Process(pid))
        return found

    def server(self) -> psutil.Process:
        return psutil.Process(self.client.status().pid)

    def close(self) -> None:
        """Ends every process of this home, by its id."""
        with contextlib.suppress(Exception):
            self.client.close()
        for _ in range(100):
            left = self.processes()
            if not left:
                return
            for process in left:
                with contextlib.suppress(psutil.Error):
                    process.send_signal(signal.SIGKILL)
            time.sleep(0.02)


def _mentions(pid: int, words: bytes) -> bool:
    """Whether its arguments or environment do; a zombie has neither."""
    with contextlib.suppress(OSError):
        place = Path("/proc", str(pid))
        return words in (place / "cmdline").read_bytes() or words in (place / "environ").read_bytes()
    return False


@contextlib.contextmanager
def a_house(folder: Path) -> Generator[House]:
    there = House(folder)
    with guarded(folder):
        try:
            yield there
        finally:
            there.close()

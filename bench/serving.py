"""A server of a benchmark's own, and what its processes take."""

import itertools
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Thread

import psutil

from bench.start_runs import BIN

MIB = 1 << 20


@contextmanager
def serving(home: Path | None = None) -> Iterator[Path]:
    """The home folder of a server that runs; both are gone afterwards. home: with what is in it already."""
    folder = home or Path(tempfile.mkdtemp(prefix="drumbeat-bench-"))
    os.environ["DRUMBEAT_HOME"] = str(folder)
    os.environ.pop("DRUMBEAT_SERVER", None)
    try:
        drumbeat("server", "start")
        yield folder
    finally:
        drumbeat("server", "stop", "--force")
        for process in processes_of(folder):
            with suppress(psutil.Error):
                process.kill()
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def bare_server(program: str) -> Iterator[str]:
    """The address of another server, to compare with: a Python program that listens at the port in its argument."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        port = held.getsockname()[1]
    process = subprocess.Popen([sys.executable, "-c", program, str(port)])
    try:
        for _ in itertools.count():
            with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
                break
            time.sleep(0.05)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()


def drumbeat(*words: str) -> None:
    """A command to that server, to its end."""
    subprocess.run([BIN / "drumbeat", *words], check=False, stdout=subprocess.DEVNULL)


def processes_of(home: Path) -> list[psutil.Process]:
    """The server, agents and supervisors of that home, and the ranks."""
    return [one for one in psutil.process_iter() if one.pid != os.getpid() and str(home) in command_of(one)]


def command_of(process: psutil.Process) -> str:
    """How it was started; "" = it is gone."""
    with suppress(psutil.Error):
        return " ".join(process.cmdline())
    return ""


def kind_of(command: str) -> str:
    """Server, agent and supervisor; "" for what isn't drumbeat's."""
    if "drumbeat.server" in command:
        return "server"
    return "agent and supervisor" if "drumbeat.node." in command else ""


def memory_mib(home: Path) -> dict[str, float]:
    """MiB by kind of process: what each has for itself, and its part of what they share."""
    found: dict[str, float] = {}
    for process in processes_of(home):
        with suppress(psutil.Error):
            kind = kind_of(command_of(process))
            found[kind] = found.get(kind, 0.0) + process.memory_full_info().pss / MIB
    return {kind: mib for kind, mib in found.items() if kind}


def peak_mib(pid: int) -> float:
    """The most MiB that a process ever had in memory; 0 = it is gone."""
    with suppress(OSError):
        status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
        return next((int(line.split()[1]) / 1024 for line in status.splitlines() if line.startswith("VmHWM")), 0.0)
    return 0.0


@contextmanager
def sampled(look: Callable[[], dict[str, float]], every_s: float = 0.5) -> Iterator[list[dict[str, float]]]:
    """What `look` saw from time to time while the block ran."""
    seen: list[dict[str, float]] = []
    is_over = Event()

    def watch() -> None:
        while not is_over.wait(every_s):
            seen.append(look())

    watching = Thread(target=watch)
    watching.start()
    try:
        yield seen
    finally:
        is_over.set()
        watching.join()


def most(seen: list[dict[str, float]]) -> dict[str, float]:
    """The highest of each."""
    return {kind: max(one.get(kind, 0.0) for one in seen) for kind in {kind for one in seen for kind in one}}


def at_percent(values: list[float], percent: float) -> float:
    """The value that so many percent of the sample don't exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]

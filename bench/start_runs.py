"""One start of the measured script: its marks, its phases, and the launchers that drumbeat is compared with."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

HERE = Path(__file__).resolve().parent
BIN = Path(sys.executable).parent
DEADLINE_S = 60.0
POLL_S = 0.002


@dataclass
class Run:
    """One start: seconds to the first step of all ranks, and again after a kill; None = not within the deadline.

    phases and again_phases: seconds by the name of what took them, in their order, of rank 0.
    """

    first_s: float | None = None
    again_s: float | None = None
    phases: dict[str, float] = field(default_factory=dict)
    again_phases: dict[str, float] = field(default_factory=dict)


Marks = dict[str, dict[str, float]]


def read_marks(folder: Path, leaving_out: frozenset[str] = frozenset()) -> Marks:
    """Times by stage, by `RANK.PID`."""
    found: Marks = {}
    for path in folder.glob("[0-9]*.[0-9]*"):
        if path.name not in leaving_out:
            lines = path.read_text(encoding="utf-8").splitlines()
            found[path.name] = {stage: float(at) for stage, at in (line.split() for line in lines if line.count(" "))}
    return found


def wait_for_step(folder: Path, world: int, leaving_out: frozenset[str] = frozenset()) -> Marks | None:
    """The marks by rank once each of so many ranks has done a step, in a process that isn't left out.

    None after the deadline.
    """
    end = time.monotonic() + DEADLINE_S
    while time.monotonic() < end:
        done = {name.split(".")[0]: marks for name, marks in read_marks(folder, leaving_out).items() if "step" in marks}
        if len(done) >= world:
            return done
        time.sleep(POLL_S)
    return None


def split_phases(
    begun: float, first: str, marks: dict[str, float], before: list[tuple[str, float]]
) -> dict[str, float]:
    """Seconds from each boundary to the next: those given in `before`, then the stages of the script."""
    stages = [(first, "process"), ("Python's own start", "first_line"), ("import torch", "import")]
    stages += [("process group", "group"), ("first step", "step")]
    phases: dict[str, float] = {}
    last = begun
    for name, at in [*before, *((name, marks[stage]) for name, stage in stages)]:
        phases[name], last = max(at - last, 0.0), max(at, last)
    return phases


def kill_and_wait(folder: Path, run: Run, world: int) -> None:
    """Kills the last rank outright, and measures until every rank has done a step in a new process."""
    old = frozenset(read_marks(folder))
    variables = ((process, process.environ()) for process in ranks(folder))
    # An interpreter that drumbeat has prepared for the next round looks like a rank.
    wanted = ((process, given) for process, given in variables if "DRUMBEAT_STANDBY" not in given)
    victim = next(process for process, given in wanted if given.get("RANK") == str(world - 1))
    killed = time.time()
    victim.kill()
    if marks := wait_for_step(folder, world, old):
        run.again_s = max(each["step"] for each in marks.values()) - killed
        run.again_phases = split_phases(killed, "noticed, started again", marks["0"], [])


@contextmanager
def make_folder(folder: Path | None = None) -> Generator[Path]:
    """A folder for marks, a new one or that; when it is left, the ranks that write there are told to end."""
    if folder is None:
        folder = Path(tempfile.mkdtemp(prefix="drumbeat-bench-"))
    folder.mkdir(exist_ok=True)
    try:
        yield folder
    finally:
        (folder / "stop").touch()


def end(process: subprocess.Popen[bytes], folder: Path) -> None:
    """Waits for a process of ours; one that hangs is ended with all that it started."""
    try:
        process.wait(DEADLINE_S / 2)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        # torchrun's ranks have sessions of their own and go on without it.
        for rank in ranks(folder):
            with suppress(psutil.Error):
                rank.kill()


def ranks(folder: Path) -> list[psutil.Process]:
    """The ranks that write into the folder, by their command: their own idea of their id may be another one."""
    found: list[psutil.Process] = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            words = process.cmdline()
            is_rank = words[-2:-1] and words[-2].endswith("first_step.py") and words[-1] == str(folder)
            if is_rank and "--standalone" not in words:  # torchrun itself has them at its end too
                found.append(process)
    return found


def start(
    command: list[str | Path], folder: Path, environment: dict[str, str] | None = None
) -> subprocess.Popen[bytes]:
    """The command in a session of its own, its output in the folder."""
    with (folder / "output").open("ab") as output:
        return subprocess.Popen(command, stdout=output, stderr=output, env=environment, start_new_session=True)


def run_torchrun(world: int) -> Run:
    """Bare torchrun, then a rank killed."""
    run = Run()
    with make_folder() as folder:
        how = ["--standalone", f"--nproc-per-node={world}", "--max-restarts=3"]
        begun = time.time()
        process = start([BIN / "torchrun", *how, HERE / "first_step.py", folder], folder)
        if marks := wait_for_step(folder, world):
            run.first_s = max(each["step"] for each in marks.values()) - begun
            run.phases = split_phases(begun, "launcher", marks["0"], [])
            kill_and_wait(folder, run, world)
    end(process, folder)
    shutil.rmtree(folder)
    return run


def run_plain(world: int) -> Run:
    """The ranks started by hand, with nothing but torch's variables: no cold start can beat it."""
    run = Run()
    with make_folder() as folder, socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        port = str(held.getsockname()[1])
        held.close()
        begun = time.time()
        processes: list[subprocess.Popen[bytes]] = []
        for rank in range(world):
            place = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(world)}
            meeting = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "OMP_NUM_THREADS": "1"}
            environment = {**os.environ, **place, **meeting}
            processes.append(start([sys.executable, HERE / "first_step.py", folder], folder, environment))
        if marks := wait_for_step(folder, world):
            run.first_s = max(each["step"] for each in marks.values()) - begun
            run.phases = split_phases(begun, "launcher", marks["0"], [])
    for process in processes:
        end(process, folder)
    shutil.rmtree(folder)
    return run

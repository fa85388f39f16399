"""Starts of the measured script by drumbeat: typed, sent by a program, with no server up; cold, and warm."""

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from bench.start_report import STARTS_RANKS
from bench.start_runs import (
    BIN,
    DEADLINE_S,
    HERE,
    Run,
    end,
    kill_and_wait,
    make_folder,
    split_phases,
    start,
    wait_for_step,
)
from drumbeat.client import Client
from drumbeat.model.errors import NotFoundError
from drumbeat.node.supervisor import spare_folders

JOB = """\
experiment_name: bench-start
code: .
command: python first_step.py ${{inputs.marks}}
inputs: {marks: .}
distribution: {type: pytorch, process_count_per_instance: WORLD}
"""
COLD = ("drumbeat.warm_start=false",)
"""Settings of a job that neither uses what another has prepared nor prepares anything."""
READY_S = 300.0
POLL_S = 0.1


@dataclass
class Drumbeat:
    """A drumbeat of our own, in a home of its own, with the job file."""

    home: Path
    job: Path
    world: int
    count: int = 0

    @property
    def marks(self) -> Path:
        """The folder for marks of warm starts: the command of a job must be that of the job before."""
        return self.home.parent / "marks"

    def command(self, *words: str | Path) -> list[str | Path]:
        """A command line; its server is told by DRUMBEAT_HOME."""
        return [BIN / "drumbeat", *words]

    def next_name(self) -> str:
        """A name that no job has yet."""
        self.count += 1
        return f"start-{self.count}"

    def measure(
        self,
        begin: Callable[[str, Path], subprocess.Popen[bytes] | None],
        *,
        is_killed: bool = False,
        marked_in: Path | None = None,
    ) -> Run:
        """One start by whatever `begin` does with a job's name and the folder for marks: a new one, or that."""
        run, name = Run(), self.next_name()
        with make_folder(marked_in) as folder, Client(self.home) as client:
            client.status()
            begun = time.time()
            process = begin(name, folder)
            if marks := wait_for_step(folder, self.world):
                run.first_s = max(each["step"] for each in marks.values()) - begun
                before = self.read_story(client, name)
                run.phases = split_phases(begun, STARTS_RANKS, marks["0"], before)
                if is_killed:
                    kill_and_wait(folder, run, self.world)
        self.finish(name, process, folder)
        shutil.rmtree(folder)
        return run

    def read_story(self, client: Client, name: str) -> list[tuple[str, float]]:
        """The server's boundaries of a start: what had been done, and when."""
        words = {
            "queued": "command to accepted job",
            "provisioning": "server grants nodes",
            "staging": "agents enrol",
        }
        times: dict[str, float] = {}
        for line in client.story(name):
            times.setdefault(str(line.state), line.at.timestamp())
        return [(said, times[state]) for state, said in words.items() if state in times]

    def finish(self, name: str, process: subprocess.Popen[bytes] | None, folder: Path) -> None:
        """Waits for the job's end; cancels it when it hangs."""
        with Client(self.home) as client:
            try:
                if client.wait(name, DEADLINE_S / 2) is None:
                    client.cancel(name)
                    client.wait(name, DEADLINE_S)
            except NotFoundError as error:
                raise SystemExit(f"{error} drumbeat run said:\n{(folder / 'output').read_text()}") from None
        if process is not None:
            end(process, folder)

    def run(self) -> Run:
        """`drumbeat run`, with a server that is up; then a rank killed."""
        return self.measure(self.type_command, is_killed=True)

    def run_first(self) -> Run:
        """`drumbeat run` with no server up: the command starts it."""
        subprocess.run(self.command("server", "stop"), check=True, stdout=subprocess.DEVNULL)
        end_of_server = time.monotonic() + DEADLINE_S
        while (self.home / "server.json").exists() and time.monotonic() < end_of_server:
            time.sleep(0.05)
        run, name = Run(), self.next_name()
        with make_folder() as folder:
            begun = time.time()
            process = self.type_command(name, folder)
            if marks := wait_for_step(folder, self.world):
                run.first_s = max(each["step"] for each in marks.values()) - begun
        self.finish(name, process, folder)
        shutil.rmtree(folder)
        return run

    def post(self) -> Run:
        """The job sent by a program that is already up."""
        with Client(self.home) as client:
            client.status()

            def send(name: str, folder: Path) -> None:
                client.submit(self.job, sets=[f"inputs.marks={folder}", *COLD], name=name)

            return self.measure(send)

    # --- warm -------------------------------------------------------------------------------------------------
    def run_warm(self) -> Run:
        """`drumbeat run` of a command that has been run before: its interpreters wait in a spare supervisor."""
        self.leave_spare_supervisor()
        return self.measure(partial(self.type_command, sets=()), marked_in=self.marks)

    def post_warm(self) -> Run:
        """The same job, sent by a program that is already up."""
        self.leave_spare_supervisor()
        with Client(self.home) as client:
            client.status()

            def send(name: str, folder: Path) -> None:
                client.submit(self.job, sets=[f"inputs.marks={folder}"], name=name)

            return self.measure(send, marked_in=self.marks)

    def leave_spare_supervisor(self) -> None:
        """Runs a job until its interpreters are ready, and to its end; then they wait for the next one."""
        name = self.next_name()
        with make_folder(self.marks) as folder, Client(self.home) as client:
            client.submit(self.job, sets=[f"inputs.marks={folder}"], name=name)
            wait_for_step(folder, self.world)
            self.wait_for_interpreters(name)
        self.finish(name, None, folder)
        shutil.rmtree(folder)
        self._wait(self.has_spare_supervisor, "no spare supervisor is there")

    def has_spare_supervisor(self) -> bool:
        """Whether prepared interpreters wait for the next job."""
        with Client(self.home) as client:
            return any(spare.interpreters == self.world for spare in client.status().spares)

    def wait_for_interpreters(self, name: str) -> None:
        """Waits until the log of a job's agent says that there is one for each rank."""
        ready = f"interpreters ready for the next round: {self.world}"

        def are_ready() -> bool:
            logs = (self.home / "nodes").glob(f"{name}.*/*/root/agent.log")
            return any(ready in log.read_text(encoding="utf-8") for log in logs)

        self._wait(are_ready, "no interpreters are ready")

    def _wait(self, condition: Callable[[], bool], what: str) -> None:
        end_of_wait = time.monotonic() + READY_S
        while not condition():
            if time.monotonic() > end_of_wait:
                raise SystemExit(f"{what} after {READY_S:.0f} s; see agent.log below {self.home / 'nodes'}")
            time.sleep(POLL_S)

    def type_command(self, name: str, folder: Path, sets: tuple[str, ...] = COLD) -> subprocess.Popen[bytes]:
        """`drumbeat run` as a person types it."""
        words = [word for one in (f"inputs.marks={folder}", *sets) for word in ("--set", one)]
        return start(self.command("run", self.job, *words, "--name", name), folder)


@contextmanager
def make_drumbeat(world: int) -> Generator[Drumbeat]:
    """A server in a folder of its own with a job of so many ranks, stopped and removed in the end."""
    with tempfile.TemporaryDirectory(prefix="drumbeat-bench-") as folder:
        home, code = Path(folder) / "home", Path(folder) / "code"
        code.mkdir()
        shutil.copy(HERE / "first_step.py", code)
        (code / "job.yml").write_text(JOB.replace("WORLD", str(world)), encoding="utf-8")
        os.environ["DRUMBEAT_HOME"] = str(home)
        os.environ["DRUMBEAT_CACHE"] = f"{folder}/cache"  # Spare supervisors of other jobs of this user stay out of it.
        os.environ.pop("DRUMBEAT_SERVER", None)
        drumbeat = Drumbeat(home, code / "job.yml", world)
        try:
            subprocess.run(drumbeat.command("server", "start"), check=True, stdout=subprocess.DEVNULL)
            yield drumbeat
        finally:
            subprocess.run(drumbeat.command("server", "stop", "--force"), check=False, stdout=subprocess.DEVNULL)
            for spare in spare_folders.listed():
                spare_folders.end(spare)

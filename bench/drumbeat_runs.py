"""Starts of the measured script by drumbeat: typed, sent by a program, and with no server up."""

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.runs import BIN, DEADLINE_S, HERE, Run, end, kill_and_wait, make_folder, split_phases, start, wait_for_step
from drumbeat.client import Client
from drumbeat.protocol.errors import NotFoundError

JOB = """\
experiment_name: bench-start
code: .
command: python first_step.py ${{inputs.marks}}
inputs: {marks: .}
distribution: {type: pytorch, process_count_per_instance: WORLD}
"""


@dataclass
class Drumbeat:
    """A drumbeat of our own, in a home of its own, with the job file."""

    home: Path
    job: Path
    world: int
    count: int = 0

    def command(self, *words: str | Path) -> list[str | Path]:
        """A command line; its server is told by DRUMBEAT_HOME."""
        return [BIN / "drumbeat", *words]

    def next_name(self) -> str:
        """A name that no job has yet."""
        self.count += 1
        return f"start-{self.count}"

    def measure(self, begin: Callable[[str, Path], subprocess.Popen[bytes] | None], *, is_killed: bool) -> Run:
        """One start by whatever `begin` does with a job's name and the folder for marks."""
        run, name = Run(), self.next_name()
        with make_folder() as folder, Client(self.home) as client:
            client.status()
            begun = time.time()
            process = begin(name, folder)
            if marks := wait_for_step(folder, self.world):
                run.first_s = max(each["step"] for each in marks.values()) - begun
                before = self.read_story(client, name)
                run.phases = split_phases(begun, "keeper starts ranks", marks["0"], before)
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
                client.submit(self.job, sets=[f"inputs.marks={folder}"], name=name)

            return self.measure(send, is_killed=False)

    def type_command(self, name: str, folder: Path) -> subprocess.Popen[bytes]:
        """`drumbeat run` as a person types it."""
        return start(self.command("run", self.job, "--set", f"inputs.marks={folder}", "--name", name), folder)


@contextmanager
def make_drumbeat(world: int) -> Iterator[Drumbeat]:
    """A server in a folder of its own with a job of so many ranks, stopped and removed in the end."""
    with tempfile.TemporaryDirectory(prefix="drumbeat-bench-") as folder:
        home, code = Path(folder) / "home", Path(folder) / "code"
        code.mkdir()
        shutil.copy(HERE / "first_step.py", code)
        (code / "job.yml").write_text(JOB.replace("WORLD", str(world)), encoding="utf-8")
        os.environ["DRUMBEAT_HOME"] = str(home)
        os.environ.pop("DRUMBEAT_SERVER", None)
        drumbeat = Drumbeat(home, code / "job.yml", world)
        try:
            subprocess.run(drumbeat.command("server", "start"), check=True, stdout=subprocess.DEVNULL)
            yield drumbeat
        finally:
            subprocess.run(drumbeat.command("server", "stop", "--force"), check=False, stdout=subprocess.DEVNULL)

"""Logs: what they cost a rank, how fast they go, how soon a follower sees a line, and what memory that takes.

    python -m bench.logs --rounds 5 --write docs/bench/logs.md

--gigabyte adds one line of 1 GiB.
"""

import argparse
import hashlib
import itertools
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from bench.log_report import render
from bench.serving import memory_mib, most, peak_mib, sampled, serving
from bench.start import describe_machine
from bench.start_report import publish
from bench.start_runs import BIN, HERE
from drumbeat.client import Client
from drumbeat.model.api.jobs import End, LogPiece

SCRIPT = HERE / "write_lines.py"
LINES = 200_000
names = (f"logs-{number}" for number in itertools.count())


@dataclass
class Found:
    """What was measured. latencies: seconds by what else the ranks wrote; ends: likewise, from the end of a job.

    memory: MiB by kind of process.
    """

    loops: dict[str, list[float | None]] = field(default_factory=dict)
    rates: dict[str, list[float | None]] = field(default_factory=dict)
    latencies: dict[str, list[float]] = field(default_factory=dict)
    ends: list[float] = field(default_factory=list)
    memory: dict[str, dict[str, float]] = field(default_factory=dict)


def submit(client: Client, command: str, ranks: int = 1) -> str:
    """A job of so many ranks; its name."""
    distribution = {"type": "pytorch", "process_count_per_instance": ranks}
    return client.submit(
        {"name": next(names), "command": command, "distribution": distribution, "drumbeat": {"environment": "current"}}
    ).name


def command(*words: object) -> str:
    """The script as a job's command."""
    return " ".join([sys.executable, str(SCRIPT), *map(str, words)])


# --- what it costs the rank ---------------------------------------------------------------------------------------
def loop_by_drumbeat(client: Client, folder: Path) -> None:
    """In a job."""
    client.wait(submit(client, command("loop", LINES, folder / "took")))


def loop_to_file(_client: Client, folder: Path) -> None:
    """By hand, into a file."""
    with (folder / "out").open("wb") as out:
        run_loop([sys.executable, SCRIPT, "loop", str(LINES), folder / "took"], out.fileno())


def loop_by_torchrun(_client: Client, folder: Path) -> None:
    """By torchrun, into its files and shown."""
    launcher = [BIN / "torchrun", "--standalone", "--redirects", "3", "--tee", "3", "--log-dir", folder]
    with (folder / "out").open("wb") as out:
        run_loop([*launcher, SCRIPT, "loop", str(LINES), folder / "took"], out.fileno())


def run_loop(words: list[str | Path], out: int) -> None:
    """With the output unbuffered, as drumbeat has it."""
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    subprocess.run(words, stdout=out, stderr=out, env=environment, check=True)


LOOPS = {"file": loop_to_file, "drumbeat": loop_by_drumbeat, "torchrun": loop_by_torchrun}


def measure_loops(client: Client, found: Found) -> None:
    """Each way once."""
    for name, way in LOOPS.items():
        with tempfile.TemporaryDirectory() as folder:
            way(client, Path(folder))
            found.loops.setdefault(name, []).append(float((Path(folder) / "took").read_text(encoding="utf-8")))


# --- how fast it goes ---------------------------------------------------------------------------------------------
def measure_rates(client: Client, found: Found, mib: int) -> None:
    """MiB a second of one rank, of each of two, and through `drumbeat logs -f`; from submitting to the end."""
    for ranks in (1, 2):
        begun = time.monotonic()
        client.wait(submit(client, command("flood", mib), ranks))
        found.rates.setdefault(f"{ranks} ranks", []).append(mib / (time.monotonic() - begun))
    begun = time.monotonic()
    size, _ = follow_by_command(submit(client, command("flood", mib)))
    assert size > mib << 20
    found.rates.setdefault("followed", []).append(mib / (time.monotonic() - begun))


def follow_by_command(job: str) -> tuple[int, float]:
    """Bytes that `drumbeat logs -f` printed, and its most MiB of memory."""
    process = subprocess.Popen([BIN / "drumbeat", "logs", "-f", job], stdout=subprocess.PIPE)
    assert process.stdout is not None
    size, peak = 0, 0.0
    with process, process.stdout:
        while piece := process.stdout.read(1 << 20):
            size += len(piece)
            peak = max(peak, peak_mib(process.pid))
    return size, peak


# --- how soon a follower sees it ----------------------------------------------------------------------------------
def measure_latency(client: Client, count: int, beside: str) -> list[float]:
    """Seconds from the printing of each line to its arrival. beside: what rank 1 does."""
    clock = command("clock", count, 0.05)
    both = f"if [ $RANK = 0 ]; then exec {clock}; else exec {beside}; fi" if beside else clock
    job, seen, rest = submit(client, both, 2 if beside else 1), [], ""
    for event in client.stream(job):
        if isinstance(event, LogPiece) and event.rank == 0:
            now = time.time_ns()
            *lines, rest = (rest + event.text).split("\n")
            seen += [(now - int(line)) / 1e9 for line in lines]
    assert len(seen) == count, "a line was lost or came twice"
    return seen


def measure_end(client: Client) -> float:
    """Seconds from the end of a job, as the server has it, to its arrival; all that it wrote has come before."""
    job, said = submit(client, command("loop", 1000, "/dev/null")), ""
    for event in client.stream(job):
        if isinstance(event, LogPiece):
            said += event.text
        if isinstance(event, End):
            now = time.time()
    ended_at = client.get(job).ended_at
    assert said.count("\n") == 1000, "a line was lost or came twice"
    assert ended_at is not None
    return now - ended_at.timestamp()


# --- one line of a gigabyte ---------------------------------------------------------------------------------------
def measure_one_line(client: Client, home: Path, found: Found, mib: int) -> None:
    """It arrives whole, and takes little memory on its way."""
    begun = time.monotonic()
    with sampled(lambda: memory_mib(home)) as seen:
        job = submit(client, command("one-line", mib))
        _, follower = follow_by_command(job)
    found.rates["one line"] = [mib / (time.monotonic() - begun)]
    found.memory["one line"] = {**most(seen), "drumbeat logs -f": follower}
    log = home / "jobs" / job / "logs" / "1.1" / "0" / "0.log"
    with log.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    whole = hashlib.sha256()
    for _ in range(mib):
        whole.update(b"x" * (1 << 20))
    assert digest == whole.hexdigest(), "the line didn't arrive whole"


def measure(options: argparse.Namespace) -> Found:
    """Everything, in turns where it is compared."""
    found = Found()
    with serving() as home, Client(home) as client:
        for number in range(1, options.rounds + 1):
            measure_loops(client, found)
            with sampled(lambda: memory_mib(home)) as seen:
                measure_rates(client, found, options.mib)
            found.memory["flood"] = most([found.memory.get("flood", {}), *seen])
            print(
                f"round {number}/{options.rounds}", {name: rates[-1] for name, rates in found.rates.items()}, flush=True
            )
        found.latencies["nothing else"] = measure_latency(client, options.lines, "")
        steady = command("steady", 20, options.lines // 20 * 20)
        found.latencies["20 MiB/s of another rank"] = measure_latency(client, options.lines, steady)
        found.ends = [measure_end(client) for _ in range(options.ends)]
        if options.gigabyte:
            measure_one_line(client, home, found, 1024)
    return found


def main() -> None:
    """Measures, prints the report, writes it if asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--mib", type=int, default=200, help="of one flood")
    parser.add_argument("--lines", type=int, default=400, help="whose way to a follower is timed")
    parser.add_argument("--ends", type=int, default=30, help="jobs whose end's way to a follower is timed")
    parser.add_argument("--gigabyte", action="store_true", help="also one line of 1 GiB")
    parser.add_argument("--write", type=Path, metavar="FILE", help="also write the report to FILE")
    options = parser.parse_args()
    machine = describe_machine()
    text = render(measure(options), machine, LINES)
    publish(text, options.write)


if __name__ == "__main__":
    main()

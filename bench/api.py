"""The API under load: 10,000 jobs in the store, 50 followers, 20 users who submit, look, list and cancel.

    python -m bench.api --seconds 60 --write docs/bench/api.md

Beside it, on the same machine at the same time, a bare uvicorn and FastAPI that says hello: what this machine's load
and the framework alone make of a request.
"""

import argparse
import json
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bench.serving import MIB, at_percent, bare_server, memory_mib, sampled, serving
from bench.spread import ratios, say, spread
from bench.start import describe_machine
from bench.start_report import publish
from bench.start_runs import HERE
from drumbeat.client import Client
from drumbeat.server.database import make_store
from tests.support.sample_jobs import ended, submission

BARE = """
import sys, fastapi, uvicorn
app = fastapi.FastAPI()
@app.get("/hello")
def hello() -> dict[str, str]: return {"hello": "you"}
uvicorn.run(app, port=int(sys.argv[1]), access_log=False, log_level="error")
"""

SUBMITTED, SUBMIT_ROUNDS = 500, 3
BARE_ROWS = "bare rows"

HEAD = """\
# The API under load

<!-- Written by `make bench-api`. -->

{jobs:,} jobs in the store, {followers} followers of a job that prints 10 lines a second, {submitters} users who each
submit a job, look at it, list 20, cancel it, and then think for {pause} s; {seconds:.0f} s long. *Bare* is a uvicorn
with a FastAPI that says hello, asked in turns by the same users at the same time. The goal is a p99 of 50 ms, and flat
memory.

Machine: {machine}.

| asked | times | p50 ms | p99 ms | longest ms | p99, ratio to bare |
|---|---|---|---|---|---|
{rows}

The followers read {followed:.0f} MiB in all.

## Jobs of a program

{submitted} jobs, sent by one program after the load, each time under other names, while no slot is free: jobs a second
that are on the disk when the call returns, {rounds} rounds. *Bare* writes as many small rows into an SQLite file, a
transaction each. The goal is 300 a second.

| sent by | jobs/s | ratio to bare |
|---|---|---|
{submissions}

## Memory of the server

| after s | MiB (PSS) |
|---|---|
{memory}
"""


@dataclass(frozen=True)
class Found:
    """took: milliseconds by what was asked. memory: MiB of the server, evenly over time. followed: bytes.

    submitted: jobs a second, a figure a round, by how a program sends them.
    """

    took: dict[str, list[float]]
    followed: int
    memory: list[float]
    submitted: dict[str, list[float]]


def fill(home: Path, count: int) -> None:
    """Puts ended jobs into the store of a server that isn't there yet."""
    store = make_store(home / "drumbeat.db")
    for number in range(count):
        record, _ = store.submit(submission(f"old-{number:05}"))
        store.commit([ended(record)])
    store.close()


def hold_all(client: Client, cpus: int) -> str:
    """A job that prints 10 lines a second; one more takes what is left, so that what is submitted has to wait."""
    document = {"command": "while :; do date; sleep 0.1; done", "drumbeat": {"environment": "current"}}
    name = client.submit({**document, "name": "talks"}).name
    for number in range(cpus - 1):
        client.submit({**document, "name": f"holds-{number}", "command": "sleep 100000"})
    for job in [name, *(f"holds-{number}" for number in range(cpus - 1))]:
        while client.get(job).state != "running":
            time.sleep(0.05)
    return name


def submit_many(client: Client, folder: Path) -> dict[str, list[float]]:
    """Jobs a second by each way in which a program can send them, in turns."""
    document = {"command": "true", "drumbeat": {"environment": "current"}}

    def named(prefix: str) -> list[dict[str, object]]:
        return [{**document, "name": f"{prefix}-{number}"} for number in range(SUBMITTED)]

    def send_each(prefix: str) -> None:
        for job in named(prefix):
            client.submit(job)

    ways: dict[str, Callable[[str], object]] = {
        "`Client.submit`, one after the other": send_each,
        "`Client.submit_all`": lambda prefix: client.submit_all(named(prefix)),
        BARE_ROWS: lambda prefix: write_rows(folder / f"{prefix}.db"),
    }
    rates: dict[str, list[float]] = {way: [] for way in ways}
    for number in range(SUBMIT_ROUNDS + 1):  # The first round isn't counted: it fills caches.
        for index, (way, send) in enumerate(ways.items()):
            begun = time.perf_counter()
            send(f"program-{number}-{index}")
            rates[way] += [SUBMITTED / (time.perf_counter() - begun)] if number else []
    return rates


def write_rows(path: Path) -> None:
    """Writes small rows, each durable before the next."""
    with sqlite3.connect(path, isolation_level=None) as database:
        database.execute("PRAGMA journal_mode=WAL")
        database.execute("PRAGMA synchronous=FULL")
        database.execute("CREATE TABLE rows (name TEXT PRIMARY KEY, document TEXT)")
        for number in range(SUBMITTED):
            database.execute("INSERT INTO rows VALUES (?, ?)", (f"row-{number}", "x" * 1000))
    database.close()


def measure(options: argparse.Namespace) -> Found:
    """One run."""
    with tempfile.TemporaryDirectory() as folder:
        fill(Path(folder), options.jobs)
        with serving(Path(folder)) as home, Client(home) as client, bare_server(BARE) as bare:
            cpus = sum(machine.cpus for machine in client.computes()[0].machines)
            job = hold_all(client, cpus)
            numbers = [options.seconds, options.submitters, options.followers, options.pause]
            load = [sys.executable, HERE / "api_load.py", home, bare, job, *map(str, numbers)]
            with sampled(lambda: memory_mib(home), every_s=options.seconds / 20) as seen:
                said = subprocess.run(load, check=True, stdout=subprocess.PIPE).stdout
            submitted = submit_many(client, Path(folder))
            for holding in (job, *(f"holds-{number}" for number in range(cpus - 1))):
                client.cancel(holding)
            told = json.loads(said)
    return Found(told["took"], sum(told["followed"]), [one["server"] for one in seen if "server" in one], submitted)


def render(found: Found, options: argparse.Namespace, machine: str) -> str:
    """The page."""
    bare = at_percent(found.took["bare"], 99)
    rows = [
        f"| {name} | {len(took)} | "
        + " | ".join(f"{at_percent(took, percent):.1f}" for percent in (50, 99, 100))
        + f" | {at_percent(took, 99) / bare:.1f} |"
        for name, took in found.took.items()
    ]
    submissions = [
        f"| {way} | {say(spread(rates), digits=0)} | {say(spread(ratios(rates, found.submitted[BARE_ROWS])))} |"
        for way, rates in found.submitted.items()
    ]
    every_s = options.seconds / 20
    memory = [f"| {every_s * (n + 1):.0f} | {mib:.1f} |" for n, mib in enumerate(found.memory) if n % 2]
    return HEAD.format(
        jobs=options.jobs, followers=options.followers, submitters=options.submitters, pause=options.pause,
        seconds=options.seconds, machine=machine, rows="\n".join(rows), followed=found.followed / MIB,
        memory="\n".join(memory), submitted=SUBMITTED, rounds=SUBMIT_ROUNDS, submissions="\n".join(submissions),
    )  # fmt: skip


def main() -> None:
    """Measures, prints the report, writes it if asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60.0, help="600 for memory over ten minutes")
    parser.add_argument("--jobs", type=int, default=10_000)
    parser.add_argument("--submitters", type=int, default=20)
    parser.add_argument("--followers", type=int, default=50)
    parser.add_argument("--pause", type=float, default=2.0, metavar="S", help="that each person thinks")
    parser.add_argument("--write", type=Path, metavar="FILE", help="also write the report to FILE")
    options = parser.parse_args()
    machine = describe_machine()
    text = render(measure(options), options, machine)
    publish(text, options.write)


if __name__ == "__main__":
    main()

"""Metrics: points per second of four ranks with MLflow's own client, and a curve out of a million points, beside a real
`mlflow server` in the same run.

    python -m bench.metrics --rounds 5 --write docs/bench/metrics.md

MLflow is installed once, into a virtual environment of its own.
"""

import argparse
import itertools
import json
import os
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import psutil

from bench.metrics_report import render
from bench.serving import MIB, command_of, processes_of, serving
from bench.start import describe_machine
from bench.start_runs import HERE
from drumbeat.client import Client
from drumbeat.model.metrics import Point, PointsLogged, run_id
from drumbeat.server.metrics.tables import make_metric_store
from tools.kept_folder import KEPT

MLFLOW = "3.17.2"
SCRIPT = HERE / "log_points.py"
RANKS, MILLION, SHOWN = 4, 1_000_000, 1000
WAYS = ("single", "batch")
names = (f"metrics-{number}" for number in itertools.count())


@dataclass
class Measured:
    """What was measured, by who it was of: `drumbeat` or `mlflow`. Values of one position are of one round."""

    answered: dict[str, dict[str, list[float | None]]] = field(default_factory=dict)
    """Points per second until they were answered, by way."""
    kept: dict[str, list[float | None]] = field(default_factory=dict)
    """Points per second until the server had all of them; of drumbeat, whose nodes answer first."""
    slowest: dict[str, dict[str, list[float | None]]] = field(default_factory=dict)
    """Seconds of the slowest call, by way."""
    curves: dict[str, list[float | None]] = field(default_factory=dict)
    """Seconds in which the curve came."""
    starts: dict[str, list[float | None]] = field(default_factory=dict)
    """Seconds until the server answered."""
    memory: dict[str, float] = field(default_factory=dict)
    """MiB of all processes of the server after the rounds."""
    processes: dict[str, int] = field(default_factory=dict)


# --- a real MLflow server -----------------------------------------------------------------------------------------
def mlflow_python() -> Path:
    """The Python of an environment that has MLflow."""
    place = KEPT / "bench-tools" / f"mlflow-{MLFLOW}"
    python = place / "bin" / "python"
    if not (place / "whole").exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", place], check=True)
        subprocess.run([python, "-m", "pip", "install", "-q", f"mlflow=={MLFLOW}"], check=True)
        (place / "whole").touch()
    return python


@dataclass
class MlflowServer:
    """A server that runs. file: its database."""

    url: str
    file: Path
    process: psutil.Process

    def call(self, route: str, body: dict[str, object]) -> dict[str, dict[str, dict[str, str]]]:
        """Posts to a route."""
        answer = httpx.post(f"{self.url}/api/2.0/mlflow/{route}", json=body, timeout=60, trust_env=False)
        return answer.raise_for_status().json()

    def create_run(self) -> str:
        """A new run's id."""
        return self.call("runs/create", {"experiment_id": "0", "start_time": 0})["run"]["info"]["run_id"]

    def all_processes(self) -> list[psutil.Process]:
        """The server's and those that it started."""
        return [self.process, *self.process.children(recursive=True)]


@contextmanager
def mlflow_serving(python: Path, starts: list[float | None]) -> Iterator[MlflowServer]:
    """A server with one worker over SQLite, from a folder of its own."""
    with tempfile.TemporaryDirectory(prefix="mlflow-bench-") as name, socket.socket() as free:
        folder = Path(name)
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        free.close()
        url, file = f"http://127.0.0.1:{port}", folder / "mlflow.db"
        places = ["--backend-store-uri", f"sqlite:///{file}", "--artifacts-destination", str(folder / "artifacts")]
        command = [python, "-m", "mlflow", "server", "--port", str(port), "--workers", "1", *places]
        begun = time.monotonic()
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log)
        server = MlflowServer(url, file, psutil.Process(process.pid))
        try:
            wait_until(lambda: answers(f"{url}/health"), 180)
            starts.append(time.monotonic() - begun)
            yield server
        finally:
            for one in server.all_processes():
                with suppress(psutil.Error):
                    one.kill()
            process.wait()


def answers(url: str) -> bool:
    """Whether a server is there."""
    with suppress(httpx.HTTPError):
        return httpx.get(url, timeout=5, trust_env=False).status_code == 200
    return False


def wait_until(is_so: Callable[[], bool], seconds: float) -> None:
    """Until it is, or an end of the benchmark."""
    end = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() > end:
            sys.exit("a server or its points didn't come in time")
        time.sleep(0.02)


# --- points per second --------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Logged:
    """What four ranks did."""

    points: int
    begun: float
    ended: float
    slowest: float

    @property
    def rate(self) -> float:
        """Points per second until they were answered."""
        return self.points / (self.ended - self.begun)


def seen_in(folder: Path) -> Logged:
    """What the ranks wrote down."""
    ranks = [json.loads((folder / f"rank-{rank}.json").read_text(encoding="utf-8")) for rank in range(RANKS)]
    return Logged(
        sum(one["points"] for one in ranks),
        min(one["begun"] for one in ranks),
        max(one["ended"] for one in ranks),
        max(one["slowest"] for one in ranks),
    )


def log_in_job(client: Client, python: Path, way: str, seconds: float) -> tuple[Logged, float]:
    """Four ranks of a job; what they saw, and points per second until the server had all of them."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        job = {
            "name": next(names),
            "command": f"{python} {SCRIPT} {way} {seconds} {RANKS} {folder}",
            "distribution": {"type": "pytorch", "process_count_per_instance": RANKS},
            "drumbeat": {"environment": "current", "system_metrics": False},
        }
        submitted = client.submit(job).name
        wait_until(lambda: len(list(folder.glob("rank-*.json"))) == RANKS or client.get(submitted).has_ended, 120)
        logged = seen_in(folder)
        wait_until(lambda: sum(one.count for one in client.metrics(submitted).series) >= logged.points, 120)
        kept = logged.points / (time.time() - logged.begun)
        client.wait(submitted)
        assert sum(one.count for one in client.metrics(submitted).series) == logged.points
        return logged, kept


def log_to_mlflow(server: MlflowServer, python: Path, way: str, seconds: float) -> Logged:
    """Four processes that write into one run of the real server."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shared = {**os.environ, "MLFLOW_TRACKING_URI": server.url, "MLFLOW_RUN_ID": server.create_run()}
        command = [python, SCRIPT, way, str(seconds), str(RANKS), folder]
        ranks = [subprocess.Popen(command, env={**shared, "RANK": str(rank)}) for rank in range(RANKS)]
        for rank in ranks:
            rank.wait()
        return seen_in(folder)


def measure_rates(client: Client, server: MlflowServer, python: Path, seconds: float, measured: Measured) -> None:
    """Each way once, of both."""
    for way in WAYS:
        ours, kept = log_in_job(client, python, way, seconds)
        theirs = log_to_mlflow(server, python, way, seconds)
        measured.kept.setdefault(way, []).append(kept)
        for name, logged in (("drumbeat", ours), ("mlflow", theirs)):
            measured.answered.setdefault(name, {}).setdefault(way, []).append(logged.rate)
            measured.slowest.setdefault(name, {}).setdefault(way, []).append(logged.slowest)


# --- a curve out of a million points ------------------------------------------------------------------------------
def value_at(step: int) -> float:
    """Something that goes up and down."""
    return float((step * 7919) % 100_003)


def fill_drumbeat(client: Client, home: Path) -> str:
    """A job with a million points of rank 0, written into its database beside the server."""
    name = client.submit({"name": next(names), "command": "true", "drumbeat": {"environment": "current"}}).name
    client.wait(name)
    client.metrics(name)
    with closing(make_metric_store(home / "metrics.db")) as store:
        for first in range(0, MILLION, 10_000):
            points = (Point("loss", value_at(step), step, step) for step in range(first, first + 10_000))
            store.write([PointsLogged(run_id(name), 0, tuple(points))])
    return name


def fill_mlflow(server: MlflowServer) -> str:
    """A run with a million points, written into the server's database."""
    run = server.create_run()
    server.call("runs/log-metric", {"run_id": run, "key": "loss", "value": value_at(0), "timestamp": 0, "step": 0})
    rows = (("loss", value_at(step), step, run, step, False) for step in range(1, MILLION))
    with closing(sqlite3.connect(server.file, timeout=60)) as database, database:
        database.executemany(
            "INSERT INTO metrics (key, value, timestamp, run_uuid, step, is_nan) VALUES (?, ?, ?, ?, ?, ?)", rows
        )
    return run


def measure_curves(client: Client, job: str, server: MlflowServer, run: str, measured: Measured) -> None:
    """The same question to both: about a thousand points of one metric of one run."""
    begun = time.perf_counter()
    (curve,) = client.curves(job, ["loss"], rank=0, max_points=SHOWN)
    measured.curves.setdefault("drumbeat", []).append(time.perf_counter() - begun)
    values = [point.value for point in curve.points]
    assert 0.9 * SHOWN <= len(values) <= SHOWN
    assert (min(values), max(values)) == (0.0, 100_002.0)
    url = f"{server.url}/ajax-api/2.0/mlflow/metrics/get-history-bulk-interval"
    asked = {"run_ids": run, "metric_key": "loss", "max_results": str(SHOWN)}
    begun = time.perf_counter()
    answer = httpx.get(url, params=asked, timeout=120, trust_env=False).raise_for_status()
    measured.curves.setdefault("mlflow", []).append(time.perf_counter() - begun)
    assert len(answer.json()["metrics"]) >= 0.9 * SHOWN


def memory_mib(processes: list[psutil.Process]) -> float:
    """What the processes have for themselves, and their parts of what they share."""
    return sum(process.memory_full_info().pss for process in processes) / MIB


def main() -> None:
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=4.0, help="in which ranks log, each way of each round")
    parser.add_argument("--write", type=Path)
    options = parser.parse_args()
    python, measured = mlflow_python(), Measured()
    measured.starts = {"drumbeat": [], "mlflow": []}
    begun = time.monotonic()
    with serving() as home:
        measured.starts["drumbeat"].append(time.monotonic() - begun)
        with mlflow_serving(python, measured.starts["mlflow"]) as server, Client(home=home) as client:
            for number in range(options.rounds):
                measure_rates(client, server, python, options.seconds, measured)
                print(f"round {number + 1} of {options.rounds}", file=sys.stderr)
            own = [one for one in processes_of(home) if "drumbeat.server" in command_of(one)]
            measured.memory = {"drumbeat": memory_mib(own), "mlflow": memory_mib(server.all_processes())}
            measured.processes = {"drumbeat": len(own), "mlflow": len(server.all_processes())}
            job, run = fill_drumbeat(client, home), fill_mlflow(server)
            for _ in range(options.rounds):
                measure_curves(client, job, server, run, measured)
    page = render(measured, describe_machine())
    if options.write:
        options.write.write_text(page, encoding="utf-8")
    print(page)


if __name__ == "__main__":
    main()

"""Gangs of many nodes: what the server needs to start one, to run it and to end it, as the number of nodes grows.

    python -m bench.scale --nodes 16 64 256 --write docs/bench/scale.md

A real server (`bench.scale_server`) over an engine without machines; one process plays all agents over the real
protocol (`bench.scale_player`). Beside it, in the same run, torch's own `c10d` rendezvous: one TCPStore, and as many
agents as there are nodes, as threads of one process.
"""

import argparse
import asyncio
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import psutil

from bench.scale_player import RANKS, Player, Times
from bench.serving import MIB
from bench.start import describe_machine
from bench.start_report import publish
from drumbeat.client import Client
from tests.contract.postgres import a_cluster

HEAD = """\
# Gangs of many nodes

<!-- Written by `make bench-scale`. -->

A real server over an engine without machines. One process plays the agents of one gang with {ranks} ranks a node, over
the agents' own protocol: they enrol, are ready, run for {run_s:.0f} s of long polls; then rank 0 of node 0 fails, all
end and leave. *CPU* is the server's. *torch* is the time in which as many agents, threads of one process, agree by
torch's own `c10d` rendezvous (one TCPStore), from the first one's call to the last one's answer; up to {most_torch}.

Machine: {machine}.

{tables}
"""
TITLES = (
    "nodes", "ranks", "CPU s, submit → all told RUN", "CPU ms a node", "wall s, all READY → last told RUN",
    "torch, wall s", "wall s, failure → last told STOP", "wall s, all ended → last one left",
    "CPU s, failure → all left",
    "running: cores", "MiB on top of idle", "KB to a node until RUN",
)  # fmt: skip
MAX_TORCH = 32

RENDEZVOUS = """
import sys, threading, time
from torch.distributed import TCPStore
from torch.distributed.elastic.rendezvous import RendezvousParameters
from torch.distributed.elastic.rendezvous.c10d_rendezvous_backend import C10dRendezvousBackend
from torch.distributed.elastic.rendezvous.dynamic_rendezvous import DynamicRendezvousHandler
nodes = int(sys.argv[1])
store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
def agree(number):
    own = TCPStore("127.0.0.1", store.port, is_master=False)
    handler = DynamicRendezvousHandler.from_backend(
        run_id="bench", store=own, backend=C10dRendezvousBackend(own, "bench"), min_nodes=nodes, max_nodes=nodes,
        local_addr="127.0.0.1",
    )
    handler.next_rendezvous()
    done.append(time.monotonic())
done, threads = [], [threading.Thread(target=agree, args=(number,), daemon=True) for number in range(nodes)]
begun = time.monotonic()
for one in threads: one.start()
for one in threads: one.join()
print(max(done) - begun, flush=True)
import os
os._exit(0)
"""


@dataclass(frozen=True)
class Row:
    """What one gang took. Seconds of CPU are the server's."""

    database: str
    nodes: int
    start_cpu_s: float
    ready_to_run_s: float
    torch_s: float | None
    failure_to_stop_s: float
    ended_to_left_s: float
    end_cpu_s: float
    running_cores: float
    memory_mib: float
    node_kb: float


class Probe:
    """CPU and memory of the server's process at the moments of a gang."""

    def __init__(self, pid: int) -> None:
        self._process = psutil.Process(pid)
        self.cpu_s: dict[str, float] = {}
        self.at: dict[str, float] = {}
        self.memory: dict[str, int] = {}

    def __call__(self, moment: str) -> None:
        self.at[moment] = time.monotonic()
        self.cpu_s[moment] = sum(self._process.cpu_times()[:2])
        self.memory[moment] = self._process.memory_info().rss


@contextmanager
def paper_server(url: str) -> Iterator[tuple[Path, int]]:
    """A server over machines on paper: its home and its pid. url: of its database, "" = SQLite."""
    home = Path(tempfile.mkdtemp(prefix="drumbeat-bench-"))
    environment = {**os.environ, "DRUMBEAT_HOME": str(home), **({"DRUMBEAT_DATABASE": url} if url else {})}
    words = [sys.executable, "-m", "bench.scale_server", "--home", str(home), "--idle-stop", "0"]
    process = subprocess.Popen(words, env=environment)
    try:
        while not (home / "server.json").exists():
            if process.poll() is not None:
                raise SystemExit(f"the server ended with {process.returncode}")
            time.sleep(0.05)
        yield home, process.pid
    finally:
        process.terminate()
        process.wait()
        shutil.rmtree(home, ignore_errors=True)


def measure(nodes: int, run_s: float, database: str, url: str) -> Row:
    """One gang on a server of its own."""
    with paper_server(url) as (home, pid):
        probe = Probe(pid)
        os.environ["DRUMBEAT_HOME"] = str(home)
        probe("idle")
        job = Client().submit(job_file(home, nodes)).name
        file = home / "gangs" / f"{job}.json"
        while not file.exists():
            time.sleep(0.01)
        gang = json.loads(file.read_text(encoding="utf-8"))
        player = Player(home / "server.sock", gang["job"], gang["attempt"], gang["secrets"], run_s, probe)
        times = asyncio.run(player.play())
        probe("left")
    return row(nodes, database, times, probe)


def row(nodes: int, database: str, times: Times, probe: Probe) -> Row:
    """The figures of one gang, without torch's."""
    cpu = probe.cpu_s
    return Row(
        database=database,
        nodes=nodes,
        start_cpu_s=cpu["run"] - cpu["idle"],
        ready_to_run_s=max(times.run) - max(times.ready),
        torch_s=None,
        failure_to_stop_s=max(times.stop) - times.failed,
        ended_to_left_s=max(times.left) - max(times.ended),
        end_cpu_s=cpu["left"] - cpu["fail"],
        running_cores=(cpu["fail"] - cpu["run"]) / (probe.at["fail"] - probe.at["run"]),
        memory_mib=(probe.memory["fail"] - probe.memory["idle"]) / MIB,
        node_kb=times.received_by_run / nodes / 1000,
    )


def job_file(home: Path, nodes: int) -> Path:
    """A PyTorch job of so many nodes."""
    file = home / "job" / "job.yml"
    file.parent.mkdir()
    job = {
        "command": "true",
        "resources": {"instance_count": nodes},
        "distribution": {"type": "pytorch", "process_count_per_instance": RANKS},
        "drumbeat": {"environment": "current", "preflight": False},
    }
    file.write_text(json.dumps(job), encoding="utf-8")
    return file


def torch_rendezvous(nodes: int) -> float | None:
    """Seconds in which so many agents agree by torch's rendezvous.

    None = too many for threads, or not within ten minutes.
    """
    if nodes > MAX_TORCH:
        return None
    try:
        done = subprocess.run(
            [sys.executable, "-c", RENDEZVOUS, str(nodes)], capture_output=True, text=True, timeout=600, check=True
        )
    except subprocess.TimeoutExpired:
        return None
    return float(done.stdout.split()[-1])


def render(rows: list[Row], run_s: float) -> str:
    """The page."""
    tables = []
    for database in dict.fromkeys(one.database for one in rows):
        lines = [f"## {database}", "", f"| {' | '.join(TITLES)} |", "|---" * len(TITLES) + "|"]
        lines += [_line(one) for one in rows if one.database == database]
        tables.append("\n".join(lines))
    return HEAD.format(
        ranks=RANKS, run_s=run_s, machine=describe_machine(), most_torch=MAX_TORCH, tables="\n\n".join(tables)
    )


def _line(one: Row) -> str:
    torch = "" if one.torch_s is None else f"{one.torch_s:.2f}"
    start = (f"{one.start_cpu_s:.2f}", f"{1000 * one.start_cpu_s / one.nodes:.1f}", f"{one.ready_to_run_s:.2f}", torch)
    end = (f"{one.failure_to_stop_s:.2f}", f"{one.ended_to_left_s:.2f}", f"{one.end_cpu_s:.2f}")
    running = (f"{one.running_cores:.3f}", f"{one.memory_mib:.0f}", f"{one.node_kb:.1f}")
    cells = (f"{one.nodes:,}", f"{one.nodes * RANKS:,}", *start, *end, *running)
    return f"| {' | '.join(cells)} |"


def main() -> None:
    """Measures gangs of each size on each database, one after the other."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, nargs="+", default=[16, 64, 256])
    parser.add_argument("--databases", nargs="+", choices=["SQLite", "PostgreSQL"], default=["SQLite", "PostgreSQL"])
    parser.add_argument("--run-s", type=float, default=10.0)
    parser.add_argument("--write", type=Path)
    options = parser.parse_args()
    rows: list[Row] = []
    with ExitStack() as closes:
        cluster = closes.enter_context(a_cluster(fsync=True)) if "PostgreSQL" in options.databases else None
        for nodes in options.nodes:
            torch_s = torch_rendezvous(nodes)
            for database in options.databases:
                with ExitStack() as own:
                    url = ""
                    if database == "PostgreSQL" and cluster:
                        url = cluster.url(own.enter_context(cluster.empty_database()))
                    found = measure(nodes, options.run_s, database, url)
                rows.append(replace(found, torch_s=torch_s))
                print(_line(rows[-1]), database, flush=True)
    rows.sort(key=lambda one: options.databases.index(one.database))
    publish(render(rows, options.run_s), options.write)


if __name__ == "__main__":
    main()

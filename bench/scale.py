"""Gangs of many nodes: what the server needs to start one, to run it and to end it, as the number of nodes grows.

    python -m bench.scale --nodes 64 256 1024 4096 --write docs/bench/scale.md

--before names a page that the benchmark of an earlier version has written: its tables go into this one, and its figures
into the chart.

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
from functools import partial
from pathlib import Path

import psutil

from bench.scale_chart import Point, draw, read_points
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
the agents' own protocol: they enrol, are ready, and run while each polls once; then rank 0 of node 0 fails, all end and
leave. *CPU* is the server's. *Running* is the time from when the server has taken in that all run. *torch* is the time
in which as many agents, threads of one process, agree by torch's own `c10d` rendezvous (one TCPStore), from the first
one's call to the last one's answer; up to {most_torch}.

{goals}

Machine: {machine}. Load of it when each gang began: {loads}.

![Growth with the number of nodes](scale.svg)

{tables}
"""
GOALS = """\
Goals: at most 1.5 ms of CPU a node until RUN, linear to 4,096 nodes; for 1,024 nodes 2 s from READY to RUN, and 1 s
from a failure to STOP; for 4,096 running nodes 0.10 of a core and 200 MB; 4 KB to a node, whatever their number."""
BEFORE = """\
## Before

Commit 1708a1be, by its own benchmark: *running* counts from RUN on, so that it has the statuses that say so.

{tables}"""
TITLES = (
    "nodes", "ranks", "CPU s, submit → all told RUN", "CPU ms a node", "wall s, all READY → last told RUN",
    "torch, wall s", "wall s, failure → last told STOP", "wall s, all ended → last one left",
    "CPU s, failure → all left",
    "running: cores", "MiB on top of idle", "KB to a node until RUN",
)  # fmt: skip
MAX_TORCH = 32
IDLE_CORES = 0.4

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
    load: float = 0.0
    """Of the machine, when the gang began."""


class Probe:
    """CPU and memory of the server's process at the moments of a gang."""

    def __init__(self, pid: int) -> None:
        self._process = psutil.Process(pid)
        self.cpu_s: dict[str, float] = {}
        self.at: dict[str, float] = {}
        self.memory: dict[str, int] = {}

    def read_cpu_s(self) -> float:
        """What the server has used."""
        return sum(self._process.cpu_times()[:2])

    def __call__(self, moment: str) -> None:
        self.at[moment] = time.monotonic()
        self.cpu_s[moment] = self.read_cpu_s()
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


async def settle(probe: Probe) -> None:
    """Returns once the server has been nearly idle for a second, or after a minute."""
    for _ in range(60):
        before = probe.read_cpu_s()
        await asyncio.sleep(1)
        if probe.read_cpu_s() - before < IDLE_CORES:
            return


def measure(nodes: int, database: str, url: str) -> Row:
    """One gang on a server of its own."""
    load = os.getloadavg()[0]
    with paper_server(url) as (home, pid):
        probe = Probe(pid)
        os.environ["DRUMBEAT_HOME"] = str(home)
        probe("idle")
        job = Client().submit(job_file(home, nodes)).name
        file = home / "gangs" / f"{job}.json"
        while not file.exists():
            time.sleep(0.01)
        gang = json.loads(file.read_text(encoding="utf-8"))
        socket, calm = home / "server.sock", partial(settle, probe)
        player = Player(socket, gang["job"], gang["attempt"], gang["secrets"], probe, calm)
        times = asyncio.run(player.play())
        probe("left")
    return replace(row(nodes, database, times, probe), load=load)


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
        running_cores=(cpu["fail"] - cpu["settled"]) / (probe.at["fail"] - probe.at["settled"]),
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


def render(rows: list[Row], before: str = "") -> str:
    """The page. before: tables of an earlier version."""
    tables = []
    for database in dict.fromkeys(one.database for one in rows):
        lines = [f"## {database}", "", f"| {' | '.join(TITLES)} |", "|---" * len(TITLES) + "|"]
        lines += [_line(one) for one in rows if one.database == database]
        tables.append("\n".join(lines))
    if before:
        tables.append(BEFORE.format(tables=before.replace("## ", "### ")))
    loads = ", ".join(f"{one.load:.1f}" for one in rows)
    words = {"ranks": RANKS, "machine": describe_machine(), "most_torch": MAX_TORCH, "loads": loads, "goals": GOALS}
    return HEAD.format(tables="\n\n".join(tables), **words)


def tables_of(page: str) -> str:
    """The tables of a page that this benchmark wrote, with their headings."""
    return page[page.index("\n## ") + 1 :].strip()


def _line(one: Row) -> str:
    torch = "" if one.torch_s is None else f"{one.torch_s:.2f}"
    start = (f"{one.start_cpu_s:.2f}", f"{1000 * one.start_cpu_s / one.nodes:.1f}", f"{one.ready_to_run_s:.2f}", torch)
    end = (f"{one.failure_to_stop_s:.2f}", f"{one.ended_to_left_s:.2f}", f"{one.end_cpu_s:.2f}")
    running = (f"{one.running_cores:.3f}", f"{one.memory_mib:.0f}", f"{one.node_kb:.1f}")
    cells = (f"{one.nodes:,}", f"{one.nodes * RANKS:,}", *start, *end, *running)
    return f"| {' | '.join(cells)} |"


def points_of(rows: list[Row]) -> list[Point]:
    """What the chart shows of them."""
    return [Point(one.database, one.nodes, one.start_cpu_s, one.ready_to_run_s, one.ended_to_left_s) for one in rows]


def main() -> None:
    """Measures gangs of each size on each database, one after the other."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, nargs="+", default=[64, 256, 1024, 4096])
    parser.add_argument("--databases", nargs="+", choices=["SQLite", "PostgreSQL"], default=["SQLite", "PostgreSQL"])
    parser.add_argument("--before", type=Path, help="a page of an earlier version")
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
                    found = measure(nodes, database, url)
                rows.append(replace(found, torch_s=torch_s))
                print(_line(rows[-1]), database, flush=True)
    rows.sort(key=lambda one: options.databases.index(one.database))
    before = tables_of(options.before.read_text(encoding="utf-8")) if options.before else ""
    publish(render(rows, before), options.write)
    if options.write:
        draw(points_of(rows), read_points(before), options.write.with_suffix(".svg"))


if __name__ == "__main__":
    main()

"""Staging: one node beside fsspec, rclone and the store's own tool, and four nodes that pass pieces on. Needs root.

python -m bench.staging --rounds 5 --write docs/bench/staging.md
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from bench.spread import ratios, say, spread
from bench.stage_tools import aws, azcopy, drop, fsspec_python, rclone, sent, serving, set_aside
from bench.staging_stores import Store, bucket, container, web
from drumbeat.client import Client

EGRESS = "200mbit"
NODES = 4
ONE = {"many": (2000, 20_000), "large": (1, 300_000_000)}
"""What one node stages. Name to (files, bytes of each)."""
GANG = {"many": ONE["many"], "images": (2000, 110_000), "large": ONE["large"]}
"""What a gang stages: also files of the size of ImageNet's, with which the store is what is waited for."""


@dataclass
class Found:
    """Seconds of each store, set of data and way; shares of the data that the store sent for a gang."""

    seconds: dict[tuple[str, str, str], list[float | None]] = field(
        default_factory=dict[tuple[str, str, str], "list[float | None]"]
    )
    shares: dict[str, list[float]] = field(default_factory=dict)

    load: float = field(default_factory=lambda: os.getloadavg()[0])

    def add(self, store: str, data: str, way: str, seconds: float | None) -> None:
        """One run. store: "" = the gang's web server."""
        self.seconds.setdefault((store, data, way), []).append(seconds)
        print(f"{store:34} {data:6} {way:22} {f'{seconds:.2f} s' if seconds is not None else '-'}", flush=True)


@dataclass
class Bench:
    """A drumbeat of its own, in a folder that goes."""

    folder: Path
    client: Client
    count: int = 0

    @property
    def lab(self) -> Path:
        """The lab's folder."""
        return self.folder / "home" / "labs" / "lab"

    def stage(self, url: str, compute: str = "local", nodes: int = 1) -> float:
        """Seconds from the nodes' first word to the start of the ranks, of a job with this input."""
        self.count += 1
        job = self.folder / "job.yml"
        job.write_text(
            f"name: stage-{self.count}\ncommand: 'true'\ncompute: {compute}\nresources: {{instance_count: {nodes}}}\n"
            f"inputs: {{train: {{type: uri_folder, path: '{url}', mode: download}}}}\n"
            "drumbeat: {environment: current, max_retries: 0}\n"
        )
        name = self.client.submit(job).name
        ended = self.client.wait(name, 600)
        if ended is None or ended.state != "completed":
            sys.exit(f"{name}: {ended.sentence if ended else 'it never ended'}")
        lines = self.client.story(name)
        begun = next(line.at for line in lines if line.state == "staging")
        return (next(line.at for line in lines if line.state == "running") - begun).total_seconds()

    def forget(self) -> None:
        """What nodes have kept."""
        set_aside(self.folder / "bin", self.folder / "cache", *self.lab.glob("nodes/*/data"))


# --- one node ---------------------------------------------------------------------------------------------------
def measure_one(bench: Bench, store: Store, rounds: int, found: Found) -> None:
    """Every way in turn, each round."""
    for _ in range(rounds):
        for data in ONE:
            bench.forget()
            found.add(store.name, data, "drumbeat", bench.stage(store.uri(data)))
            found.add(store.name, data, "drumbeat, again", bench.stage(store.uri(data)))
            for name in store.others:
                found.add(store.name, data, name, _timed(bench, store, name, data))


def _timed(bench: Bench, store: Store, name: str, data: str) -> float | None:
    """Of the whole command, or what it printed last: its own time."""
    to = bench.folder / "to"
    begun = time.perf_counter()
    command, variables = store.others[name](data, to), {**os.environ, **store.environment}
    variables.pop("AWS_CA_BUNDLE", None)  # No TLS here, and rclone of some versions won't start with one.
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600, env=variables)
    seconds = time.perf_counter() - begun
    size = sum(path.stat().st_size for path in to.rglob("*") if path.is_file())
    set_aside(bench.folder / "bin", to)
    count, each = ONE[data]
    if done.returncode or size < count * each:
        print(f"{done.stdout}{done.stderr}"[-500:], f"{size:,} bytes came")
        return None
    return float(done.stdout) if name == "fsspec" else seconds


# --- a gang -----------------------------------------------------------------------------------------------------
def measure_gang(bench: Bench, root: Path, rounds: int, found: Found) -> None:
    """One node and four by turns, the store's egress shaped."""
    bench.client.create_compute({"name": "lab", "type": "netlab", "nodes": NODES, "cpus": 1})
    import json

    lab = json.loads((bench.lab / "lab.json").read_text())
    shape = ["tc", "qdisc", "replace", "dev", lab["interface"], "root", "tbf", "rate", EGRESS, "burst", "128kb"]
    subprocess.run([*shape, "latency", "50ms"], check=True)
    address = f"{lab['gateway']}:8080"
    bench.client.create_datastore({"name": "lab-web", "type": "http", "url": f"http://{address}"}, check=False)
    with serving(root, address, bench.folder / "nginx-lab") as log:
        for _ in range(rounds):
            for data, (count, size) in GANG.items():
                for nodes in (1, NODES):
                    bench.forget()
                    before = sent(log)
                    seconds = bench.stage(f"http://{address}/{data}/", "lab", nodes)
                    found.add("", data, _gang(nodes), seconds)
                    found.shares.setdefault(f"{data} {nodes}", []).append((sent(log) - before) / (count * size))


def _gang(nodes: int) -> str:
    return "one node" if nodes == 1 else f"{nodes} nodes"


# --- the report -------------------------------------------------------------------------------------------------
def report(found: Found, rounds: int) -> str:
    """Markdown."""
    lines = [HEAD.format(rounds=rounds, cores=len(os.sched_getaffinity(0)), egress=EGRESS, load=found.load)]
    for store in dict.fromkeys(store for store, _, _ in found.seconds if store):
        for data in ONE:
            lines += [f"## {_size(data)} from {store}\n", "| | seconds | drumbeat ÷ it |", "|---|---|---|"]
            ours = found.seconds[store, data, "drumbeat"]
            ways = {way: seconds for (*where, way), seconds in found.seconds.items() if where == [store, data]}
            for way, theirs in ways.items():
                ratio = "" if way == "drumbeat" else say(spread(ratios(ours, theirs)))
                lines.append(f"| {way} | {say(spread(theirs), 'failed')} | {ratio} |")
            lines.append("")
    for data in GANG:
        lines += [f"## {_size(data)} for a gang\n", *_gang_lines(found, data), ""]
    return "\n".join([*lines, _missing()])


def _size(data: str) -> str:
    count, size = GANG[data]
    return f"{count:,} × {size / 1000:,.0f} kB"


def _gang_lines(found: Found, data: str) -> Iterator[str]:
    yield f"| store's egress {EGRESS} | seconds | bytes from the store ÷ data |"
    yield "|---|---|---|"
    for nodes in (1, NODES):
        share = say(spread(list(found.shares[f"{data} {nodes}"])))
        yield f"| {_gang(nodes)} | {say(spread(found.seconds['', data, _gang(nodes)]))} | {share} |"
    pairs = ratios(found.seconds["", data, _gang(NODES)], found.seconds["", data, _gang(1)])
    yield f"| {NODES} nodes ÷ one | {say(spread(pairs))} (goal ≤ 1.3) | goal ≤ 1.1 |"


def _missing() -> str:
    tools = {"fsspec": fsspec_python(), "rclone": rclone(), "aws": aws(), "azcopy": azcopy()}
    gone = [name for name, there in tools.items() if not there]
    return f"Not to be had here, so not measured: {', '.join(gone)}.\n" if gone else ""


HEAD = """\
# Staging

<!-- Written by `make bench-staging`. -->

An input in a store on the same machine comes to a node's cache and is laid out for the ranks. drumbeat's seconds are
from the nodes' first word to the start of the ranks: the fetching, the checks, the links, and the meeting of the nodes
are in them, and what is left then of the listing, which begins when the nodes are started; *again* is a second job with
the same input. fsspec's are those of its `find` and `get`; of rclone, `aws s3 cp` and azcopy it is the whole command.
Each round takes every way in turn; ratios are taken within a round. Each figure is the median, in brackets the inner
half and the ends of {rounds} rounds.

For a gang the nodes are namespaces of this machine with a cache each, and all that leaves the store, nginx, goes
through {egress}. Machine: {cores} cores; load before the first run {load:.1f}.
"""


@contextmanager
def a_bench() -> Iterator[Bench]:
    """With a server, data and caches below one temporary folder."""
    folder = Path(tempfile.mkdtemp(prefix="drumbeat-bench-"))
    os.environ["DRUMBEAT_CACHE"] = str(folder / "cache")
    os.environ["DRUMBEAT_CACHE_BYTES"] = "4000000000"
    try:
        with Client(folder / "home") as client:
            client.status()
            yield Bench(folder, client)
            client.stop(force=True)  # The last job has ended; on a loaded machine its nodes may still be leaving.
    finally:
        drop(folder)


def make_data(root: Path) -> None:
    """The files that are served."""
    for name, (count, size) in GANG.items():
        (root / name).mkdir(parents=True)
        for number in range(count):
            (root / name / f"{number:05}.bin").write_bytes(os.urandom(size))


def main() -> None:
    """Measures, prints, writes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--write", type=Path)
    given = parser.parse_args()
    found = Found()
    with a_bench() as bench:
        root = bench.folder / "served"
        make_data(root)
        bench.folder.chmod(0o755)
        with web(bench.client, root, bench.folder / "nginx") as store:
            measure_one(bench, store, given.rounds, found)
        with bucket(bench.client, root, bench.folder / "s3") as store:
            measure_one(bench, store, given.rounds, found)
        with container(bench.client, root, bench.folder / "azurite") as store:
            measure_one(bench, store, given.rounds, found)
        measure_gang(bench, root, given.rounds, found)
    text = report(found, given.rounds)
    print(text)
    if given.write:
        given.write.write_text(text)


if __name__ == "__main__":
    main()

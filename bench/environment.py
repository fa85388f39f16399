"""Environments: the node that makes one beside the nodes that take it over, and what a changed line costs. Needs root.

Nodes of a lab, each with caches of its own. python -m bench.environment --rounds 3 --write docs/bench/environment.md
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from bench.spread import ratios, say, spread
from drumbeat.engines.netlab.lab import Lab
from drumbeat.model.errors import NotFoundError
from drumbeat.model.plan import PythonEnvironment
from tests.real.depot import Depot, a_lab_depot
from tests.support.memory_data import MemoryData

REQUIREMENTS = ("scikit-learn", "pandas", "matplotlib", "mlflow-skinny>=3,<4", "tqdm")
"""The last one is the line that is changed: a package less."""
NODES = 3
_MADE = re.compile(r"was built in ([\d.]+) s")
_TAKEN = re.compile(r"was taken over.* in ([\d.]+) s: ([\d.]+) (\w+) of ([\d.]+) (\w+)")
_UNITS = {"bytes": 1, "kB": 1e3, "MB": 1e6, "GB": 1e9}


@dataclass
class Found:
    """Seconds of each way, and the bytes that were fetched and that the environment has."""

    seconds: dict[str, list[float | None]] = field(default_factory=dict[str, "list[float | None]"])
    fetched: dict[str, list[float]] = field(default_factory=dict[str, "list[float]"])
    size: float = 0.0

    def add(self, way: str, seconds: float) -> None:
        self.seconds.setdefault(way, []).append(seconds)
        print(f"{way:50} {seconds:7.1f} s", flush=True)


def _download(folder: Path, requirements: list[str]) -> int:
    """Brings the wheels of the packages, so that no line of this machine's is measured; returns how many they are."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--only-binary", ":all:", "--dest", str(folder)]
    subprocess.run([*command, *requirements], check=True)
    return len(list(folder.iterdir()))


def _environment(key: str, lines: tuple[str, ...], source: str) -> PythonEnvironment:
    return PythonEnvironment(key, source, "", lines, source="requirements.txt", lines=tuple(range(1, len(lines) + 1)))


@dataclass
class Bench:
    """A server with a lab of nodes."""

    depot: Depot
    folder: Path
    found: Found
    count: int = 0

    def run(self, nodes: int, python: PythonEnvironment) -> list[str]:
        """What each node says of the environment, in a job that does nothing else."""
        self.count += 1
        name = f"job-{self.count}"
        self.depot.submit(name, "true", nodes=nodes, python=python)
        job = self.depot.ended(name, 3600)
        if job.state != "completed":
            raise SystemExit(f"{name}: {job.sentence}")
        return [self._log(name, node) for node in range(nodes)]

    def _log(self, name: str, node: int) -> str:
        try:
            return self.depot.control.artifacts.open_file(name, f"logs/1.1/{node}/node.log").read_text()
        except NotFoundError:
            return ""

    def forget(self) -> None:
        """What nodes and server have."""
        for node in (self.folder / "lab" / "nodes").iterdir():
            shutil.rmtree(node / "cache", ignore_errors=True)
        shutil.rmtree(self.folder / "home" / "environments", ignore_errors=True)


def _one_round(bench: Bench, first: PythonEnvironment, changed: PythonEnvironment) -> None:
    found = bench.found
    logs = bench.run(2, first)
    made = [float(match[1]) for log in logs if (match := _MADE.search(log))]
    assert len(made) == 1, logs
    found.add("made by one node", made[0])
    _taken(found, "taken over by another node of its job", logs)
    later = bench.run(NODES, first)
    _taken(found, "taken over by a node of a later job", later)
    logs = bench.run(NODES, changed)
    made = [float(match[1]) for log in logs if (match := _MADE.search(log))]
    assert len(made) == 1, logs
    found.add("one line changed: made by one node", made[0])
    _taken(found, "one line changed: taken over", logs)


def _taken(found: Found, way: str, logs: list[str]) -> None:
    matches = [match for log in logs if (match := _TAKEN.search(log))]
    assert matches, logs
    found.add(way, sum(float(match[1]) for match in matches) / len(matches))
    for match in matches:
        found.fetched.setdefault(way, []).append(float(match[2]) * _UNITS[match[3]])
        found.size = float(match[4]) * _UNITS[match[5]]


@contextmanager
def _a_bench(found: Found) -> Generator[Bench]:
    with tempfile.TemporaryDirectory(prefix="drumbeat-bench-") as name:
        folder = Path(name)
        lab = Lab(folder / "lab", "ben", NODES)
        lab.up()
        try:
            with a_lab_depot(folder, MemoryData(), lab, has_own_caches=True) as depot:
                yield Bench(depot, folder, found)
        finally:
            lab.close()


def _report(found: Found, rounds: int, what: str) -> str:
    first = found.seconds["made by one node"]
    lines = [
        "# Environments on several nodes",
        "",
        f"Written by `make bench-environment` on a machine of {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}:",
        f"{rounds} rounds. Nodes of a lab, each with caches of its own; {what}, {found.size / 1e6:.0f} MB on the disk.",
        "Seconds as the nodes' logs say them: median (inner half; ends).",
        "",
        "| | seconds | of the first node's time | fetched |",
        "|---|---|---|---|",
    ]
    for way, seconds in found.seconds.items():
        share = spread(ratios(seconds, first))
        fetched = found.fetched.get(way)
        amount = f"{min(fetched) / 1e6:.2f} to {max(fetched) / 1e6:.2f} MB" if fetched else ""
        lines.append(
            f"| {way} | {say(spread(seconds), digits=1)} | {100 * share.median:.0f} % | {amount} |" if share else ""
        )
    lines += [
        "",
        "- A node takes an environment over as it takes inputs: contents by their SHA-256, from the node that made it",
        "  or from the server. What another of its environments has isn't fetched.",
        "- A changed line costs the tool's whole time on the node that makes the environment, and what changed on the",
        "  others.",
        "- All nodes are on one machine, so its cores and its disk are shared by the maker and those who take over.",
        "",
    ]
    return "\n".join(lines)


def main() -> None:
    """Measures, prints, and writes the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--requirements", nargs="*", default=REQUIREMENTS, help="the last one is what is changed")
    parser.add_argument("--write", type=Path)
    args = parser.parse_args()
    found = Found()
    os.environ.pop("DRUMBEAT_CACHE", None)
    with _a_bench(found) as bench:
        wheels = bench.folder / "wheels"
        count = _download(wheels, args.requirements)
        lines = ("--no-index", f"--find-links {wheels}", *args.requirements)
        for number in range(args.rounds):
            _one_round(
                bench,
                _environment(f"a{number}" + "0" * 10, lines, "first"),
                _environment(f"b{number}" + "0" * 10, lines[:-1], "changed"),
            )
            bench.forget()
    what = f"{count} packages ({', '.join(args.requirements)} and what they need) from wheels on the disk with pip"
    text = _report(found, args.rounds, what)
    print(text)
    if args.write:
        args.write.write_text(text)


if __name__ == "__main__":
    main()

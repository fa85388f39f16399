"""Sweeps of an empty trial: drumbeat beside Optuna with SQLite, Ray Tune, and a bare loop of subprocesses.

    python -m bench.sweep --rounds 5 --write docs/bench/sweep.md

Each round takes every way in turn, so that a change in the machine's load meets all of them. Ray is installed into a
virtual environment that is removed afterwards; --ray takes one that exists, and --without-ray leaves Ray out.
"""

import argparse
import itertools
import os
import shutil
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import psutil

from bench.serving import command_of, kind_of, processes_of, serving
from bench.start import describe_machine
from bench.start_report import publish
from bench.sweep_report import render
from bench.sweep_tools import SCRIPT, RayTune, Size, Sweep, make_ray, run_bare, run_optuna
from drumbeat.client import Client

PHASES = {
    "starting_nodes": "slots are granted",
    "preparing_nodes": "agent starts and enrols",
    "ranks_running": "code is staged",
    "training": "the script starts and logs its value",
    "keeping_results": "metrics and log, the end of the ranks",
    "finished": "outputs, the end of the job",
}
"""What ends when a trial's story reaches a reason."""


@dataclass
class Drumbeat:
    """A server of the benchmark's own. code: the folder with the trial's script."""

    home: Path
    client: Client
    code: Path
    numbers: "itertools.count[int]" = field(default_factory=itertools.count)

    def run(self, size: Size) -> Sweep:
        """Submits the grid to the server that is up, and waits for its end."""
        name, server = f"sweep-{next(self.numbers)}", self._server()
        before, begun = server.cpu_times(), time.monotonic()
        self.client.submit(self._document(name, size))
        self.client.wait(name)
        took_s = time.monotonic() - begun
        best = self.client.get(name)
        assert best.state == "completed", best.sentence
        self._wait_for_agents()
        phases = [self._phases(f"{name}_{number}") for number in range(size.trials)]
        # Its own in user and system mode, and that of the processes that it and its agents started and waited for.
        user_s, system_s, *below_s = (now - then for now, then in zip(server.cpu_times()[:4], before[:4], strict=True))
        return Sweep(took_s, user_s + system_s + sum(below_s), user_s + system_s, phases)

    def _document(self, name: str, size: Size) -> dict[str, object]:
        return {
            "type": "sweep",
            "name": name,
            "trial": {
                "code": str(self.code),
                "command": f"{sys.executable} {SCRIPT.name} ${{{{search_space.x}}}}",
            },
            "sampling_algorithm": "grid",
            "search_space": {"x": {"type": "choice", "values": list(range(size.trials))}},
            "objective": {"goal": "maximize", "primary_metric": "score"},
            "limits": {"max_total_trials": size.trials, "max_concurrent_trials": size.concurrent},
            "drumbeat": {"environment": "current"},
        }

    def _server(self) -> psutil.Process:
        return next(one for one in processes_of(self.home) if kind_of(command_of(one)) == "server")

    def _wait_for_agents(self) -> None:
        """Waits until the last trial has left nothing that could disturb the next way."""
        while any((self.home / "nodes").glob("[!.]*")):
            time.sleep(0.05)

    def _phases(self, trial: str) -> dict[str, float]:
        begun, *rest = self.client.story(trial)
        phases, last = dict.fromkeys(PHASES.values(), 0.0), begun.at
        for line in rest:
            if str(line.reason) in PHASES:
                phases[PHASES[str(line.reason)]] += (line.at - last).total_seconds()
                last = line.at
        return phases


def measure(options: argparse.Namespace) -> dict[str, list[Sweep]]:
    """Every way, in turns; a first round that is not counted fills the caches."""
    size = Size(options.trials, options.concurrent)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="drumbeat-bench-")))
        code = folder / "code"
        code.mkdir()
        shutil.copy(SCRIPT, code)
        home = stack.enter_context(serving())
        drumbeat = Drumbeat(home, stack.enter_context(Client(home)), code)
        ways = {"bare": run_bare, "drumbeat": drumbeat.run, "optuna": partial(run_optuna, folder=folder)}
        if not options.without_ray:
            ray = RayTune(options.ray) if options.ray else stack.enter_context(make_ray(folder / "ray"))
            ways["ray"] = ray.run
        found: dict[str, list[Sweep]] = {name: [] for name in ways}
        for number in range(options.rounds + 1):
            for name, way in ways.items():
                sweep = way(Size(options.concurrent, options.concurrent) if number == 0 else size)
                found[name] += [sweep] if number else []
                told = f"{sweep.wall_s:.2f} s, load {os.getloadavg()[0]:.1f}"
                print(f"round {number}/{options.rounds}  {name:9} {told}", flush=True)
    return found


def main() -> None:
    """Measures, prints the report, writes it if asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--trials", type=int, default=16)
    parser.add_argument("--concurrent", type=int, default=2, help="trials at once (2)")
    parser.add_argument("--ray", type=Path, metavar="PYTHON", help="of a virtual environment that has ray[tune]")
    parser.add_argument("--without-ray", action="store_true", help="leave Ray out: it takes 600 MB")
    parser.add_argument("--write", type=Path, metavar="FILE", help="also write the report to FILE")
    options = parser.parse_args()
    machine = describe_machine()
    found = measure(options)
    size = Size(options.trials, options.concurrent)
    text = render(found, size, f"{machine}, after the last {os.getloadavg()[0]:.1f}")
    publish(text, options.write)


if __name__ == "__main__":
    main()

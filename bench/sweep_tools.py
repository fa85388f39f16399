"""Sweeps of the empty trial by what drumbeat is compared with: a loop of subprocesses, Optuna, and Ray Tune."""

import os
import subprocess
import sys
import time
import venv
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from bench.start_runs import HERE

SCRIPT = HERE / "empty_trial.py"


@dataclass(frozen=True)
class Sweep:
    """One sweep: seconds from its start to its end."""

    wall_s: float
    cpu_s: float | None = None
    """CPU seconds of all its processes; None = not measured."""
    server_cpu_s: float = 0.0
    """Those of drumbeat's server among them."""
    phases: list[dict[str, float]] = field(default_factory=list[dict[str, float]])
    """Of each trial, seconds by the name of the phase."""


@dataclass(frozen=True)
class Size:
    """How many trials a sweep has, and how many run at once."""

    trials: int
    concurrent: int


def call_trial(value: float) -> float:
    """Runs the trial's script to its end; returns the value that it printed."""
    command = [sys.executable, SCRIPT, str(value)]
    return float(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)


def _timed(work: Callable[[], None]) -> Sweep:
    cpu_s, begun = sum(os.times()[:4]), time.monotonic()
    work()
    return Sweep(time.monotonic() - begun, sum(os.times()[:4]) - cpu_s)


def run_bare(size: Size) -> Sweep:
    """Runs the script once for each trial, and nothing else."""

    def work() -> None:
        with ThreadPoolExecutor(size.concurrent) as pool:
            assert list(pool.map(call_trial, range(size.trials))) == list(range(size.trials))

    return _timed(work)


def run_optuna(size: Size, folder: Path) -> Sweep:
    """Runs a study of the same grid, stored in a new SQLite file, whose objective calls the script."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    values = list(range(size.trials))

    def objective(trial: "optuna.Trial") -> float:
        return call_trial(trial.suggest_categorical("x", values))

    def work() -> None:
        storage = f"sqlite:///{folder}/optuna-{time.time_ns()}.db"
        sampler = optuna.samplers.GridSampler({"x": values})
        study = optuna.create_study(storage=storage, sampler=sampler, direction="maximize")
        study.optimize(objective, n_trials=size.trials, n_jobs=size.concurrent)
        assert study.best_value == size.trials - 1

    return _timed(work)


@dataclass(frozen=True)
class RayTune:
    """A Ray in a virtual environment of its own. A cluster is started for each sweep, before the clock is."""

    python: Path

    def run(self, size: Size) -> Sweep:
        """Runs the same grid with a function that calls the script."""
        command = [self.python, HERE / "ray_trials.py", str(size.trials), str(size.concurrent), sys.executable, SCRIPT]
        ended = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        return Sweep(float(ended.stdout.split()[-1]))


@contextmanager
def make_ray(folder: Path) -> Iterator[RayTune]:
    """Ray Tune, installed into a folder: about 600 MB."""
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "-q", "ray[tune]"], check=True, stderr=subprocess.DEVNULL)
    yield RayTune(python)

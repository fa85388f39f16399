"""Samplers of bayesian sweeps, which query the process that runs Optuna with the results of all trials.

`optuna_program.py` builds the study, also from failed trials; `optuna_client.py` runs the process.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from drumbeat.core.child_jobs import TrialProgress
from drumbeat.jobfile.sweeping.sweep import SweepJob
from drumbeat.model.errors import RefusedError
from drumbeat.model.states import State
from drumbeat.server.sweeps.samplers.optuna_client import OptunaProcess

MAX_AT_ONCE = 50
"""Trials in one query. With 1,000 trials each takes 0.1 s, so other sweeps wait for a few seconds at most."""


class BayesianSamplers:
    """Returns the samplers of sweeps, which share one process that starts with the first query."""

    def __init__(self, process: OptunaProcess | None = None) -> None:
        self.process = process or OptunaProcess()

    def __call__(self, name: str, sweep: SweepJob, seed: int) -> BayesianSampler:
        """Returns the sampler of a sweep. Raises RefusedError if Optuna isn't installed."""
        if find_spec("optuna") is None:
            what = f"sweep {name} needs Optuna for its bayesian sampling, and the server's Python doesn't have it"
            raise RefusedError(what, where="sampling_algorithm", fix="Install it beside the server: pip install optuna")
        return BayesianSampler(self.process, sweep, seed)


@dataclass(frozen=True)
class BayesianSampler:
    """Implements the port `Sampler`. It is stateless, so a restart of the server or of Optuna changes no answer."""

    process: OptunaProcess
    sweep: SweepJob
    seed: int

    def ask(self, count: int, trials: Sequence[TrialProgress]) -> list[dict[str, Any]]:
        results, proposed = [_result(trial) for trial in trials], list[dict[str, Any]]()
        while len(proposed) < count:
            running = [_running(values) for values in proposed]
            proposed += self._ask(min(MAX_AT_ONCE, count - len(proposed)), [*results, *running])
        return proposed

    def _ask(self, count: int, results: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        space = {name: function.model_dump(mode="json") for name, function in self.sweep.search_space.items()}
        goal = self.sweep.objective.goal
        return self.process.ask({"space": space, "goal": goal, "seed": self.seed, "trials": results, "count": count})


def _running(values: dict[str, Any]) -> dict[str, Any]:
    return {"values": values, "state": "running", "value": None}


def _result(trial: TrialProgress) -> dict[str, Any]:
    """Returns a trial for a query. A stopped or canceled trial counts with its best value so far."""
    if not trial.has_ended:
        return _running(trial.values)
    is_failed = trial.state is State.FAILED or trial.best is None
    return {"values": trial.values, "state": "failed" if is_failed else "ended", "value": trial.best}

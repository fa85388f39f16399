"""Samplers of bayesian sweeps: each asks the one process that runs Optuna, with all that is known of its trials.

What the study makes of them, failed ones too, is in `optuna_program.py`; `optuna_client.py` talks to that process.
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
"""Trials in one question: a tenth of a second each with 1,000 trials, so other sweeps wait for seconds at most."""


class BayesianSamplers:
    """Gives the samplers of sweeps. They share one process, which starts with the first question."""

    def __init__(self, process: OptunaProcess | None = None) -> None:
        self.process = process or OptunaProcess()

    def __call__(self, name: str, sweep: SweepJob, seed: int) -> BayesianSampler:
        """Returns the sampler of a sweep. Raises RefusedError where Optuna isn't installed."""
        if find_spec("optuna") is None:
            what = f"sweep {name} needs Optuna for its bayesian sampling, and the server's Python doesn't have it"
            raise RefusedError(what, where="sampling_algorithm", fix="Install it beside the server: pip install optuna")
        return BayesianSampler(self.process, sweep, seed)


@dataclass(frozen=True)
class BayesianSampler:
    """Fills the port `Sampler`. It keeps nothing, so a restart of the server or of Optuna changes no answer."""

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
    """A trial as the question has it. One that was stopped or canceled counts with its best value so far."""
    if not trial.has_ended:
        return _running(trial.values)
    is_failed = trial.state is State.FAILED or trial.best is None
    return {"values": trial.values, "state": "failed" if is_failed else "ended", "value": trial.best}

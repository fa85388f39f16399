"""The server's sampler: grid and random are pure functions, bayesian is Optuna's."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec

from drumbeat.core.sweeping.parameters import Value
from drumbeat.core.sweeping.search import SampledTrial, Search, sample
from drumbeat.dialect.sweeping.sweep import BayesianSampling
from drumbeat.samplers.optuna_process import OptunaProcess


class ServerSampler:
    """Fills the port `Sampler`. The Optuna process of all sweeps starts with the first bayesian question."""

    def __init__(self, optuna: OptunaProcess | None = None) -> None:
        self._optuna = optuna or OptunaProcess()

    def missing(self, search: Search) -> str:
        if isinstance(search.sampling, BayesianSampling) and find_spec("optuna") is None:
            return "bayesian sampling needs Optuna, and the server's Python doesn't have it: pip install optuna"
        return ""

    def ask(self, search: Search, trials: Sequence[SampledTrial], count: int) -> tuple[dict[str, Value], ...]:
        if isinstance(search.sampling, BayesianSampling):
            return self._optuna.ask(search, trials, count)
        return sample(search, trials, count)

    def close(self) -> None:
        self._optuna.close()

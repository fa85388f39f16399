"""How busy the ranks of trials were, read from what their nodes measured."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from statistics import fmean

from drumbeat.core.child_jobs import trial_name
from drumbeat.core.lifecycle.job import Job
from drumbeat.core.sweeps.parallel_trials import MIN_TRIALS
from drumbeat.model.metrics import run_id
from drumbeat.model.states import State
from drumbeat.server.metrics.metric_records import HistoryPage

CPU_CORES = "system/cpu_cores"
"""The cores that a rank used, as its node measured every 5 s."""


class BusyShares:
    """Reads the share of their time that the ranks of the first completed trials worked.

    One core is taken as all that a rank can use: several ranks on a node get one thread each. Trials with one rank, and
    with GPUs, are not measured: nothing would be said of the former, and a GPU's work does not show in the cores.
    """

    def __init__(self, history: Callable[[str, str, int, int], HistoryPage]) -> None:
        self._history = history
        self._known: dict[str, dict[int, float | None]] = {}
        """By the unique name of the sweep and number of the completed trial; None = it was too short to be measured."""

    def __call__(self, job: Job) -> Mapping[int, float]:
        """Returns the share of each measured trial by its number; {} until enough trials have completed."""
        sweep = job.sweep
        if sweep is None or sweep.is_compared or sweep.ranks < 2 or job.plan.gpus_per_node:
            return {}
        measured = self._known.setdefault(job.unique_name, {})
        shares: dict[int, float] = {}
        for trial in [one for one in sweep.trials if one.state is State.COMPLETED]:
            if trial.number not in measured:
                measured[trial.number] = self._share(trial_name(job.name, trial.number), sweep.ranks)
            share = measured[trial.number]
            if share is not None and len(shares) < MIN_TRIALS:
                shares[trial.number] = share
        return shares if len(shares) == MIN_TRIALS else {}

    def forget_all_but(self, sweeps: Collection[str]) -> None:
        """Keeps only what was measured for these sweeps."""
        self._known = {name: measured for name, measured in self._known.items() if name in sweeps}

    def _share(self, trial: str, ranks: int) -> float | None:
        means: list[float] = []
        for rank in range(ranks):
            values = [point.value for point in self._history(run_id(trial), CPU_CORES, rank, 0).points]
            if values:
                means.append(min(1.0, fmean(values)))
        return fmean(means) if len(means) == ranks else None

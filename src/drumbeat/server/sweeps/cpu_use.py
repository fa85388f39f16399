"""The share of time in which the ranks of trials were working, from the measurements of their nodes."""

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
"""The metric of a rank's used cores, measured every 5 s."""


class BusyShares:
    """Reads the share of time in which the ranks of the first completed trials were working.

    One core counts as full use, because several ranks on a node get one thread each. Trials with one rank or with GPUs
    aren't measured: there is no advice for the former, and the work of GPUs doesn't show in the cores.
    """

    def __init__(self, history: Callable[[str, str, int, int], HistoryPage]) -> None:
        self._history = history
        self._known: dict[str, dict[int, float | None]] = {}
        """Shares by the sweep's unique name and the trial's number; None = the trial was too short to be measured."""

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
        """Drops the measurements of all other sweeps."""
        self._known = {name: measured for name, measured in self._known.items() if name in sweeps}

    def _share(self, trial: str, ranks: int) -> float | None:
        means: list[float] = []
        for rank in range(ranks):
            values = [point.value for point in self._history(run_id(trial), CPU_CORES, rank, 0).points]
            if values:
                means.append(min(1.0, fmean(values)))
        return fmean(means) if len(means) == ranks else None

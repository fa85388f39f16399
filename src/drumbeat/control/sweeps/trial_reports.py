"""What the trials of sweeps have reported of their primary metric: read from the metrics once, then continued."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from drumbeat.core.child_jobs import trial_name
from drumbeat.core.life.job import Job
from drumbeat.ports.metrics import HistoryPage
from drumbeat.protocol.metrics import run_id


@dataclass
class _TrialReports:
    """The values read so far. after: where `MetricStore.history` goes on."""

    values: list[float] = field(default_factory=list[float])
    after: int = 0


class SweepReports:
    """Reads the primary metric of rank 0 of each trial. For one thread."""

    def __init__(self, history: Callable[[str, str, int, int], HistoryPage]) -> None:
        self._history = history
        """Reads a page as `MetricStore.history` does: of a run, metric and rank, from a place on."""
        self._known: dict[str, dict[int, _TrialReports]] = {}
        """By the unique name of the sweep and number of the trial."""

    def __call__(self, job: Job) -> Mapping[int, Sequence[float]]:
        """Returns the values of each trial by its number, in the order of their arrival."""
        if job.sweep is None:
            return {}
        by_number = self._known.setdefault(job.unique_name, {})
        for trial in job.sweep.trials:
            if trial.state is not None and (trial.number not in by_number or not trial.has_ended):
                self._continue(job, trial.number, by_number.setdefault(trial.number, _TrialReports()))
        return {number: reports.values for number, reports in by_number.items()}

    def forget_all_but(self, sweeps: Collection[str]) -> None:
        """Keeps only what was read for these sweeps."""
        self._known = {name: by_number for name, by_number in self._known.items() if name in sweeps}

    def _continue(self, job: Job, number: int, reports: _TrialReports) -> None:
        metric = job.sweep.metric if job.sweep else ""
        run = run_id(trial_name(job.name, number))
        while True:
            page = self._history(run, metric, 0, reports.after)
            reports.values += [point.value for point in page.points]
            reports.after = page.after
            if page.is_last:
                break

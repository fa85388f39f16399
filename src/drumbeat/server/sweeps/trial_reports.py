"""The reported values of the primary metric of trials, read from the metrics incrementally."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from drumbeat.core.child_jobs import trial_name
from drumbeat.core.lifecycle.job import Job
from drumbeat.model.metrics import run_id
from drumbeat.server.metrics.metric_records import HistoryPage


@dataclass
class _TrialReports:
    """The values read so far. after: the position for the next call of `SqlMetricStore.history`."""

    values: list[float] = field(default_factory=list[float])
    after: int = 0
    run: str = ""
    """The name of the run that the values come from; "" = the trial's own run."""


Nested = Callable[[str, str], tuple[str, Sequence[float]]]
"""Returns the first other run of a job that has a metric, and its values; "" = none has it."""


def no_nested(_job: str, _metric: str) -> tuple[str, Sequence[float]]:
    """Returns no run."""
    return "", ()


class SweepReports:
    """Reads the primary metric of rank 0 of each trial. For one thread.

    For an ended trial whose own run has no value, those of another run of the trial count, for example of a fold. While
    the trial runs, its own run may still get one, such as the mean over the folds.
    """

    def __init__(self, history: Callable[[str, str, int, int], HistoryPage], nested: Nested = no_nested) -> None:
        self._history, self._nested = history, nested
        """Reads a page like `SqlMetricStore.history`: of a run, metric and rank, after a position."""
        self._known: dict[str, dict[int, _TrialReports]] = {}
        """Reports by the sweep's unique name and the trial's number."""

    def __call__(self, job: Job, ended: Collection[str] = ()) -> Mapping[int, Sequence[float]]:
        """Returns the values of each trial by its number, in the order of their arrival. ended: jobs of trials."""
        if job.sweep is None:
            return {}
        by_number = self._known.setdefault(job.unique_name, {})
        for trial in job.sweep.trials:
            if trial.state is not None and (trial.number not in by_number or not trial.has_ended):
                reports = by_number.setdefault(trial.number, _TrialReports())
                self._continue(job, trial.number, reports)
                name = trial_name(job.name, trial.number)
                if name in ended and not reports.values:
                    reports.run, values = self._nested(name, job.sweep.metric)
                    reports.values += values
        return {number: reports.values for number, reports in by_number.items()}

    def runs(self, job: Job) -> Mapping[int, str]:
        """Returns the run of each trial whose values come from another run than its own."""
        return {number: one.run for number, one in self._known.get(job.unique_name, {}).items() if one.run}

    def forget_all_but(self, sweeps: Collection[str]) -> None:
        """Drops the reports of all other sweeps."""
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

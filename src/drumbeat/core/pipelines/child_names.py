"""The names of a pipeline's jobs: a step must not be named like a trial of a sweep that is a step beside it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from drumbeat.core.child_jobs import trial_name
from drumbeat.model.errors import SpecError
from drumbeat.model.plurals import counted


def check_child_names(steps: Iterable[str], max_trials: Mapping[str, int]) -> None:
    """Raises SpecError where the job of a step would have the name of a trial's job.

    steps: their paths. max_trials: the number of trials that each sweep among them may have.
    """
    for path in steps:
        sweep, _, digits = path.rpartition("_")
        if sweep not in max_trials or not digits.isdecimal():
            continue
        number, trials = int(digits), max_trials[sweep]
        if path == trial_name(sweep, number) and number < trials:
            what = (
                f"step {path} has the name of trial {number} of step {sweep}, a sweep of at most "
                f"{counted(trials, 'trial')}: both jobs would be named PIPELINE_{path.replace('/', '-')}"
            )
            name = path.rpartition("/")[2]
            fix = f"Rename one of the two steps, for example `{name}` to `{name.removesuffix(f'_{digits}')}{digits}`."
            raise SpecError(what, where=f"step {path}", fix=fix)

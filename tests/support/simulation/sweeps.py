"""What must hold of sweeps after every step."""

from __future__ import annotations

from drumbeat.core.child_jobs import SweepProgress, trial_name
from drumbeat.core.lifecycle.job import Job
from tests.support.simulation import pipelines
from tests.support.simulation.backing import Sight
from tests.support.simulation.violation import require


def check(sight: Sight) -> None:
    """Checks every sweep. Raises Violation."""
    for record in sight.records.values():
        if record.job.sweep:
            _check_sweep(sight, record.job, record.job.sweep)
        elif record.job.parent:
            _check_trial(sight, record.job)


def _check_sweep(sight: Sight, sweep: Job, progress: SweepProgress) -> None:
    require([one.number for one in progress.trials] == [*range(len(progress.trials))], f"{sweep.name} lost a trial")
    require(len(progress.trials) <= progress.max_trials, f"{sweep.name} has too many trials")
    values = [str(one.values) for one in progress.trials]
    require(len(set(values)) == len(values), f"{sweep.name} tries the same values twice: {values}")
    jobs = [record.job for record in sight.records.values() if record.job.parent == sweep.name]
    active = [job.name for job in jobs if not job.state.is_terminal]
    require(len(active) <= progress.max_concurrent, f"{sweep.name} has {len(active)} active trials")
    require(not (sweep.state.is_terminal and active), f"{sweep.name} has ended, and {active} have not")
    for one in progress.trials:
        record = sight.records.get(trial_name(sweep.name, one.number))
        is_seen = one.state is None or record is not None or one.sentence != ""
        require(is_seen, f"trial {one.number} of {sweep.name} is {one.state}, and has no job")
        if one.has_ended and record is not None:
            require(record.job.state is one.state, f"{record.job.name} is {record.job.state}, believed {one.state}")


def _check_trial(sight: Sight, trial: Job) -> None:
    parent = sight.records.get(trial.parent)
    if parent is not None and parent.job.pipeline is not None:
        pipelines.check_step(trial, parent.job)
        return
    if parent is not None and parent.job.deployment is not None:
        return  # Checked with the deployment, which forgets replicas that have ended.
    require(parent is not None and parent.job.sweep is not None, f"{trial.name} has no sweep")
    if parent is not None and parent.job.sweep is not None:
        names = [trial_name(trial.parent, one.number) for one in parent.job.sweep.trials]
        require(trial.name in names, f"{trial.parent} does not know {trial.name}")

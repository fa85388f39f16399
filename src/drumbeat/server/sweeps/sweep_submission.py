"""Turns a request for a sweep into its job. An example trial is planned as a check; nothing is written yet."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from drumbeat.core.child_jobs import SweepProgress, trial_name
from drumbeat.core.lifecycle.events import JobEvent
from drumbeat.core.lifecycle.job import Job
from drumbeat.core.planning.plan import Planned
from drumbeat.core.scheduling.resource_needs import JobPolicy, Need
from drumbeat.core.sweeps import early_termination, random_sampling
from drumbeat.core.sweeps.trial_jobs import max_trials, notes, own_trial, trial_document
from drumbeat.core.sweeps.trial_values import Values
from drumbeat.jobfile.reading.writer import to_dict
from drumbeat.jobfile.sweeping.early_termination import Asha
from drumbeat.jobfile.sweeping.sweep import RandomSampling, SweepJob
from drumbeat.model.api.requests import JobRequest
from drumbeat.model.plan import OutputPlan, Plan
from drumbeat.model.plurals import counted
from drumbeat.model.states import JobKind, Reason, State


def example_trial(request: JobRequest, sweep: SweepJob, name: str) -> JobRequest:
    """Returns the request of a trial with some values of the search space, to check the sweep.

    Its outputs are the sweep's, including the names for registration, so that these are checked, too.
    """
    values = random_sampling.draw(sweep.search_space, RandomSampling(), 0, 0)
    asked = trial_request(request, sweep, name, 0, values)
    outputs = to_dict(sweep).get("outputs")
    return replace(asked, document={**asked.document, "outputs": outputs}) if outputs else asked


def trial_request(request: JobRequest, sweep: SweepJob, name: str, number: int, values: Values) -> JobRequest:
    """Returns the request for the job of a trial. name: the sweep's."""
    job = trial_name(name, number)
    document = trial_document(sweep, name, number, values)
    return replace(request, document=document, key=child_key(name, job), source=f"{request.source}: trial {number}")


def child_key(parent: str, child: str) -> str:
    """Returns the idempotency key of a child, so that it is submitted only once."""
    return f"child/{parent}/{child}"


def new_sweep(request: JobRequest, sweep: SweepJob, trial: Planned, name: str, now: datetime) -> tuple[Job, JobEvent]:
    """Returns a new sweep and its first event. trial: the plan of the example trial."""
    of_trial = trial.plan
    plan = Plan(
        job=name,
        experiment=of_trial.experiment,
        launcher=JobKind.SWEEP.value,
        nodes=0,
        processes_per_node=0,
        command=own_trial(sweep).command,
        ranks=(),
        inputs=of_trial.inputs,  # Inputs and code are needed until the last trial is submitted.
        outputs=tuple(
            OutputPlan(one.name, one.type, "upload", asset=one.asset, version=one.version)
            for one in of_trial.outputs
            if one.asset
        ),
        code=of_trial.code,
        compute=of_trial.compute,
        environment=of_trial.environment,
        gpus_per_node=of_trial.gpus_per_node,
    )
    limits = sweep.limits
    total = max_trials(sweep)
    job = Job(
        name=name,
        plan=plan,
        need=Need(0, 0),
        policy=JobPolicy(trial.policy.priority, 0, limits.timeout, trial.policy.notify, trial.policy.notify_on),
        submitted_at=now,
        started_at=now,
        state=State.RUNNING,
        reason=Reason.TRIALS_RUNNING,
        display_name=sweep.display_name or "",
        description=sweep.description or "",
        tags=dict(sweep.tags),
        sweep=SweepProgress(
            goal=sweep.objective.goal,
            metric=sweep.objective.primary_metric,
            max_trials=total,
            max_concurrent=min(limits.max_concurrent_trials or total, total),
            rule=_rule(sweep),
            ranks=of_trial.world_size,
        ),
    )
    further = "".join(f"; {note}" for note in (*notes(sweep), *trial.notes, *request.notes))
    sentence = f"accepted: at most {counted(total, 'trial')} on compute {of_trial.compute}{further}"
    return replace(job, sentence=sentence), JobEvent(now, job.state, job.reason, sentence)


def _rule(sweep: SweepJob) -> dict[str, object]:
    """Returns the rule for early termination in the form of `SweepProgress`."""
    rule = early_termination.rule_for(sweep)
    if rule is None:
        return {}
    kind = "asha" if isinstance(rule, Asha) else rule.type
    return {**to_dict(rule), "type": kind}

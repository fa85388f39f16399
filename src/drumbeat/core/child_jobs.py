"""The children of a parent job, as the parent keeps them: trials of a sweep, steps of a pipeline, replicas of a
deployment.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from drumbeat.model.states import JobKind, State


@dataclass(frozen=True)
class TrialProgress:
    """A trial of a sweep."""

    number: int
    values: dict[str, Any] = field(default_factory=dict[str, Any])
    """The value of each parameter, as the sampler chose it."""
    state: State | None = None
    """The state of its job; None = the job isn't submitted yet."""
    sentence: str = ""
    """Why its job is in that state, or why it isn't submitted yet."""
    reports: int = 0
    """How often rank 0 has reported the primary metric."""
    best: float | None = None
    """The best value that it reported; None = none yet."""
    last: float | None = None
    run: str = ""
    """The run beside its job's own that these come from, by its name; "" = they come from the job's own."""
    evaluated: int = 0
    """The number of reports at which the rule for ending trials early was last applied to it."""
    stopped: str = ""
    """Why the rule ended it, "" = it did not."""
    is_canceling: bool = False
    """Whether its job was asked to stop."""

    @property
    def is_active(self) -> bool:
        """Whether its job is submitted and has not ended."""
        return self.state is not None and not self.state.is_terminal

    @property
    def has_ended(self) -> bool:
        """Whether its job has ended."""
        return self.state is not None and self.state.is_terminal

    @property
    def is_good(self) -> bool:
        """Whether its metric counts: it completed, or the rule ended it."""
        return self.state is State.COMPLETED or (self.has_ended and bool(self.stopped))


@dataclass(frozen=True)
class SweepProgress:
    """A sweep: what was asked for, and the trials so far, by number."""

    goal: str
    """`minimize` or `maximize`."""
    metric: str
    max_trials: int
    max_concurrent: int
    rule: dict[str, Any] = field(default_factory=dict[str, Any])
    """The rule by which trials are ended early, as the job file has it; empty = none."""
    trials: tuple[TrialProgress, ...] = ()
    is_exhausted: bool = False
    """Whether the sampler has no further parameters."""
    is_asking: bool = False
    """Whether the sampler is being asked."""
    ranks: int = 1
    """The ranks of each trial."""
    is_compared: bool = False
    """Whether the first trials were already used to judge if trials would finish sooner side by side."""

    @property
    def active(self) -> tuple[TrialProgress, ...]:
        """The trials that count against `max_concurrent`: submitted or about to be, and not ended."""
        return tuple(trial for trial in self.trials if not trial.has_ended)


def trial_name(sweep: str, number: int) -> str:
    """Returns the name of a trial's job, as Azure ML names child runs."""
    return f"{sweep}_{number}"


@dataclass(frozen=True)
class StepProgress:
    """A step of a pipeline."""

    path: str
    """Its name, with those of the nested pipelines around it: `outer/inner`."""
    after: tuple[str, ...] = ()
    """The steps whose outputs it takes."""
    kind: JobKind = JobKind.COMMAND
    is_continued: bool = False
    """Whether steps that do not depend on it go on when it fails."""
    is_submitted: bool = False
    """Whether its job exists or was requested."""
    state: State | None = None
    """The state of its job; None = the job isn't submitted yet."""
    sentence: str = ""
    """Why its job is in that state, or why it isn't submitted yet."""
    reused: str = ""
    """The earlier job whose outputs are taken, instead of running the step; "" = it runs."""
    skipped: str = ""
    """Why it is never run, "" = it is, or may be."""
    is_canceling: bool = False
    """Whether its job was asked to stop."""

    @property
    def is_active(self) -> bool:
        """Whether its job exists and has not ended."""
        return self.state is not None and not self.state.is_terminal

    @property
    def is_done(self) -> bool:
        """Whether its outputs can be taken."""
        return self.state is State.COMPLETED

    @property
    def has_failed(self) -> bool:
        """Whether its job ended without completing."""
        return self.state in (State.FAILED, State.CANCELED)

    @property
    def has_ended(self) -> bool:
        """Whether its outcome can no longer change."""
        return bool(self.skipped) or (self.state is not None and self.state.is_terminal)


@dataclass(frozen=True)
class PipelineOutput:
    """An output of a pipeline, and the step whose output it is."""

    name: str
    step: str
    output: str


@dataclass(frozen=True)
class PipelineProgress:
    """A pipeline and its steps, each after those whose outputs it takes."""

    steps: tuple[StepProgress, ...] = ()
    outputs: tuple[PipelineOutput, ...] = ()
    snapshots: tuple[str, ...] = ()
    """The digests of what the client sent for its steps: kept until the last of them is submitted."""

    def step(self, path: str) -> StepProgress | None:
        """Returns a step by its path."""
        return next((one for one in self.steps if one.path == path), None)

    def result_job(self, pipeline: str, path: str) -> str:
        """Returns the job that has the outputs of a step: its own, or the earlier one that is reused."""
        step = self.step(path)
        return (step.reused if step else "") or step_name(pipeline, path)


def step_name(pipeline: str, path: str) -> str:
    """Returns the name of a step's job.

    A step's own name has no hyphen, so that the names of two steps never meet. A step that would be named like a trial
    is refused by `core/pipelines/child_names.py`.
    """
    return f"{pipeline}_{path.replace('/', '-')}"


@dataclass(frozen=True)
class ReplicaProgress:
    """A replica of a deployment. Replicas whose job has ended are dropped."""

    number: int
    """Counts over the deployment's whole life."""
    generation: int
    """The generation of the deployment that it runs."""
    state: State | None = None
    """The state of its job; None = the job isn't submitted yet."""
    sentence: str = ""
    """Why its job is in that state, or why it isn't submitted yet."""
    started_at: datetime | None = None
    """When its ranks were first seen running in this round; None = they don't run."""
    ready_since: datetime | None = None
    """Since when it takes requests; None = it takes none."""
    was_ready: bool = False
    """Whether it has taken requests before."""
    waits_since: datetime | None = None
    """Since when its job waits for a free slot; None = it doesn't."""
    failures: int = 0
    """How often it has failed and was started again, without those that are forgotten."""
    failure: str = ""
    """What the last of them was."""
    is_leaving: bool = False
    """Whether it is wanted no more."""
    is_canceling: bool = False
    """Whether its job was asked to stop."""

    @property
    def is_ready(self) -> bool:
        """Whether it takes requests."""
        return self.ready_since is not None

    @property
    def is_active(self) -> bool:
        """Whether its job is submitted and has not ended."""
        return self.state is not None and not self.state.is_terminal

    @property
    def has_ended(self) -> bool:
        """Whether its job has ended."""
        return self.state is not None and self.state.is_terminal


@dataclass(frozen=True)
class DeploymentProgress:
    """A deployment: what was asked for, and the replicas that exist."""

    endpoint: str
    deployment: str
    generation: int = 1
    """The newest generation: each other model, code, environment or setting of the replicas makes one."""
    wanted: int = 1
    """The number of replicas that there should be."""
    ready_within_s: float = 310.0
    """How long a replica may run before it is ready."""
    serving: int = 0
    """The newest generation of which a replica was ready; 0 = none."""
    failed: int = 0
    """The newest generation that was given up, because its replicas failed before any was ready; 0 = none."""
    failure: str = ""
    """Why it was given up."""
    failures: int = 0
    """Replicas that ended by themselves since one was last ready for a while."""
    retry_at: datetime | None = None
    """When the next replica is submitted after such failures; None = at once."""
    next_number: int = 0
    """The number of the next replica."""
    replicas: tuple[ReplicaProgress, ...] = ()
    snapshots: tuple[str, ...] = ()
    """The digests of the code of its generations, which are kept as long as it runs."""

    @property
    def target(self) -> int:
        """The generation that should serve: the newest one, or the one before if that was given up."""
        return self.serving if self.failed == self.generation and self.serving else self.generation

    @property
    def ready(self) -> tuple[ReplicaProgress, ...]:
        """The replicas that take requests."""
        return tuple(one for one in self.replicas if one.is_ready and not one.is_leaving)

    def replica(self, deployment: str, job: str) -> ReplicaProgress | None:
        """Returns a replica by the name of its job. deployment: the name of the deployment's own job."""
        return next((one for one in self.replicas if replica_name(deployment, one.number) == job), None)


def replica_name(deployment: str, number: int) -> str:
    """Returns the name of a replica's job."""
    return f"{deployment}_{number}"

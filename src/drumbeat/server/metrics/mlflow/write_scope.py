"""The write permissions of MLflow's API: a job may change its own things, a contributor those of their own jobs.

Everything can be read. The steps of a pipeline and the trials of a sweep count as one job, because one step may
register a model and the next one tag it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from drumbeat.core.lifecycle.job import Job
from drumbeat.model.errors import NotFoundError
from drumbeat.model.metrics import Run, experiment_id
from drumbeat.model.mlflow_calls import DENIED, MlflowRefusal
from drumbeat.model.principal import Principal, Role
from drumbeat.server.loop.loop import Loop
from drumbeat.server.metrics.metric_records import Document, Experiment
from drumbeat.server.models.mlflow_rows import ModelRow

OWNER = "owner"
"""The key in a document's body for the mark of the job that created it. Documents of users have none."""
OWNER_TAG = "drumbeat.owner"
"""The tag with this mark of an experiment that a job created. Hidden from clients."""

_OF_JOBS = "A job changes its own runs, and the experiments and models that it made"
_BY_HAND = "Do it outside of the job, with your own token in MLFLOW_TRACKING_TOKEN."


@dataclass(frozen=True)
class WriteScope:
    """The write permissions of one caller. Every `require_…` raises MlflowRefusal."""

    title: str
    """The caller in messages."""
    owns_job: Callable[[str], bool]
    """Whether a job's runs are the caller's own."""
    job: str = ""
    """The job whose runs it creates; "" = the caller is a user."""
    experiment: str = ""
    """The id of the job's experiment, to which it may add tags."""
    mark: str = ""
    """What the documents that it makes are known again by; "" = a user's, whose documents all users share."""

    def require_run(self, run: Run) -> None:
        """Requires that the caller may change a run."""
        is_own = self.owns_job(run.job) if run.job else not self.job
        if not is_own:
            of_job = f" of job {run.job}" if run.job else ""
            raise self._refusal(f"run {run.id}{of_job}")

    def require_experiment(self, experiment: Experiment, new_tag: str = "") -> None:
        """Requires that the caller may change an experiment. new_tag: the change only adds this tag."""
        is_home = experiment.id == self.experiment and new_tag not in ("", *experiment.tags)
        if self.job and not is_home and experiment.tags.get(OWNER_TAG) != self.mark:
            raise self._refusal(f"experiment {experiment.name!r}")

    def require_document(self, document: Document | ModelRow, title: str) -> None:
        """Requires that the caller may change a registered model or a version of one."""
        if not self.owns(document):
            raise self._refusal(title)

    def owns(self, document: Document | ModelRow) -> bool:
        """Whether the caller may change a document of the registry."""
        return not self.job or document.body.get(OWNER) == self.mark

    def _refusal(self, what: str) -> MlflowRefusal:
        rule = f"{_OF_JOBS}. {_BY_HAND}" if self.job else "Contributors change what their own jobs log, and owners all."
        return MlflowRefusal(DENIED, f"{self.title} may not change {what}. {rule}")


def scope_of_job(loop: Loop, name: str) -> WriteScope:
    """Returns the permissions of a job's nodes. Raises NotFoundError."""
    job, root = loop.record(name).job, _root(loop, name)

    def owns_job(other: str) -> bool:
        try:
            return other == name or _root(loop, other) == root
        except NotFoundError:
            return False

    return WriteScope(f"Job {name}", owns_job, name, experiment_id(job.plan.experiment), root)


def scope_of_user(loop: Loop, principal: Principal) -> WriteScope | None:
    """Returns the permissions of a user; None = unrestricted."""
    if principal.role is Role.OWNER:
        return None

    def owns_job(name: str) -> bool:
        try:
            return loop.record(name).job.user == principal.user
        except NotFoundError:
            return False

    return WriteScope(f"{principal.title}, a {principal.role},", owns_job)


def _root(loop: Loop, name: str) -> str:
    """Returns the unique name of the outermost sweep or pipeline of a job, or else its own."""
    job: Job = loop.record(name).job
    while job.parent:
        try:
            job = loop.record(job.parent).job
        except NotFoundError:  # It was deleted meanwhile, and its children will be, too.
            return job.parent
    return job.unique_name
